//! What operators are told of a payment, in the transaction that learns it.

use std::fmt;

use settle_domain::alert::AlertKind;
use settle_domain::ids::PaymentId;
use settle_domain::ledger::Movement;
use settle_domain::operation::Alarm;
use settle_domain::payment::Payment;
use settle_domain::provider::ProviderName;
use settle_domain::reason::Reason;
use settle_store::Occurrence;

use super::Advance;

/// What operators are told of a payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Notice {
    /// A person must look at it.
    NeedsReview,
    /// An operation moved, or may move, after the payment had gone on without it.
    MovedLate,
    /// Money that was paid, or paid back, has come back.
    Returned,
    /// The provider does not accept our credentials.
    Credentials,
    /// The provider takes back its word on something that it had called done.
    Contradiction,
    /// It has amount and destination of this payment, which came within a day before: likely the payer paid
    /// twice, or somebody told of it under two references.
    LikelyDouble(PaymentId),
}

impl Notice {
    pub(super) const fn of_step(movement: Movement) -> Notice {
        match movement {
            Movement::Return(_) | Movement::ReturnLate(_) => Notice::Returned,
            Movement::MoveLate(_) => Notice::MovedLate,
            _ => Notice::NeedsReview,
        }
    }

    pub(super) const fn of_alarm(alarm: Alarm) -> Notice {
        match alarm {
            Alarm::Credentials => Notice::Credentials,
            Alarm::Contradiction => Notice::Contradiction,
        }
    }

    const fn kind(self) -> AlertKind {
        match self {
            Notice::NeedsReview | Notice::MovedLate | Notice::Contradiction => AlertKind::PaymentNeedsReview,
            Notice::Returned => AlertKind::PaymentReturned,
            Notice::Credentials => AlertKind::PaymentBlocked,
            Notice::LikelyDouble(_) => AlertKind::PaymentLikelyDouble,
        }
    }

    /// What is told together: one alert for all of a merchant's payments with the same trouble.
    fn subject(self, payment: &Payment) -> String {
        match self {
            Notice::NeedsReview => payment.reason.map_or("late evidence", Reason::as_str).to_owned(),
            Notice::MovedLate => "moved late".to_owned(),
            Notice::Returned => "returned".to_owned(),
            Notice::Contradiction => "contradiction".to_owned(),
            Notice::Credentials => "provider_call_failed".to_owned(),
            Notice::LikelyDouble(_) => "likely double".to_owned(),
        }
    }

    /// What a person reads of a payment and the provider that was asked for it.
    #[must_use]
    pub fn occurrence(self, payment: &Payment, provider: Option<&ProviderName>) -> Occurrence {
        let provider = provider.map(|name| format!(" at {name}")).unwrap_or_default();
        let text = format!("payment {}{provider}, {}: {self}", payment.payment_id, payment.state.name());
        Occurrence {
            merchant_id: Some(payment.order.merchant_id),
            kind: self.kind(),
            subject: self.subject(payment),
            id: Some(payment.payment_id.0),
            text,
        }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Notice::NeedsReview => "a payment needs review",
            Notice::MovedLate => "an operation moved after its payment had gone on without it",
            Notice::Returned => "money that was paid has come back",
            Notice::Credentials => "the provider does not accept our credentials",
            Notice::Contradiction => "the provider takes back its word on something that it had called done",
            Notice::LikelyDouble(other) => {
                return write!(
                    formatter,
                    "likely double: payment {other} brought the same amount for the same destination in the last \
                     24 hours"
                );
            }
        };
        formatter.write_str(text)
    }
}

impl Advance {
    /// Each is told once of an advance, however many of its steps say so.
    pub(super) fn notice(&mut self, notice: Notice) {
        if !self.alerts.contains(&notice) {
            self.alerts.push(notice);
        }
    }
}
