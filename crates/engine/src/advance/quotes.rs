//! Advances by a quote: the amounts are frozen, or there is none.
//!
//! A payment keeps the terms of its first quote, whatever its corridor says later: fees and spread are what
//! the merchant was promised. Whom it is converted by is no such promise. Before its first quote, and again
//! after each retry that begins anew, that is the corridor's present provider; the quote then binds the
//! payment to it. Whether a quote has expired is the provider's to say, by its own clock, when it is asked to
//! convert.

use settle_domain::actor::Actor;
use settle_domain::operation::{Backoff, OperationRequest};
use settle_domain::payment::{PaymentEvent, QuoteRefusal};
use settle_domain::provider::ProviderName;
use settle_domain::quote::{FixedSide, QuoteFault};
use settle_domain::quoting::{
    FrozenQuote, ProviderQuote, QuotingFault, Split, Wanted, freeze, freeze_unconverted,
};
use settle_domain::reason::Blocked;
use settle_domain::time::Timestamp;
use settle_store::StoredCorridor;

use super::{Advance, Follow, Notice, Stuck};
use crate::case::Case;

/// Why the side that the operator fixed is not the one that is, if so.
fn missed_target(wanted: &Wanted, frozen: &FrozenQuote) -> Option<&'static str> {
    (wanted.outgoing_target.is_some() && frozen.fixed_side == FixedSide::Incoming)
        .then_some("what came in is not what the target asks for: the incoming side is fixed")
}

impl Advance {
    /// A provider gave a quote: the amounts are frozen, and the conversion is prepared.
    pub fn quoted(
        case: Case,
        (corridor, provider): (&StoredCorridor, &ProviderName),
        offer: ProviderQuote,
        instance: Option<String>,
        waits: Backoff,
        now: Timestamp,
    ) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        let agreed = &corridor.versioned.corridor;
        let wanted = advance.case.payment.order.wanted();
        let frozen = if offer.buy_amount > agreed.terms().outgoing.largest_payment() {
            Err(QuotingFault::Amounts(QuoteFault::OutOfRange))
        } else {
            freeze(agreed, &corridor.pricing, &wanted, &offer)
        };
        match frozen {
            Ok(frozen) => {
                let note = missed_target(&wanted, &frozen);
                advance.case.payment.quote = Some(frozen);
                advance.agree(corridor, provider);
                let quote_id = offer.quote_id.clone();
                advance.case.offer = Some(offer);
                advance.is_priced = true;
                advance.step(PaymentEvent::Quoted, None, note)?;
                let order = &advance.case.payment.order;
                let request = OperationRequest::Conversion {
                    payin_reference: order.payin.reference().to_owned(),
                    quote_id,
                    sell: order.incoming,
                    sell_amount: order.incoming_amount,
                    buy: order.outgoing,
                };
                let place = advance.prepare(request, instance)?;
                let id = advance.case.operations[place].operation.operation_id;
                advance.step(PaymentEvent::ConversionPrepared, Some(id), None)?;
                advance.follow = Follow::Send(place);
            }
            // Another answer is needed, and the payment cannot help it.
            Err(fault) if fault.is_providers() => {
                let payment = advance.case.payment.payment_id;
                tracing::error!(%provider, %payment, %fault, "a quote cannot be used");
                advance.asked = Some(provider.clone());
                advance.case.payment.blocked = Some(Blocked::ProviderCallFailed);
                advance.wait(waits);
            }
            Err(fault) => advance.refuse_quote(fault)?,
        }
        Ok(advance)
    }

    /// What came in is what goes out: the amounts are frozen at a rate of 1, and the payout is prepared.
    pub fn unconverted(
        case: Case,
        (corridor, provider): (&StoredCorridor, &ProviderName),
        instance: Option<String>,
        now: Timestamp,
    ) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        let wanted = advance.case.payment.order.wanted();
        match freeze_unconverted(&corridor.versioned.corridor, &wanted) {
            Ok(frozen) => {
                let note = missed_target(&wanted, &frozen);
                advance.case.payment.split = Some(Split::unconverted(&frozen)?);
                advance.case.payment.quote = Some(frozen);
                advance.agree(corridor, provider);
                advance.is_priced = true;
                advance.step(PaymentEvent::Quoted, None, note)?;
                advance.step(PaymentEvent::ConversionSkipped, None, None)?;
                advance.pay_out(instance)?;
            }
            Err(fault) => advance.refuse_quote(fault)?,
        }
        Ok(advance)
    }

    /// The provider does not accept our credentials: people are told once, and the engine tries again.
    #[must_use]
    pub fn turned_away(case: Case, provider: &ProviderName, waits: Backoff, now: Timestamp) -> Advance {
        let is_told = case.payment.blocked == Some(Blocked::ProviderCallFailed);
        let mut advance = Advance::waits(case, Some(Blocked::ProviderCallFailed), waits, now);
        advance.asked = Some(provider.clone());
        if !is_told {
            advance.notice(Notice::Credentials);
        }
        advance
    }

    /// There is no quote.
    pub fn unquoted(case: Case, refusal: QuoteRefusal, now: Timestamp) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.step(PaymentEvent::QuoteRefused(refusal), None, None)?;
        advance.rest();
        Ok(advance)
    }

    fn agree(&mut self, corridor: &StoredCorridor, provider: &ProviderName) {
        let payment = &mut self.case.payment;
        payment.corridor_version.get_or_insert(corridor.versioned.version);
        payment.provider = Some(provider.clone());
    }

    fn refuse_quote(&mut self, fault: QuotingFault) -> Result<(), Stuck> {
        let text = fault.to_string();
        self.step(PaymentEvent::QuoteRefused(QuoteRefusal::Refused), None, Some(&text))?;
        self.rest();
        Ok(())
    }
}
