//! The quote: the amount a merchant pays in, the amount we pay out, and the fees in between. Either amount
//! can be the fixed side.
//!
//! The computation uses exact fractions of whole numbers and rounds every printed amount once: money we pay
//! out down, money we collect up. Refusals are results, never a panic.

use num_bigint::BigUint;
use num_integer::Integer;

use crate::money::Decimal;

mod fault;
mod fixed_side;
mod rounding;
#[cfg(test)]
mod tests;

pub use fault::QuoteFault;
pub use fixed_side::{FixedSide, FixedSideFault};
pub use rounding::{
    RATE_SIGNIFICANT_DIGITS, payout_rounded_down, rate_agrees, rate_rounded_up, share_rounded_down,
};

/// Everything a quote depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuoteInput {
    /// Which of the two amounts is given; the other one is computed.
    pub fixed_side: FixedSide,
    /// The amount of the fixed side, in the asset of that side.
    pub amount: Decimal,
    /// How many decimals the incoming asset can transfer.
    pub incoming_decimals: u8,
    /// How many decimals the outgoing asset can transfer.
    pub outgoing_decimals: u8,
    /// Incoming units per one outgoing unit.
    pub conversion_rate: Decimal,
    /// The fee in percent of the gross outgoing amount: `1.5` is 1.5 %.
    pub fee_percentage: Decimal,
    /// The fixed fee, in the outgoing asset.
    pub fee_fixed: Decimal,
}

/// The amounts of a quote, each at the fixed scale of its asset.
///
/// The printed lines add up: `gross = outgoing_amount + fee_percentage_amount + fee_fixed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quote {
    /// The amount we collect, in the incoming asset.
    pub incoming_amount: Decimal,
    /// The outgoing amount before fees. With the incoming side fixed it is the converted amount, rounded
    /// down; with the outgoing side fixed it is the amount to convert, rounded up.
    pub gross: Decimal,
    /// The percentage fee, in the outgoing asset; exact to within one unit of the last place.
    pub fee_percentage_amount: Decimal,
    /// The fixed fee, in the outgoing asset.
    pub fee_fixed: Decimal,
    /// The payout, in the outgoing asset; always positive, never rounded up.
    pub outgoing_amount: Decimal,
}

/// Computes a quote, or says why there is none.
pub fn quote(input: &QuoteInput) -> Result<Quote, QuoteFault> {
    let terms = Terms::check(input)?;
    match input.fixed_side {
        FixedSide::Incoming => quote_incoming_fixed(input, &terms),
        FixedSide::Outgoing => quote_outgoing_fixed(input, &terms),
    }
}

/// `outgoing = floor(I/R · (100−P)/100 − F)` in units of the outgoing asset; the payout is rounded only here.
fn quote_incoming_fixed(input: &QuoteInput, terms: &Terms) -> Result<Quote, QuoteFault> {
    let incoming_amount = amount_at_scale(input.amount, input.incoming_decimals)?;

    // I/R in units of the outgoing asset, as a fraction of two whole numbers.
    let gross_numerator = units(incoming_amount)
        * power_of_ten(input.outgoing_decimals)
        * power_of_ten(input.conversion_rate.scale());
    let gross_denominator = power_of_ten(input.incoming_decimals) * units(input.conversion_rate);

    // F is a whole number of units, so subtracting it after the rounding changes nothing.
    let net = (&gross_numerator * &terms.kept_share).div_floor(&(&gross_denominator * &terms.whole_share));
    let fee_fixed = units(terms.fee_fixed);
    if net <= fee_fixed {
        return Err(QuoteFault::NotPositive);
    }
    let outgoing = &net - &fee_fixed;

    // Not negative: a share of the gross, rounded down, is at most the gross rounded down.
    let gross = gross_numerator.div_floor(&gross_denominator);
    let fee_percentage = &gross - &net;

    Ok(Quote {
        incoming_amount,
        gross: amount_of_units(&gross, input.outgoing_decimals)?,
        fee_percentage_amount: amount_of_units(&fee_percentage, input.outgoing_decimals)?,
        fee_fixed: terms.fee_fixed,
        outgoing_amount: amount_of_units(&outgoing, input.outgoing_decimals)?,
    })
}

