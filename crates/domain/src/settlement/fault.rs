//! What is wrong with a settlement from outside.

use std::fmt;

use crate::error_code::ErrorCode;

/// A problem with one field of an imported settlement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportFault {
    /// The field's name.
    pub field: String,
    /// The reason, for machines.
    pub code: ErrorCode,
    /// The reason, for people.
    pub problem: String,
}

impl fmt::Display for ImportFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.field, self.problem)
    }
}
