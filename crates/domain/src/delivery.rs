//! A notification delivery: its states, and the retry schedule, as a pure state machine.
//!
//! | state | event | next |
//! |---|---|---|
//! | pending | an attempt is answered with 2xx in time | delivered |
//! | pending | an attempt fails, attempts remain | pending, later |
//! | pending | the last attempt fails | dead, operations are alerted |
//! | pending | the endpoint is gone (cleared, or it has no secret) | dead, nobody is alerted |
//! | dead | a redelivery is asked for | pending, counter at 0 |
//! | pending | an operator asks for haste | pending, due at once, counter as it was |
//!
//! [`Delivery::apply`] refuses every other combination with [`TransitionFault`].

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::event::EventType;
use crate::ids::{DeliveryId, SettlementId};
use crate::time::Timestamp;

/// The `last_error` of a delivery whose endpoint the merchant cleared while it waited.
pub const ENDPOINT_CLEARED: &str = "endpoint cleared: the webhook URL was removed before this was delivered";

/// The status of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeliveryStatus {
    /// Queued, or between two attempts.
    Pending,
    /// The endpoint answered with 2xx in time.
    Delivered,
    /// No attempts remain, or the endpoint is gone; it can be redelivered.
    Dead,
}

impl DeliveryStatus {
    /// Every status.
    pub const ALL: [DeliveryStatus; 3] = [Self::Pending, Self::Delivered, Self::Dead];

    /// The text that clients see and databases store.
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

/// One delivery as its merchant sees it. The payload is not part of it: it is made from the settlement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// The delivery's id; receivers deduplicate by it.
    pub delivery_id: DeliveryId,
    /// The settlement that the notification reports.
    pub settlement_id: SettlementId,
    /// What happened to the settlement.
    pub event_type: EventType,
    /// Pending, delivered or dead.
    pub status: DeliveryStatus,
    /// Attempts with an outcome since it was enqueued or last redelivered.
    pub attempts: i32,
    /// When it was enqueued.
    pub created_at: Timestamp,
    /// When the endpoint answered with 2xx.
    pub delivered_at: Option<Timestamp>,
    /// When the next attempt is due. On a delivered or dead row: when the last one was due, or when the
    /// endpoint was cleared, if that was earlier.
    pub next_attempt_at: Timestamp,
    /// The status of the last response, if there was one.
    pub response_status: Option<i32>,
    /// Why the last attempt failed.
    pub last_error: Option<String>,
    /// The endpoint, frozen when the delivery was enqueued.
    pub url: String,
}

/// How far the clocks of two nodes may be apart before one takes the other's waits for a clock that stepped.
pub const CLOCK_SLACK: Duration = Duration::from_mins(5);

/// How often we try a delivery, and how long we wait between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The wait after the first failed attempt; it doubles after each further one.
    pub retry_first: Duration,
    /// The longest wait.
    pub retry_max: Duration,
    /// The most attempts before the delivery is dead.
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

    /// The latest time at which a delivery can be due, seen from now. What is due later was put off by a
    /// clock that has stepped since, so it counts as due.
    #[must_use]
    pub fn latest(&self, now: Timestamp) -> Timestamp {
        now.plus(self.retry_max).plus(CLOCK_SLACK)
    }
}

/// What happened to a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryEvent {
    /// The endpoint answered an attempt with a 2xx status in time.
    Answered {
        /// The 2xx status.
        response_status: u16,
    },
    /// An attempt failed.
    Failed {
        /// The status, if there was a response.
        response_status: Option<u16>,
        /// The reason, in a few words.
        error: String,
    },
    /// The merchant cleared the endpoint, or an attempt found no secret to sign with.
    EndpointGone,
    /// The merchant or an operator asks for a redelivery.
    RedeliveryAsked,
    /// An operator asks for the next attempt now, for instance after a clock has put it off.
    HasteAsked,
}

/// An event that the present status does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a {0} delivery does not allow this")]
pub struct TransitionFault(pub DeliveryStatus);

/// What the caller must do besides storing the new state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing more.
    None,
    /// Alert operations: the last attempt failed.
    Alert,
}

impl Delivery {
    /// Applies an event that happened at the given time. On an error nothing has changed.
    ///
    /// For [`DeliveryEvent::RedeliveryAsked`], [`DeliveryEvent::HasteAsked`] and
    /// [`DeliveryEvent::EndpointGone`] the stores change many rows at once in SQL; their conformance suite
    /// compares those rows with the result of this function.
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
                let next = at.plus(policy.delay_after(self.attempts));
                // Never before the failed attempt was due, even if the clock was set back meanwhile; unless
                // it was due at a time to which only a clock that stepped can have put it.
                let is_stranded = self.next_attempt_at > policy.latest(at);
                self.next_attempt_at = if is_stranded { next } else { self.next_attempt_at.max(next) };
                Ok(Consequence::None)
            }
            (DeliveryStatus::Pending, DeliveryEvent::EndpointGone) => {
                self.status = DeliveryStatus::Dead;
                self.last_error = Some(ENDPOINT_CLEARED.to_owned());
                // Nobody will attempt it any more, so the log must not announce an attempt.
                self.next_attempt_at = self.next_attempt_at.min(at);
                Ok(Consequence::None)
            }
            (DeliveryStatus::Dead, DeliveryEvent::RedeliveryAsked) => {
                self.status = DeliveryStatus::Pending;
                self.attempts = 0;
                self.next_attempt_at = at;
                Ok(Consequence::None)
            }
            (DeliveryStatus::Pending, DeliveryEvent::HasteAsked) => {
                // What is due already stays as it is: an attempt of it may be under way.
                self.next_attempt_at = self.next_attempt_at.min(at);
                Ok(Consequence::None)
            }
            (DeliveryStatus::Pending, DeliveryEvent::RedeliveryAsked)
            | (DeliveryStatus::Delivered, _)
            | (
                DeliveryStatus::Dead,
                DeliveryEvent::Answered { .. }
                | DeliveryEvent::Failed { .. }
                | DeliveryEvent::EndpointGone
                | DeliveryEvent::HasteAsked,
            ) => Err(TransitionFault(self.status)),
        }
    }
}
