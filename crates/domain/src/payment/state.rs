//! The states of a payment, and their form in a database.

use crate::ledger::Held;
use crate::named::named;
use crate::operation::OperationKind;

named! {
    /// The name of a payment's state.
    pub enum StateName, "the state of a payment" {
        /// The pay-in has come.
        Received = "received",
        /// Rate, fees and amounts are frozen.
        Quoted = "quoted",
        /// A conversion is in flight.
        Converting = "converting",
        /// What was bought is reserved for the merchant.
        Converted = "converted",
        /// A payout is in flight.
        PayingOut = "paying_out",
        /// The merchant has it; the settlement is recorded.
        Completed = "completed",
        /// It is known where the money is: we hold it.
        Failed = "failed",
        /// A refund is in flight.
        Refunding = "refunding",
        /// The payer has it back.
        Refunded = "refunded",
        /// It is not known where the money is, or a person must decide.
        NeedsReview = "needs_review",
    }
}

/// Where a payment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PaymentState {
    /// The pay-in has come.
    Received,
    /// Rate, fees and amounts are frozen.
    Quoted,
    /// A conversion is in flight.
    Converting,
    /// What was bought is reserved for the merchant.
    Converted,
    /// A payout is in flight.
    PayingOut,
    /// The merchant has it; the settlement is recorded.
    Completed {
        /// Whether the money has come back later. The record stays as it is.
        is_returned: bool,
    },
    /// We hold the money, and only an operator leads on.
    Failed(Held),
    /// A refund is in flight.
    Refunding(Held),
    /// The payer has it back.
    Refunded {
        /// Whether the money has come back later.
        is_returned: bool,
    },
    /// Only the provider's own word or an operator with evidence leads on.
    NeedsReview(Review),
}

/// What a payment under review waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Review {
    /// The outcome of a conversion.
    Conversion,
    /// The outcome of a payout.
    Payout,
    /// The outcome of a refund.
    Refund(Held),
    /// Nothing is in flight and we hold the money, but a step of ours failed, or an operation moved late.
    Halted(Held),
}

/// An operation in flight: its kind, and what we hold again if it was not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flight {
    pub kind: OperationKind,
    pub held: Held,
}

impl Flight {
    /// The state of a payment that nobody can say the outcome of.
    pub const fn review(self) -> PaymentState {
        PaymentState::NeedsReview(match self.kind {
            OperationKind::Conversion => Review::Conversion,
            OperationKind::Payout => Review::Payout,
            OperationKind::Refund => Review::Refund(self.held),
        })
    }
}

impl PaymentState {
    /// Every state.
    pub const ALL: [PaymentState; 19] = [
        Self::Received,
        Self::Quoted,
        Self::Converting,
        Self::Converted,
        Self::PayingOut,
        Self::Completed { is_returned: false },
        Self::Completed { is_returned: true },
        Self::Failed(Held::Incoming),
        Self::Failed(Held::Outgoing),
        Self::Refunding(Held::Incoming),
        Self::Refunding(Held::Outgoing),
        Self::Refunded { is_returned: false },
        Self::Refunded { is_returned: true },
        Self::NeedsReview(Review::Conversion),
        Self::NeedsReview(Review::Payout),
        Self::NeedsReview(Review::Refund(Held::Incoming)),
        Self::NeedsReview(Review::Refund(Held::Outgoing)),
        Self::NeedsReview(Review::Halted(Held::Incoming)),
        Self::NeedsReview(Review::Halted(Held::Outgoing)),
    ];

    /// The state's name.
    #[must_use]
    pub const fn name(self) -> StateName {
        match self {
            Self::Received => StateName::Received,
            Self::Quoted => StateName::Quoted,
            Self::Converting => StateName::Converting,
            Self::Converted => StateName::Converted,
            Self::PayingOut => StateName::PayingOut,
            Self::Completed { .. } => StateName::Completed,
            Self::Failed(_) => StateName::Failed,
            Self::Refunding(_) => StateName::Refunding,
            Self::Refunded { .. } => StateName::Refunded,
            Self::NeedsReview(_) => StateName::NeedsReview,
        }
    }

