//! The kinds of events that notifications report.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// The kind of an event: the `event` of a notification's body, its `service-event` header, and the
/// `event_type` of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// A settlement is complete.
    SettlementCompleted,
}

impl EventType {
    /// Every kind.
    pub const ALL: [EventType; 1] = [Self::SettlementCompleted];

    /// The text that receivers see and databases store.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SettlementCompleted => "settlement.completed",
        }
    }
}

/// Text that names no kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not settlement.completed")]
pub struct EventTypeFault;

impl FromStr for EventType {
    type Err = EventTypeFault;

    fn from_str(text: &str) -> Result<EventType, EventTypeFault> {
        Self::ALL.into_iter().find(|event| event.as_str() == text).ok_or(EventTypeFault)
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for EventType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_from_its_text() {
        for event in EventType::ALL {
            assert_eq!(event.to_string().parse(), Ok(event));
            assert_eq!(serde_json::to_value(event).unwrap(), event.as_str());
        }
        for other in ["", "settlement.failed", "Settlement.completed", "settlement.completed "] {
            assert_eq!(other.parse::<EventType>(), Err(EventTypeFault), "{other}");
        }
    }
}
