//! Reading a JSON object without losing anything: a repeated key is refused.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value};

/// Reads one JSON object. A repeated key is an error: nobody can tell which of its values is right.
pub fn parse_object(json: &[u8]) -> Result<Map<String, Value>, serde_json::Error> {
    serde_json::from_slice::<UniqueKeys>(json).map(|UniqueKeys(object)| object)
}

/// An object whose keys are all different.
pub(super) struct UniqueKeys(pub(super) Map<String, Value>);

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UniqueKeys, D::Error> {
        deserializer.deserialize_map(UniqueKeysVisitor)
    }
}

pub(super) struct UniqueKeysVisitor;

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = UniqueKeys;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<UniqueKeys, A::Error> {
        let mut object = Map::new();
        while let Some((key, value)) = entries.next_entry::<String, Value>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format!("{key} stands there twice")));
            }
            object.insert(key, value);
        }
        Ok(UniqueKeys(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_there_twice_is_refused() {
        assert_eq!(parse_object(br#"{"a": 1, "b": null}"#).unwrap().len(), 2);
        let twice = parse_object(br#"{"a": 1, "a": 1}"#).unwrap_err().to_string();
        assert!(twice.starts_with("a stands there twice"), "{twice}");
        for other in ["[]", "1", "", "{", "{} {}"] {
            assert!(parse_object(other.as_bytes()).is_err(), "{other}");
        }
    }
}
