//! A notification delivery: its states, and the retry schedule, as a pure state machine.
//!
//! | state | event | next |
//! |---|---|---|
//! | pending | an attempt is answered with 2xx in time | delivered |
//! | pending | an attempt fails, attempts remain | pending, later |
//! | pending | the last attempt fails | dead, operations are alerted |
//! | pending | the endpoint is gone (cleared, or it has no secret) | dead, nobody is alerted |
//! | dead | a redelivery is asked for | pending, counter at 0 |
//!
//! Everything else is refused: see [`TransitionFault`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::event::EventType;
use crate::ids::{DeliveryId, SettlementId};
use crate::time::Timestamp;

/// What `last_error` says of a delivery whose endpoint was cleared while it waited.
pub const ENDPOINT_CLEARED: &str = "endpoint cleared: the webhook URL was removed before this was delivered";

/// The status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryStatus {
    /// Queued, or between two attempts.
    Pending,
    /// Answered with 2xx in time.
    Delivered,
    /// Given up; can be redelivered.
    Dead,
}

impl DeliveryStatus {
    /// Every status.
    pub const ALL: [DeliveryStatus; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// The status as clients and databases write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

/// Text that is none of `pending`, `delivered` and `dead`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not one of pending, delivered, dead")]
pub struct StatusFault;

impl FromStr for DeliveryStatus {
    type Err = StatusFault;

    fn from_str(text: &str) -> Result<DeliveryStatus, StatusFault> {
        Self::ALL.into_iter().find(|status| status.as_str() == text).ok_or(StatusFault)
    }
}

impl fmt::Display for DeliveryStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for DeliveryStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One delivery as its merchant sees it. The frozen payload is not part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// Which delivery; receivers deduplicate by it.
    pub delivery_id: DeliveryId,
    /// What it tells of.
    pub settlement_id: SettlementId,
    /// What happened.
    pub event_type: EventType,
    /// Where it stands.
    pub status: DeliveryStatus,
    /// Attempts with an outcome in this cycle.
    pub attempts: i32,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When it was answered with 2xx.
    pub delivered_at: Option<Timestamp>,
    /// When the next attempt is due; on a delivered or dead row, when the last one was due, or when it was
    /// ended.
    pub next_attempt_at: Timestamp,
    /// The status of the last response, if there was one.
    pub response_status: Option<i32>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// The endpoint, frozen when the delivery was enqueued.
    pub url: String,
}

/// How often and how far apart a delivery is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The wait after the first failed attempt; doubled after each further one.
    pub retry_first: Duration,
    /// The longest wait.
    pub retry_max: Duration,
    /// Attempts in a cycle, at most.
    pub attempts_max: i32,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            retry_first: Duration::from_mins(1),
            retry_max: Duration::from_hours(1),
            attempts_max: 8,
        }
    }
}

impl RetryPolicy {
    /// The wait after the given number of failed attempts: `min(first · 2^(n−1), max)`.
    #[must_use]
    pub fn delay_after(&self, failed_attempts: i32) -> Duration {
        let doublings = u32::try_from(failed_attempts.saturating_sub(1)).unwrap_or(0);
        let factor = 2u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.retry_first.saturating_mul(factor).min(self.retry_max)
    }
}

/// What happened to a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryEvent {
    /// An attempt was answered with a 2xx status in time.
    Answered {
        /// The 2xx status.
        response_status: u16,
    },
    /// An attempt failed.
    Failed {
        /// The status, if there was a response.
        response_status: Option<u16>,
        /// What went wrong, in a few words.
        error: String,
    },
    /// The endpoint was cleared, or an attempt found no secret to sign with.
    EndpointGone,
    /// The merchant or an operator asks for a redelivery.
    RedeliveryAsked,
}

/// An event that the present status does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {0} delivery does not allow this")]
pub struct TransitionFault(pub DeliveryStatus);

/// What a transition asks for besides the new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing more.
    None,
    /// Operations are alerted: the last attempt failed.
    Alert,
}

impl Delivery {
    /// Takes an event that happened at the given time. On an error nothing has changed.
    ///
    /// The stores do the same to many rows at once for [`DeliveryEvent::RedeliveryAsked`] and
    /// [`DeliveryEvent::EndpointGone`]; their suite compares the rows with what this makes of them.
    pub fn apply(
        &mut self,
        event: DeliveryEvent,
        at: Timestamp,
        policy: &RetryPolicy,
    ) -> Result<Consequence, TransitionFault> {
        match (self.status, event) {
            (DeliveryStatus::Pending, DeliveryEvent::Answered { response_status }) => {
                self.status = DeliveryStatus::Delivered;
                self.attempts += 1;
                self.delivered_at = Some(at);
                self.response_status = Some(i32::from(response_status));
                self.last_error = None;
                Ok(Consequence::None)
            }
            (DeliveryStatus::Pending, DeliveryEvent::Failed { response_status, error }) => {
                self.attempts += 1;
                self.response_status = response_status.map(i32::from);
                self.last_error = Some(error);
                if self.attempts >= policy.attempts_max {
                    self.status = DeliveryStatus::Dead;
                    return Ok(Consequence::Alert);
                }
                // Never earlier than the attempt that failed, whatever the clock did meanwhile.
                self.next_attempt_at = self.next_attempt_at.max(at.plus(policy.delay_after(self.attempts)));
                Ok(Consequence::None)
            }
            (DeliveryStatus::Pending, DeliveryEvent::EndpointGone) => {
                self.status = DeliveryStatus::Dead;
                self.last_error = Some(ENDPOINT_CLEARED.to_owned());
                // No attempt will be made any more, so none may be announced.
                self.next_attempt_at = self.next_attempt_at.min(at);
                Ok(Consequence::None)
            }
            (DeliveryStatus::Dead, DeliveryEvent::RedeliveryAsked) => {
                self.status = DeliveryStatus::Pending;
                self.attempts = 0;
                self.next_attempt_at = at;
                Ok(Consequence::None)
            }
            (DeliveryStatus::Pending, DeliveryEvent::RedeliveryAsked)
            | (DeliveryStatus::Delivered, _)
            | (
                DeliveryStatus::Dead,
                DeliveryEvent::Answered { .. } | DeliveryEvent::Failed { .. } | DeliveryEvent::EndpointGone,
            ) => Err(TransitionFault(self.status)),
        }
    }
}
