//! The fields of a small request body. A field that nobody knows is refused: a misspelt one must not look
//! like success.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use serde_json::{Map, Value};
use settle_domain::settlement::parse_object;

use super::details::Details;
use crate::error::{ApiError, BodyFault};
use crate::http::read_body;

/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1_024;

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
        Ok(Fields { left, details: Details::default() })
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

    /// Refuses the request if a field was wrong, or is left because nobody knows it.
    pub(super) fn end(mut self, noun: &str) -> Result<(), ApiError> {
        for field in self.left.keys() {
            self.details.push(|| format!("{field}: is not a field of {noun}"));
        }
        if self.details.is_empty() {
            Ok(())
        } else {
            Err(ApiError::AdminValidation(self.details.into_list()))
        }
    }
}
