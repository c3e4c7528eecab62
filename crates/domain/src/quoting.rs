//! The engine's quoting: from what came in, a corridor and a provider's quote to the amounts that are frozen,
//! and from a conversion to how what was bought is divided.
//!
//! The arithmetic is [`crate::quote`]'s; here stands which rate and which side it gets.

use crate::corridor::Corridor;
use crate::money::Decimal;
use crate::pricing::CorridorPricing;
use crate::quote::{
    FixedSide, Quote, QuoteFault, QuoteInput, quote, rate_agrees, rate_rounded_up, share_rounded_down,
};
use crate::time::Timestamp;

#[cfg(test)]
mod tests;

/// What a payment asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// What came in.
    pub incoming_amount: Decimal,
    /// What is to go out, if the outgoing side is fixed.
    pub outgoing_target: Option<Decimal>,
}

/// A provider's quote: it binds what is sold, what is bought, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderQuote {
    /// The provider's name for it.
    pub quote_id: String,
    /// What is sold, in the incoming currency.
    pub sell_amount: Decimal,
    /// What is bought, in the outgoing asset.
    pub buy_amount: Decimal,
    /// Sold units per bought unit, if the provider says so.
    pub rate: Option<Decimal>,
    /// Until when it binds.
    pub expires_at: Timestamp,
}

/// The amounts that a payment keeps: what its merchant will see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrozenQuote {
    /// Which side was fixed. A target that what came in does not meet is settled with the incoming side
    /// fixed.
    pub fixed_side: FixedSide,
    /// The merchant's rate: incoming units per outgoing unit.
    pub conversion_rate: Decimal,
    /// The fee agreed for the corridor, in percent.
    pub fee_percentage: Decimal,
    /// The amounts.
    pub quote: Quote,
}

/// Why a payment gets no quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuotingFault {
    /// The incoming amount is below the smallest or above the largest of the corridor.
    #[error("quote refused: the incoming amount is outside the limits of the corridor")]
    OutsideLimits,
    /// The amounts give no payout.
    #[error("{0}")]
    Amounts(QuoteFault),
    /// What the provider would buy is less than the merchant's amounts need.
    #[error("quote refused: it buys less than the amount before fees")]
    BuysTooLittle,
    /// The provider quotes for another amount than it was asked about.
    #[error("the provider's quote sells another amount than it was asked about")]
    SellsOtherwise,
    /// The provider quotes an amount that the asset cannot transfer.
    #[error("the provider's quote buys an amount that the asset cannot transfer")]
    NotTransferable,
}

impl QuotingFault {
    /// Whether the provider's answer is to blame, and not the payment: such a payment is blocked, not failed.
    #[must_use]
    pub const fn is_providers(self) -> bool {
        match self {
            Self::SellsOtherwise | Self::NotTransferable => true,
            Self::OutsideLimits | Self::Amounts(_) | Self::BuysTooLittle => false,
        }
    }
}

/// Freezes the amounts of a payment at a provider's quote.
pub fn freeze(
    corridor: &Corridor,
    pricing: &CorridorPricing,
    wanted: &Wanted,
    offer: &ProviderQuote,
) -> Result<FrozenQuote, QuotingFault> {
    check_limits(corridor, wanted)?;
    if offer.sell_amount != wanted.incoming_amount {
        return Err(QuotingFault::SellsOtherwise);
    }
    let outgoing = corridor.terms().outgoing;
    if offer.buy_amount.normalized().scale() > outgoing.decimals() {
        return Err(QuotingFault::NotTransferable);
    }
    let bought = outgoing.amount(offer.buy_amount).ok_or(QuotingFault::Amounts(QuoteFault::OutOfRange))?;
    if bought.is_zero() {
        return Err(QuotingFault::Amounts(QuoteFault::NotPositive));
    }
    let rate = merchants_rate(pricing, offer, bought)?;
    let frozen = at_rate(corridor, wanted, rate)?;
    if bought < frozen.quote.gross {
        return Err(QuotingFault::BuysTooLittle);
    }
    Ok(frozen)
}

/// Freezes the amounts of a payment whose incoming currency is its outgoing asset: the rate is 1, and there
/// is no spread.
pub fn freeze_unconverted(corridor: &Corridor, wanted: &Wanted) -> Result<FrozenQuote, QuotingFault> {
    check_limits(corridor, wanted)?;
    at_rate(corridor, wanted, Decimal::ONE)
}

