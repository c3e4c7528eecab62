//! The fields of a small request body. A field that nobody knows is refused: a misspelt one must not look
//! like success.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use serde_json::{Map, Value};
use settle_domain::payment::FieldFault;
use settle_domain::settlement::parse_object;

use super::details::Details;
use crate::error::{ApiError, BodyFault};
use crate::http::read_body;

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1_024;

/// What a text must be: short, and harmless where it is shown.
type Check = fn(&'static str, &str) -> Result<(), FieldFault>;

/// The fields that are not taken yet, and what is wrong with those that are.
pub(super) struct Fields {
    left: Map<String, Value>,
    details: Details,
}

impl Fields {
    /// Reads a body that is a JSON object.
    pub(super) async fn read(headers: &HeaderMap, body: Body, timeout: Duration) -> Result<Fields, ApiError> {
        let body = read_body(headers, body, BODY_BYTES_MAX, timeout).await.map_err(ApiError::InvalidBody)?;
        let left = parse_object(&body).map_err(|_| ApiError::InvalidBody(BodyFault::Unreadable))?;
        Ok(Fields::of(left))
    }

    /// The fields of an object.
    pub(super) fn of(left: Map<String, Value>) -> Fields {
        Fields { left, details: Details::default() }
    }

    /// A text that must be there.
    pub(super) fn required(&mut self, field: &str) -> String {
        if matches!(self.left.get(field), None | Some(Value::Null)) {
            self.left.remove(field);
            self.details.push(|| format!("{field}: is required"));
        }
        self.optional(field).unwrap_or_default()
    }

    /// A text that may be absent or null.
    pub(super) fn optional(&mut self, field: &str) -> Option<String> {
        match self.left.remove(field)? {
            Value::Null => None,
            Value::String(text) => Some(text),
            _ => {
                self.details.push(|| format!("{field}: must be a string"));
                None
            }
        }
    }

    /// A value that must be there, written as a text. `None` once its fault is noted.
    pub(super) fn required_as<T: FromStr<Err: Display>>(&mut self, field: &str) -> Option<T> {
        if matches!(self.left.get(field), None | Some(Value::Null)) {
            self.required(field);
            return None;
        }
        self.optional_as(field)
    }

    /// A value that may be absent or null, written as a text or, if it is a whole number, as one.
    pub(super) fn optional_as<T: FromStr<Err: Display>>(&mut self, field: &str) -> Option<T> {
        if let Some(Value::Number(number)) = self.left.get(field)
            && number.is_u64()
        {
            let text = number.to_string();
            self.left.insert(field.to_owned(), Value::String(text));
        }
        match self.optional(field)?.parse() {
            Ok(value) => Some(value),
            Err(fault) => {
                self.fault(format!("{field}: {fault}"));
                None
            }
        }
    }

    /// A number or a duration that must be there; whoever gives something else is told what is expected.
    pub(super) fn required_such<T: FromStr>(&mut self, field: &str, expected: &str) -> Option<T> {
        if matches!(self.left.get(field), None | Some(Value::Null)) {
            self.required(field);
            return None;
        }
        self.optional_such(field, expected)
    }

    /// A number or a duration that may be absent or null, as a text or a whole number.
    pub(super) fn optional_such<T: FromStr>(&mut self, field: &str, expected: &str) -> Option<T> {
        let given = match self.left.remove(field)? {
            Value::Null => return None,
            Value::String(text) => text.parse().ok(),
            Value::Number(number) if number.is_u64() => number.to_string().parse().ok(),
            _ => None,
        };
        if given.is_none() {
            self.fault(format!("{field}: must be {expected}"));
        }
        given
    }

    /// A text that must be there and pass a check.
    pub(super) fn required_checked(&mut self, field: &'static str, check: Check) -> String {
        if matches!(self.left.get(field), None | Some(Value::Null)) {
            return self.required(field);
        }
        self.optional_checked(field, check).unwrap_or_default()
    }

    /// A text that may be absent or null, and passes a check if it is not.
    pub(super) fn optional_checked(&mut self, field: &'static str, check: Check) -> Option<String> {
        let text = self.optional(field)?;
        if let Err(fault) = check(field, &text) {
            self.fault(fault);
        }
        Some(text)
    }

    /// Whether a switch is on; absent or null is off.
    pub(super) fn switch(&mut self, field: &str) -> bool {
        match self.left.remove(field) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::Bool(true)) => true,
            Some(_) => {
                self.fault(format!("{field}: must be true or false"));
                false
            }
        }
    }

    /// A switch that must be there.
    pub(super) fn required_switch(&mut self, field: &str) -> bool {
        if matches!(self.left.get(field), None | Some(Value::Null)) {
            self.required(field);
            return false;
        }
        self.switch(field)
    }

    /// Something else is wrong.
    pub(super) fn fault(&mut self, problem: impl Display) {
        self.details.push(|| problem.to_string());
    }

    /// Everything that is wrong, with the fields that are left because nobody knows them.
    pub(super) fn faults(mut self, noun: &str) -> Vec<String> {
        for field in self.left.keys() {
            self.details.push(|| format!("{field}: is not a field of {noun}"));
        }
        self.details.into_list()
    }

    /// Refuses the request if a field was wrong, or is left because nobody knows it.
    pub(super) fn end(self, noun: &str) -> Result<(), ApiError> {
        let faults = self.faults(noun);
        if faults.is_empty() { Ok(()) } else { Err(ApiError::AdminValidation(faults)) }
    }
}
