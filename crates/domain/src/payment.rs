//! A payment: a pay-in on its way through the engine, from what came in to what was paid out.
//!
//! Its states, and which event leads from one to another, are [`transition`]: a pure function that every step
//! of the engine and every act of an operator goes through. What moves in the books follows from the
//! transition ([`crate::ledger`]), what is known of an operation from [`crate::operation::classify`].

use crate::corridor::CorridorVersion;
use crate::ids::{MerchantId, PaymentId, SettlementId, uuid_of};
use crate::ledger::{Books, Late};
use crate::money::Decimal;
use crate::named::named;
use crate::operation::OperationStatus;
use crate::pricing::InternalPricing;
use crate::provider::ProviderName;
use crate::quote::rate_rounded_up;
use crate::quoting::{FrozenQuote, Split};
use crate::reason::{Blocked, Reason};
use crate::settlement::{CompletedSettlement, Origin, Settlement};
use crate::time::Timestamp;

mod event;
mod given;
mod likeness;
mod machine;
mod mark;
mod order;
mod state;
mod step;
#[cfg(test)]
mod tests;

pub use event::{Act, Outcome, PaymentEvent, QuoteRefusal};
pub use given::{FieldFault, Problem, check_evidence, check_reference, checked_amount};
pub use likeness::Likeness;
pub use machine::{EXPIRED_QUOTES_MAX, Standing, Transition, TransitionFault, transition};
pub use mark::Mark;
pub use order::{PayIn, PaymentOrder};
pub use state::{PaymentState, Review, StateName, StateParts};
pub use step::Step;

impl PaymentId {
    /// The id of a merchant's pay-in: always the same, whoever tells of it.
    #[must_use]
    pub fn of(merchant_id: MerchantId, payin: &PayIn) -> PaymentId {
        let parts: [&[u8]; 3] =
            [merchant_id.0.as_bytes(), payin.source().as_bytes(), payin.reference().as_bytes()];
        PaymentId(uuid_of("settle payment", &parts))
    }
}

named! {
    /// What stands out of a payment, whatever its state says.
    pub enum Flag, "a flag of payments: returned or astray" {
        /// The money came back after the end.
        Returned = "returned",
        /// Something moved after the payment had gone on without it, and nobody has put it right.
        Astray = "astray",
    }
}

/// One payment as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Made from the merchant and the pay-in.
    pub payment_id: PaymentId,
    /// What was asked for; it never changes, but for the destination of a retry.
    pub order: PaymentOrder,
    /// Where it is.
    pub state: PaymentState,
    /// Grows by one with every step; who acts names the version that it saw.
    pub version: u64,
    /// Why it is where it is.
    pub reason: Option<Reason>,
    /// What keeps it from going on; it changes no state.
    pub blocked: Option<Blocked>,
    /// How many quotes have expired since it was received or retried.
    pub expired_quotes: u32,
    /// What moved, or may move, without it.
    pub late: Option<Late>,
    /// The version of the corridor at its first quote.
    pub corridor_version: Option<CorridorVersion>,
    /// The provider of its next operation, from a quote on; a retry that begins anew binds it to none.
    pub provider: Option<ProviderName>,
    /// The frozen amounts. An expired quote stays until the next replaces it: an operation of it may be late.
    pub quote: Option<FrozenQuote>,
    /// How what was bought is divided, from the conversion on.
    pub split: Option<Split>,
    /// When it was received.
    pub received_at: Timestamp,
}

impl Payment {
    /// What stands out of it. What is astray outweighs what came back.
    #[must_use]
    pub fn flag(&self) -> Option<Flag> {
        let is_astray = self.late.is_some_and(|late| late.moved);
        let is_returned = self.state.parts().is_returned;
        is_astray.then_some(Flag::Astray).or(is_returned.then_some(Flag::Returned))
    }

    /// What the machine needs to know, beside the status of the open operation, and whether that waits to be
    /// sent.
    #[must_use]
    pub const fn standing(&self, operation: Option<OperationStatus>, is_unsent: bool) -> Standing {
        Standing {
            state: self.state,
            reason: self.reason,
            expired_quotes: self.expired_quotes,
            late: self.late,
            operation,
            is_unsent,
        }
    }

    /// The amounts that its movements post.
    #[must_use]
    pub fn books(&self) -> Books<'_> {
        Books {
            incoming: self.order.incoming,
            incoming_amount: self.order.incoming_amount,
            outgoing: self.order.outgoing,
            quote: self.quote.as_ref().map(|frozen| &frozen.quote),
            split: self.split.as_ref(),
            late_bought: None,
        }
    }

    /// What its completion records. `None` without frozen amounts or a conversion: then nothing was paid out.
    #[must_use]
    pub fn completed(
        &self,
        completed_at: Timestamp,
        payout_reference: Option<String>,
    ) -> Option<CompletedSettlement> {
        let FrozenQuote { fixed_side, conversion_rate, fee_percentage, quote } = self.quote?;
        let settlement = Settlement {
            settlement_id: SettlementId::from(self.payment_id),
            completed_at: Some(completed_at),
            occurred_at: self.order.occurred_at,
            payin_reference: self.order.payin.reference().to_owned(),
            payout_reference,
            destination_reference: self.order.destination_reference.clone(),
            incoming_currency: self.order.incoming.code().to_owned(),
            incoming_amount: quote.incoming_amount,
            outgoing_currency: self.order.outgoing.code().to_owned(),
            outgoing_amount: Some(quote.outgoing_amount),
            conversion_rate,
            fixed_side,
            fee_percentage,
            fee_percentage_amount: Some(quote.fee_percentage_amount),
            fee_fixed: quote.fee_fixed,
        };
        let pricing = Some(self.pricing()?);
        let (merchant_id, origin) = (self.order.merchant_id, Origin::Payment);
        Some(CompletedSettlement { merchant_id, settlement, pricing, origin })
    }

    /// What we earned on it: the rate at which the provider really bought, and how the rest was divided.
    fn pricing(&self) -> Option<InternalPricing> {
        let Split { bought, spread, commission, .. } = self.split?;
        let provider_rate = rate_rounded_up(self.order.incoming_amount, bought, Decimal::ZERO)?;
        Some(InternalPricing { provider_rate, spread_revenue: spread, partner_commission: commission })
    }
}
