//! An answer of the service, and how a test looks at it.

use hyper::HeaderMap;
use serde_json::Value;

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    /// The value of a header that is there exactly once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values.next()?.to_str().expect("a header is readable");
        assert!(values.next().is_none(), "{name} is there twice: {self:?}");
        Some(value)
    }

    /// The body.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|fault| panic!("{fault}: {self:?}"))
    }

    /// The body of a success, which is always a 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()
    }

    /// The `error` of a refusal, which has this status and this code, and no `fields`.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) -> Value {
        let error = self.json()["error"].clone();
        assert_eq!((self.status, error["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert!(!error.as_object().unwrap().contains_key("fields"), "{}", self.text);
        error
    }

    /// The refused fields of a 422, as `(field, code)`.
    #[track_caller]
    pub fn invalid(&self) -> Vec<(String, String)> {
        let error = self.json()["error"].clone();
        assert_eq!((self.status, error["code"].as_str()), (422, Some("validation_failed")), "{}", self.text);
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let fields = error["fields"].as_array().expect("fields are listed");
        fields.iter().map(|entry| (text(&entry["field"]), text(&entry["code"]))).collect()
    }

    /// Checks the refused fields of a 422.
    #[track_caller]
    pub fn invalid_fields(&self, expected: &[(&str, &str)]) {
        let found = self.invalid();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(field, code)| (field.as_str(), code.as_str())).collect();
        assert_eq!(found, expected, "{}", self.text);
    }
}
