//! The divisions that a quote needs besides its amounts: a rate from two amounts, a share of an amount.

use num_bigint::BigUint;
use num_integer::Integer;

use super::{power_of_ten, units};
use crate::money::Decimal;

/// A computed rate has at most this many significant digits.
pub const RATE_SIGNIFICANT_DIGITS: u8 = 12;

/// `sold / bought · (1 + spread/100)`, rounded up to [`RATE_SIGNIFICANT_DIGITS`], without trailing zeros.
///
/// Up, so that what is sold buys at least what the rate says. `None` if nothing is bought, or the rate has
/// too many digits.
#[must_use]
pub fn rate_rounded_up(sold: Decimal, bought: Decimal, spread_percentage: Decimal) -> Option<Decimal> {
    let whole = power_of_ten(spread_percentage.scale()) * 100_u8;
    let numerator = units(sold) * power_of_ten(bought.scale()) * (&whole + units(spread_percentage));
    let denominator = units(bought) * power_of_ten(sold.scale()) * whole;
    if bought.is_zero() || sold.is_zero() {
        return None;
    }
    // The scale at which the rate has exactly the digits that it may have; off by one at first, at most.
    let digits = |value: &BigUint| i64::try_from(value.to_string().len()).unwrap_or(i64::MAX);
    let mut scale = i64::from(RATE_SIGNIFICANT_DIGITS) - (digits(&numerator) - digits(&denominator));
    let limit = power_of_ten(RATE_SIGNIFICANT_DIGITS);
    if scaled_up(&numerator, &denominator, scale)? > limit {
        scale -= 1;
    }
    let scale = scale.min(i64::from(Decimal::SCALE_MAX));
    let coefficient = scaled_up(&numerator, &denominator, scale)?;
    // Below zero the rate is a whole number that ends in zeros.
    let zeros = power_of_ten(u8::try_from(scale.min(0).unsigned_abs()).ok()?);
    let coefficient = u128::try_from(coefficient * zeros).ok()?;
    Some(Decimal::new(coefficient, u8::try_from(scale.max(0)).ok()?)?.normalized())
}

/// `numerator / denominator · 10^scale`, rounded up.
fn scaled_up(numerator: &BigUint, denominator: &BigUint, scale: i64) -> Option<BigUint> {
    let factor = power_of_ten(u8::try_from(scale.unsigned_abs()).ok()?);
    Some(match scale {
        0.. => (numerator * factor).div_ceil(denominator),
        _ => numerator.div_ceil(&(denominator * factor)),
    })
}

/// Whether a rate explains what a sale buys: to within one unit of the last place of what is bought.
#[must_use]
pub fn rate_agrees(rate: Decimal, sold: Decimal, bought: Decimal) -> bool {
    // sold / rate in units of what is bought, as a fraction.
    let numerator = units(sold) * power_of_ten(bought.scale()) * power_of_ten(rate.scale());
    let denominator = units(rate) * power_of_ten(sold.scale());
    let exact = units(bought) * &denominator;
    let off = if numerator > exact { &numerator - &exact } else { &exact - &numerator };
    off < denominator
}

/// What an incoming amount leaves for the payout: `I/R · (100−P)/100 − F`, rounded down to so many decimals.
/// Zero if the fees leave nothing, or the terms make no sense: a rate of zero, a fee of 100 percent and more.
/// `None` if it has too many digits.
///
/// [`quote`](super::quote) gives the same, and refuses what no record may hold; here every term may have any
/// scale, and nothing between the terms and the result can have too many digits.
#[must_use]
pub fn payout_rounded_down(
    incoming: Decimal,
    rate: Decimal,
    fee_percentage: Decimal,
    fee_fixed: Decimal,
    decimals: u8,
) -> Option<Decimal> {
    let whole = power_of_ten(fee_percentage.scale()) * 100_u8;
    let fee = units(fee_percentage);
    if rate.is_zero() || fee >= whole {
        return Decimal::new(0, decimals);
    }
    // Both over the same denominator: what the percentage leaves of the gross, and the fixed fee.
    let net = units(incoming) * power_of_ten(rate.scale()) * (&whole - fee) * power_of_ten(fee_fixed.scale());
    let one = units(rate) * power_of_ten(incoming.scale()) * whole;
    let fixed = units(fee_fixed) * &one;
    if net <= fixed {
        return Decimal::new(0, decimals);
    }
    let denominator = one * power_of_ten(fee_fixed.scale());
    let payout = ((net - fixed) * power_of_ten(decimals)).div_floor(&denominator);
    Decimal::new(u128::try_from(payout).ok()?, decimals)
}

