//! The name of a provider: the system outside that quotes, converts, pays out and refunds.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The name under which the settings know a provider (`SETTLE_PROVIDERS__NAME__URL`), in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderName(String);

/// Text that cannot be the name of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not the name of a provider: a letter, then up to {} lower-case letters, digits, hyphens and single \
     underscores",
    ProviderName::BYTES_MAX - 1
)]
pub struct ProviderNameFault;

impl ProviderName {
    /// The longest name, in bytes.
    pub const BYTES_MAX: usize = 32;

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ProviderName {
    type Err = ProviderNameFault;

    /// Two underscores separate the parts of a setting's name, so a provider's name cannot have them.
    fn from_str(text: &str) -> Result<ProviderName, ProviderNameFault> {
        let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        let is_name = text.len() <= Self::BYTES_MAX
            && text.bytes().all(allowed)
            && text.starts_with(|first: char| first.is_ascii_lowercase())
            && !text.contains("__")
            && !text.ends_with('_');
        if is_name { Ok(ProviderName(text.to_owned())) } else { Err(ProviderNameFault) }
    }
}

impl fmt::Display for ProviderName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for ProviderName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ProviderName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProviderName, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_into_the_name_of_a_setting() {
        let longest = "a".repeat(ProviderName::BYTES_MAX);
        for name in ["sandbox", "bank-2", "a_b", longest.as_str()] {
            assert_eq!(name.parse::<ProviderName>().unwrap().to_string(), name);
        }
        let too_long = "a".repeat(ProviderName::BYTES_MAX + 1);
        for name in ["", "Sandbox", "2bank", "-a", "a__b", "a_", "a b", "bänk", too_long.as_str()] {
            assert_eq!(name.parse::<ProviderName>(), Err(ProviderNameFault), "{name}");
        }
    }
}