/// `gross = ceil((T+F) · 100/(100−P))`, then `incoming = ceil(gross · R)`: each printed amount rounded once,
/// up.
fn quote_outgoing_fixed(input: &QuoteInput, terms: &Terms) -> Result<Quote, QuoteFault> {
    let outgoing_amount = amount_at_scale(input.amount, input.outgoing_decimals)?;

    let net = units(outgoing_amount) + units(terms.fee_fixed);
    let gross = (&net * &terms.whole_share).div_ceil(&terms.kept_share);
    let fee_percentage = &gross - &net;

    let incoming_numerator = &gross * units(input.conversion_rate) * power_of_ten(input.incoming_decimals);
    let incoming_denominator =
        power_of_ten(input.outgoing_decimals) * power_of_ten(input.conversion_rate.scale());
    let incoming = incoming_numerator.div_ceil(&incoming_denominator);

    Ok(Quote {
        incoming_amount: amount_of_units(&incoming, input.incoming_decimals)?,
        gross: amount_of_units(&gross, input.outgoing_decimals)?,
        fee_percentage_amount: amount_of_units(&fee_percentage, input.outgoing_decimals)?,
        fee_fixed: terms.fee_fixed,
        outgoing_amount,
    })
}

/// The terms both sides share, once the preconditions hold.
struct Terms {
    /// The fixed fee at the scale of the outgoing asset.
    fee_fixed: Decimal,
    /// `100 − P` as a whole number: the percentage fee leaves `kept_share / whole_share` of the gross.
    kept_share: BigUint,
    /// `100` in the same units as `kept_share`.
    whole_share: BigUint,
}

impl Terms {
    fn check(input: &QuoteInput) -> Result<Self, QuoteFault> {
        if input.conversion_rate.is_zero() {
            return Err(QuoteFault::RateZero);
        }
        let whole_share = power_of_ten(input.fee_percentage.scale()) * 100_u8;
        let percentage = units(input.fee_percentage);
        if percentage >= whole_share {
            return Err(QuoteFault::PercentageTooHigh);
        }
        let fee_fixed =
            exact_at_scale(input.fee_fixed, input.outgoing_decimals, QuoteFault::FeeFixedTooManyDecimals)?;
        Ok(Self { fee_fixed, kept_share: &whole_share - percentage, whole_share })
    }
}

/// The given amount at the scale of its asset; it must be positive.
fn amount_at_scale(amount: Decimal, decimals: u8) -> Result<Decimal, QuoteFault> {
    if amount.is_zero() {
        return Err(QuoteFault::NotPositive);
    }
    exact_at_scale(amount, decimals, QuoteFault::AmountTooManyDecimals)
}

/// Distinguishes the two reasons why a decimal does not fit a scale. Trailing zeros do not count as too many
/// decimals.
fn exact_at_scale(
    value: Decimal,
    decimals: u8,
    too_many_decimals: QuoteFault,
) -> Result<Decimal, QuoteFault> {
    if value.normalized().scale() > decimals {
        return Err(too_many_decimals);
    }
    value.at_scale(decimals).ok_or(QuoteFault::OutOfRange)
}

/// The decimal for a whole number of units; refused when it has too many digits, never wrapped or
/// approximated.
fn amount_of_units(units: &BigUint, decimals: u8) -> Result<Decimal, QuoteFault> {
    u128::try_from(units)
        .ok()
        .and_then(|coefficient| Decimal::new(coefficient, decimals))
        .ok_or(QuoteFault::OutOfRange)
}

fn units(value: Decimal) -> BigUint {
    BigUint::from(value.coefficient())
}

fn power_of_ten(exponent: u8) -> BigUint {
    BigUint::from(10_u8).pow(u32::from(exponent))
}
