//! The bodies of requests and answers.
//!
//! Amounts are strings that hold exact decimals. Whoever reads a body ignores fields that it does not know; a
//! field that is missing or wrong is a [`WireFault`], which names it.

use std::fmt;

use serde::de::DeserializeOwned;

mod operation;
mod page;
mod problem;
mod quote;
mod requests;

pub use operation::{Operation, OperationKind, OperationStatus};
pub use page::{Capabilities, OperationPage, Pair, UnreadableOperation};
pub use problem::{Absence, Problem, ProblemCode};
pub use quote::{Quote, QuoteRequest};
pub use requests::{ConversionRequest, PayoutRequest, RefundRequest, VoidRequest};

/// The longest reference, identifier or reason, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;
/// Most characters kept of a path, and of what the reader of JSON says: part of both is the other side's
/// text.
const PROBLEM_CHARACTERS_MAX: usize = 200;

/// Why a body is not what the protocol says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireFault {
    /// The field, as a path; empty when the fault is not that of one field.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

impl WireFault {
    /// A fault of this field.
    #[must_use]
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> WireFault {
        WireFault { field: field.into(), problem: problem.into() }
    }

    fn missing(field: &str) -> WireFault {
        WireFault::new(field, "is missing")
    }
}

impl fmt::Display for WireFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            return formatter.write_str(&self.problem);
        }
        write!(formatter, "`{}` {}", self.field, self.problem)
    }
}

impl std::error::Error for WireFault {}

/// A body of the protocol.
pub trait Body: DeserializeOwned {
    /// Checks what the types of the fields cannot say.
    fn check(&self) -> Result<(), WireFault>;
}

/// Reads a body.
pub fn read<T: Body>(bytes: &[u8]) -> Result<T, WireFault> {
    // Almost every body is as it should be: only another one is read again, to say where it is wrong.
    let body: T = serde_json::from_slice(bytes).or_else(|_| located(bytes))?;
    body.check()?;
    Ok(body)
}

fn located<T: Body>(bytes: &[u8]) -> Result<T, WireFault> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let body: T = serde_path_to_error::deserialize(&mut json).map_err(|fault| {
        let path = fault.path().to_string();
        let text = fault.into_inner().to_string();
        named(if path == "." { "" } else { &path }, &text)
    })?;
    json.end().map_err(|_| WireFault::new("", "there is more than one JSON value"))?;
    Ok(body)
}

/// The reader names a missing field in its text alone, with the path of the object that lacks it. It quotes
/// what the body says, and people read that in a log and in alerts: no control character gets there.
fn named(path: &str, text: &str) -> WireFault {
    let printable = |text: char| if text.is_control() { char::REPLACEMENT_CHARACTER } else { text };
    let start = |text: &str| text.chars().take(PROBLEM_CHARACTERS_MAX).map(printable).collect::<String>();
    let path = start(path);
    if let Some(field) = text.strip_prefix("missing field `").and_then(|rest| rest.split('`').next()) {
        let path = if path.is_empty() { field.to_owned() } else { format!("{path}.{field}") };
        return WireFault::missing(&path);
    }
    WireFault::new(path, format!("is wrong: {}", start(text)))
}

/// Checks a text that goes into a database and before people: neither empty nor long, and without control
/// characters, which PostgreSQL or a terminal would stumble over.
fn text(field: &str, text: &str) -> Result<(), WireFault> {
    if text.is_empty() {
        return Err(WireFault::new(field, "is empty"));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(WireFault::new(field, format!("is longer than {TEXT_BYTES_MAX} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(WireFault::new(field, "has control characters"));
    }
    Ok(())
}

/// The same for a field that may be null.
fn optional_text(field: &str, value: Option<&str>) -> Result<(), WireFault> {
    value.map_or(Ok(()), |value| text(field, value))
}

#[cfg(test)]
mod tests;
