//! An operation: one thing asked of a provider (a conversion, a payout or a refund), what is remembered of
//! it, and what follows from each answer.
//!
//! The one rule behind all of it: an outcome that is not known is a status of its own, and nothing but the
//! provider's own word or a person with evidence ends it.

use crate::ids::{MerchantId, OperationId, PaymentId, uuid_of};
use crate::money::Decimal;
use crate::named::named;
use crate::provider::ProviderName;
use crate::reason::Reason;

mod classification;
mod deviation;
mod pace;
mod report;
mod request;

pub use classification::{Alarm, Class, News, Next, Ruling, Seen, Sends, Window, classify};
pub use pace::Backoff;
pub use report::{Answer, Judgement, Promise, Refusal, RefusalCode, Report, ReportStatus};
pub use request::OperationRequest;

named! {
    /// What is asked of the provider.
    pub enum OperationKind, "a kind of operation: conversion, payout or refund" {
        /// Sell the incoming currency, buy the outgoing asset.
        Conversion = "conversion",
        /// Pay the outgoing asset to the destination.
        Payout = "payout",
        /// Pay the incoming amount back to the payer.
        Refund = "refund",
    }
}

impl OperationKind {
    /// The reason of an outcome of this kind that nobody knows. A refund is a payout to the payer.
    #[must_use]
    pub const fn outcome_unknown(self) -> Reason {
        match self {
            Self::Conversion => Reason::ConversionOutcomeUnknown,
            Self::Payout | Self::Refund => Reason::PayoutOutcomeUnknown,
        }
    }
}

named! {
    /// What is known of an operation.
    pub enum OperationStatus, "the status of an operation" {
        /// Committed before its first byte: it may have been sent, and no send is known to be executed.
        Prepared = "prepared",
        /// The provider has it and is not done.
        Accepted = "accepted",
        /// Done, for the amounts that were asked for. It beats every other status.
        Succeeded = "succeeded",
        /// Not done, and never will be: the provider's word.
        Refused = "refused",
        /// Done, and the money came back.
        Returned = "returned",
        /// A send may have been executed.
        Unknown = "unknown",
        /// A person with evidence said that it was not done; the provider never did.
        GivenUp = "given_up",
    }
}

impl OperationStatus {
    /// Whether the outcome is still to come. A payment has at most one open operation.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Prepared | Self::Accepted | Self::Unknown => true,
            Self::Succeeded | Self::Refused | Self::Returned | Self::GivenUp => false,
        }
    }

    /// Whether it counts as not done: another one may take its place.
    #[must_use]
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Refused | Self::GivenUp)
    }
}

/// What an operation remembers of its sends and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "facts that each hold or not, whatever the others say")]
pub struct Memory {
    /// What is known now.
    pub status: OperationStatus,
    /// Once one send was unknown, no answer to a later send makes the operation refused or not executed: the
    /// first may have taken the money that the second misses.
    pub was_unknown: bool,
    /// Once the provider had it, its absence is no proof of anything, and it is never sent again.
    pub was_accepted: bool,
    /// Once we asked the provider never to begin what it had, its refusal may be our own doing: a provider
    /// that has forgotten it says the same as one that stopped it.
    pub was_voided: bool,
    /// It was refused or given up, the payment went on, and then it moved, or may move, after all.
    pub is_late: bool,
}

impl Memory {
    /// A new operation: prepared, not yet sent.
    pub const NEW: Memory = Memory {
        status: OperationStatus::Prepared,
        was_unknown: false,
        was_accepted: false,
        was_voided: false,
        is_late: false,
    };

    /// Whether it keeps its payment from another of its kind: a payment has at most one live conversion, and
    /// at most one live payout or refund. The databases forbid a second by unique indexes over these.
    ///
    /// What is late does not count: it came back to life when another may have taken its place, and evidence
    /// that the database refuses would be lost.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        !self.status.is_closed() && !self.is_late
    }
}

/// One operation as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The idempotency key.
    pub operation_id: OperationId,
    /// The merchant whose payment it belongs to.
    pub merchant_id: MerchantId,
    /// The payment it belongs to.
    pub payment_id: PaymentId,
    /// The number of the attempt among those of its kind for this payment: the first is 1.
    pub attempt: u32,
    /// Whom it is asked of.
    pub provider: ProviderName,
    /// What is asked, in full.
    pub request: OperationRequest,
    /// What is known of it.
    pub memory: Memory,
    /// The provider's own name for it.
    pub provider_reference: Option<String>,
    /// What a conversion bought.
    pub bought_amount: Option<Decimal>,
    /// What the provider says that it did instead of what it was asked.
    pub deviation: Option<String>,
}

impl OperationId {
    /// The id of a payment's attempt: always the same for the same payment, kind and number.
    #[must_use]
    pub fn of(payment_id: PaymentId, kind: OperationKind, attempt: u32) -> OperationId {
        let parts: [&[u8]; 3] = [payment_id.0.as_bytes(), kind.as_str().as_bytes(), &attempt.to_be_bytes()];
        OperationId(uuid_of("settle operation", &parts))
    }
}

/// How long an operation without an answer counts as under way; after that it is unknown.
pub const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);

/// How long an operation that was given up is still looked up.
pub const GIVEN_UP_WATCHED_FOR: std::time::Duration = std::time::Duration::from_hours(30 * 24);

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn an_attempt_has_one_id_for_ever() {
        let payment = PaymentId(Uuid::from_u128(7));
        let id = OperationId::of(payment, OperationKind::Payout, 1);
        assert_eq!(id, OperationId::of(payment, OperationKind::Payout, 1));
        // Pinned: another way of making keys would forget what was sent under the old ones.
        assert_eq!(id.to_string(), "7814b7c4-4ea5-837e-9748-7a543535a487");
        for other in [
            OperationId::of(payment, OperationKind::Payout, 2),
            OperationId::of(payment, OperationKind::Refund, 1),
            OperationId::of(PaymentId(Uuid::from_u128(8)), OperationKind::Payout, 1),
        ] {
            assert_ne!(id, other);
        }
    }

    #[test]
    fn what_is_refused_given_up_or_late_makes_room_for_another() {
        for status in OperationStatus::ALL.iter().copied() {
            let is_closed = matches!(status, OperationStatus::Refused | OperationStatus::GivenUp);
            assert_eq!(Memory { status, ..Memory::NEW }.is_live(), !is_closed, "{status}");
            assert!(!Memory { status, is_late: true, ..Memory::NEW }.is_live(), "{status}");
        }
    }

    #[test]
    fn a_status_is_open_closed_or_done() {
        use OperationStatus::{Accepted, GivenUp, Prepared, Refused, Returned, Succeeded, Unknown};
        for status in [Prepared, Accepted, Unknown] {
            assert!(status.is_open() && !status.is_closed(), "{status}");
        }
        for status in [Refused, GivenUp] {
            assert!(!status.is_open() && status.is_closed(), "{status}");
        }
        for status in [Succeeded, Returned] {
            assert!(!status.is_open() && !status.is_closed(), "{status}");
        }
    }
}