    /// Whether nothing leads on from here, nor ever will.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed { .. } | Self::Refunded { .. })
    }

    /// Whether the engine goes on by itself: by a step of its own, or by what it hears of an operation.
    #[must_use]
    pub const fn is_engines(self) -> bool {
        match self {
            Self::Received
            | Self::Quoted
            | Self::Converting
            | Self::Converted
            | Self::PayingOut
            | Self::Refunding(_) => true,
            Self::Completed { .. } | Self::Failed(_) | Self::Refunded { .. } | Self::NeedsReview(_) => false,
        }
    }

    /// The operation whose outcome the payment waits for.
    #[must_use]
    pub const fn awaits(self) -> Option<OperationKind> {
        match self.flight() {
            Some(flight) => Some(flight.kind),
            None => None,
        }
    }

    /// The operation in flight, also under review.
    pub(super) const fn flight(self) -> Option<Flight> {
        let (kind, held) = match self {
            Self::Converting | Self::NeedsReview(Review::Conversion) => {
                (OperationKind::Conversion, Held::Incoming)
            }
            Self::PayingOut | Self::NeedsReview(Review::Payout) => (OperationKind::Payout, Held::Outgoing),
            Self::Refunding(held) | Self::NeedsReview(Review::Refund(held)) => (OperationKind::Refund, held),
            Self::Received
            | Self::Quoted
            | Self::Converted
            | Self::Completed { .. }
            | Self::Failed(_)
            | Self::Refunded { .. }
            | Self::NeedsReview(Review::Halted(_)) => return None,
        };
        Some(Flight { kind, held })
    }

    /// What we hold while nothing is in flight and nothing is final.
    pub(super) const fn held(self) -> Option<Held> {
        match self {
            Self::Received | Self::Quoted => Some(Held::Incoming),
            Self::Converted => Some(Held::Outgoing),
            Self::Failed(held) | Self::NeedsReview(Review::Halted(held)) => Some(held),
            Self::Converting
            | Self::PayingOut
            | Self::Completed { .. }
            | Self::Refunding(_)
            | Self::Refunded { .. }
            | Self::NeedsReview(Review::Conversion | Review::Payout | Review::Refund(_)) => None,
        }
    }
}

/// A state in columns: what the name leaves open stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateParts {
    /// The name.
    pub name: StateName,
    /// What is unknown under review; `None` if nothing is in flight there.
    pub unknown: Option<OperationKind>,
    /// What we hold, or hold again if what is in flight was not done; `None` where the name says it.
    pub held: Option<Held>,
    /// Whether the money came back later.
    pub is_returned: bool,
}

impl PaymentState {
    /// The state in columns.
    #[must_use]
    pub const fn parts(self) -> StateParts {
        let (unknown, held, is_returned) = match self {
            Self::Received | Self::Quoted | Self::Converting | Self::Converted | Self::PayingOut => {
                (None, None, false)
            }
            Self::Completed { is_returned } | Self::Refunded { is_returned } => (None, None, is_returned),
            Self::Failed(held) | Self::Refunding(held) => (None, Some(held), false),
            Self::NeedsReview(review) => match review {
                Review::Conversion => (Some(OperationKind::Conversion), None, false),
                Review::Payout => (Some(OperationKind::Payout), None, false),
                Review::Refund(held) => (Some(OperationKind::Refund), Some(held), false),
                Review::Halted(held) => (None, Some(held), false),
            },
        };
        StateParts { name: self.name(), unknown, held, is_returned }
    }

    /// The state that has these columns; `None` for columns that no state has.
    #[must_use]
    pub fn from_parts(parts: StateParts) -> Option<PaymentState> {
        let StateParts { name, unknown, held, is_returned } = parts;
        let state = match name {
            StateName::Received => Self::Received,
            StateName::Quoted => Self::Quoted,
            StateName::Converting => Self::Converting,
            StateName::Converted => Self::Converted,
            StateName::PayingOut => Self::PayingOut,
            StateName::Completed => Self::Completed { is_returned },
            StateName::Refunded => Self::Refunded { is_returned },
            StateName::Failed => Self::Failed(held?),
            StateName::Refunding => Self::Refunding(held?),
            StateName::NeedsReview => Self::NeedsReview(match unknown {
                Some(OperationKind::Conversion) => Review::Conversion,
                Some(OperationKind::Payout) => Review::Payout,
                Some(OperationKind::Refund) => Review::Refund(held?),
                None => Review::Halted(held?),
            }),
        };
        // Columns beside the ones that the state has would be lost in silence.
        (state.parts() == parts).then_some(state)
    }
}