/// A percentage of an amount, rounded down to the amount's scale.
#[must_use]
pub fn share_rounded_down(amount: Decimal, percentage: Decimal) -> Option<Decimal> {
    let whole = power_of_ten(percentage.scale()) * 100_u8;
    let share = (units(amount) * units(percentage)).div_floor(&whole);
    Decimal::new(u128::try_from(share).ok()?, amount.scale())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().expect("a decimal")
    }

    fn rate(sold: &str, bought: &str, spread: &str) -> Option<String> {
        rate_rounded_up(decimal(sold), decimal(bought), decimal(spread)).map(|rate| rate.to_string())
    }

    #[test]
    fn terms_that_make_no_sense_leave_nothing() {
        let payout = |rate, percentage, fixed| {
            let terms = [rate, percentage, fixed].map(decimal);
            payout_rounded_down(decimal("1000.00"), terms[0], terms[1], terms[2], 6)
                .map(|left| left.to_string())
        };
        assert_eq!(payout("5.43", "1.5", "0.25").as_deref(), Some("181.149631"));
        for (rate, percentage, fixed) in [
            ("0", "1.5", "0.25"),
            ("5.43", "100", "0"),
            ("5.43", "150", "0"),
            ("5.43", "1.5", "200"),
            ("0", "100", "0"),
        ] {
            assert_eq!(
                payout(rate, percentage, fixed).as_deref(),
                Some("0.000000"),
                "{rate} {percentage} {fixed}"
            );
        }
    }

    #[test]
    fn a_rate_is_rounded_up_to_twelve_significant_digits() {
        for (sold, bought, spread, expected) in [
            ("543.00", "100.000000", "0", "5.43"),
            ("1000.00", "184.162062", "0", "5.43000001814"),
            ("100", "300", "0", "0.333333333334"),
            ("2", "3", "0", "0.666666666667"),
            ("1", "3000000", "0", "0.000000333333333334"),
            ("543.00", "100.000000", "1", "5.4843"),
            ("543.00", "100.000000", "0.5", "5.45715"),
            ("10", "3", "0", "3.33333333334"),
            ("1000000000000", "1", "0", "1000000000000"),
            ("999999999999", "1", "0", "999999999999"),
            ("9999999999999", "1", "0", "10000000000000"),
            ("1234567890123", "1", "0", "1234567890130"),
            ("0.9999999999999", "1", "0", "1"),
            ("1", "1", "0", "1"),
            ("29999999999999999999999999999.00", "0.999999", "0", "30000030000100000000000000000"),
            ("0.01", "99999999999999999999999999999999", "0", "0.00000000000000000000000000000000010001"),
            ("0.000000000000000001", "99999999999999999999", "0", "0.00000000000000000000000000000000000002"),
        ] {
            assert_eq!(
                rate(sold, bought, spread).as_deref(),
                Some(expected),
                "{sold} / {bought} + {spread} %"
            );
        }
    }

    #[test]
    fn no_rate_without_both_amounts_or_with_too_many_digits() {
        assert_eq!(rate("1", "0", "0"), None);
        assert_eq!(rate("0", "1", "0"), None);
        assert_eq!(rate(&"9".repeat(38), "0.000001", "0"), None);
    }

    #[test]
    fn a_rate_agrees_to_within_one_unit_of_what_is_bought() {
        let agrees = |rate, sold, bought| rate_agrees(decimal(rate), decimal(sold), decimal(bought));
        assert!(agrees("5.43", "1000.00", "184.162062"));
        assert!(agrees("5.43", "1000.00", "184.162063"), "rounded up");
        assert!(!agrees("5.43", "1000.00", "184.162061"));
        assert!(!agrees("5.43", "1000.00", "184.162064"));
        assert!(agrees("5", "100.00", "20.000000"));
        assert!(!agrees("5", "100.00", "20.000001"), "a whole unit off");
        assert!(!agrees("5", "100.00", "19.999999"), "a whole unit off");
        assert!(!agrees("0", "100.00", "20.000000"));
        assert!(!agrees("0.2", "100.00", "20.000000"), "upside down");
    }

    #[test]
    fn a_share_is_rounded_down() {
        let share = |amount, percentage| {
            share_rounded_down(decimal(amount), decimal(percentage)).map(|share| share.to_string())
        };
        assert_eq!(share("1.000000", "25").as_deref(), Some("0.250000"));
        assert_eq!(share("0.000003", "50").as_deref(), Some("0.000001"));
        assert_eq!(share("0.000001", "99.9").as_deref(), Some("0.000000"));
        assert_eq!(share("5", "100").as_deref(), Some("5"));
        assert_eq!(share("5.00", "0").as_deref(), Some("0.00"));
    }
}
