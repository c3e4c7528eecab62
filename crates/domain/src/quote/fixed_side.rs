//! Which of the two amounts of a quote is given.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The side of a quote whose amount is given; the other side's is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FixedSide {
    /// The merchant's customer pays exactly this much.
    Incoming,
    /// The destination receives exactly this much.
    Outgoing,
}

impl FixedSide {
    /// Both sides.
    pub const ALL: [Self; 2] = [Self::Incoming, Self::Outgoing];

    /// The text used in the API and in storage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Incoming => "incoming",
            Self::Outgoing => "outgoing",
        }
    }
}

impl fmt::Display for FixedSide {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The text names neither side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a fixed side: neither `incoming` nor `outgoing`")]
pub struct FixedSideFault;

impl FromStr for FixedSide {
    type Err = FixedSideFault;

    fn from_str(text: &str) -> Result<Self, FixedSideFault> {
        Self::ALL.into_iter().find(|side| side.as_str() == text).ok_or(FixedSideFault)
    }
}