fn check_limits(corridor: &Corridor, wanted: &Wanted) -> Result<(), QuotingFault> {
    if corridor.admits(wanted.incoming_amount) { Ok(()) } else { Err(QuotingFault::OutsideLimits) }
}

/// With a spread, sold ÷ bought and the spread, rounded up. Without one the provider's own rate, if it
/// explains what the provider buys: then the merchant can check it against the market to the last digit.
fn merchants_rate(
    pricing: &CorridorPricing,
    offer: &ProviderQuote,
    bought: Decimal,
) -> Result<Decimal, QuotingFault> {
    let own = offer.rate.filter(|rate| rate_agrees(*rate, offer.sell_amount, bought));
    match own {
        Some(rate) if pricing.spread().is_zero() => Ok(rate.normalized()),
        _ => rate_rounded_up(offer.sell_amount, bought, pricing.spread())
            .ok_or(QuotingFault::Amounts(QuoteFault::OutOfRange)),
    }
}

/// The amounts at a rate. A target is met if it asks for exactly what came in; if not, what came in counts.
fn at_rate(corridor: &Corridor, wanted: &Wanted, rate: Decimal) -> Result<FrozenQuote, QuotingFault> {
    let terms = corridor.terms();
    let frozen = |fixed_side, amount| {
        let input = QuoteInput {
            fixed_side,
            amount,
            incoming_decimals: terms.incoming.decimals(),
            outgoing_decimals: terms.outgoing.decimals(),
            conversion_rate: rate,
            fee_percentage: terms.fee_percentage,
            fee_fixed: terms.fee_fixed,
        };
        let quote = quote(&input).map_err(QuotingFault::Amounts)?;
        Ok(FrozenQuote { fixed_side, conversion_rate: rate, fee_percentage: terms.fee_percentage, quote })
    };
    if let Some(target) = wanted.outgoing_target {
        // A target that cannot be quoted at all is not met either.
        let met = frozen(FixedSide::Outgoing, target)
            .ok()
            .filter(|frozen: &FrozenQuote| frozen.quote.incoming_amount == wanted.incoming_amount);
        if let Some(met) = met {
            return Ok(met);
        }
    }
    frozen(FixedSide::Incoming, wanted.incoming_amount)
}

/// How what a conversion bought is divided, in the outgoing asset:
/// `bought + shortfall = payable + fees + spread + commission`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// What was bought.
    pub bought: Decimal,
    /// What the house adds, because less was bought than the frozen amounts need.
    pub shortfall: Decimal,
    /// The merchant's.
    pub payable: Decimal,
    /// Both fees.
    pub fees: Decimal,
    /// What is over, less the partner's part.
    pub spread: Decimal,
    /// The partner's part of what is over, rounded down.
    pub commission: Decimal,
}

impl Split {
    /// Divides what was bought. The frozen amounts stand, whatever was bought.
    pub fn of(
        frozen: &FrozenQuote,
        pricing: &CorridorPricing,
        bought: Decimal,
    ) -> Result<Split, QuotingFault> {
        let Quote { gross, outgoing_amount: payable, .. } = frozen.quote;
        let out_of_range = QuotingFault::Amounts(QuoteFault::OutOfRange);
        let bought = bought.at_scale(gross.scale()).ok_or(QuotingFault::NotTransferable)?;
        let amount = |units| Decimal::new(units, gross.scale()).ok_or(out_of_range);
        let over = amount(bought.coefficient().saturating_sub(gross.coefficient()))?;
        let shortfall = amount(gross.coefficient().saturating_sub(bought.coefficient()))?;
        let commission = share_rounded_down(over, pricing.commission()).ok_or(out_of_range)?;
        Ok(Split {
            bought,
            shortfall,
            payable,
            fees: amount(gross.coefficient().saturating_sub(payable.coefficient()))?,
            spread: amount(over.coefficient().saturating_sub(commission.coefficient()))?,
            commission,
        })
    }

    /// Divides what came in when nothing is converted: there is nothing over.
    pub fn unconverted(frozen: &FrozenQuote) -> Result<Split, QuotingFault> {
        Split::of(frozen, &CorridorPricing::NONE, frozen.quote.incoming_amount)
    }
}
