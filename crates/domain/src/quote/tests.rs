//! Every reason for a refusal, at its edge, and the names of the fixed sides.

use super::{FixedSide, FixedSideFault, Quote, QuoteFault, QuoteInput, quote};
use crate::money::Decimal;

fn decimal(text: &str) -> Decimal {
    text.parse().expect("a decimal")
}

/// BRL to USDC at par without fees: payable, until a test changes one thing.
fn input(fixed_side: FixedSide) -> QuoteInput {
    QuoteInput {
        fixed_side,
        amount: decimal("100"),
        incoming_decimals: 2,
        outgoing_decimals: 6,
        conversion_rate: Decimal::ONE,
        fee_percentage: Decimal::ZERO,
        fee_fixed: Decimal::ZERO,
    }
}

fn outcome(input: QuoteInput) -> Result<Quote, QuoteFault> {
    quote(&input)
}

#[test]
fn preconditions_hold_on_both_sides() {
    for side in FixedSide::ALL {
        let base = input(side);
        assert!(outcome(base).is_ok());
        let refused = |changed: QuoteInput| outcome(changed).expect_err("a refusal");
        assert_eq!(refused(QuoteInput { conversion_rate: decimal("0.00"), ..base }), QuoteFault::RateZero);
        assert_eq!(
            refused(QuoteInput { fee_percentage: decimal("100.0"), ..base }),
            QuoteFault::PercentageTooHigh
        );
        assert_eq!(
            refused(QuoteInput { fee_fixed: decimal("0.0000001"), ..base }),
            QuoteFault::FeeFixedTooManyDecimals
        );
        assert_eq!(
            refused(QuoteInput { amount: decimal("0.0000001"), ..base }),
            QuoteFault::AmountTooManyDecimals
        );
        assert_eq!(refused(QuoteInput { amount: decimal("0.00"), ..base }), QuoteFault::NotPositive);
        assert_eq!(refused(QuoteInput { outgoing_decimals: 39, ..base }), QuoteFault::OutOfRange);
        assert_eq!(refused(QuoteInput { incoming_decimals: u8::MAX, ..base }), QuoteFault::OutOfRange);
    }
}

#[test]
fn trailing_zeros_are_not_too_many_decimals() {
    for side in FixedSide::ALL {
        let base = input(side);
        let padded = QuoteInput {
            amount: decimal("100.0000000"),
            conversion_rate: decimal("1.0000000"),
            fee_percentage: decimal("0.0000000"),
            fee_fixed: decimal("0.0000000"),
            ..base
        };
        let quoted = outcome(padded).expect("a quote");
        assert_eq!(quoted.incoming_amount.to_string(), "100.00");
        assert_eq!(quoted.outgoing_amount.to_string(), "100.000000");
        assert_eq!(quoted.fee_fixed.to_string(), "0.000000");
    }
}

#[test]
fn a_percentage_just_below_a_hundred_is_exact() {
    let percentage = decimal("99.999999999999999999999999999999999999");
    let forward = QuoteInput { fee_percentage: percentage, ..input(FixedSide::Incoming) };
    assert_eq!(outcome(forward), Err(QuoteFault::NotPositive));

    let smallest = decimal("0.000001");
    let backward = QuoteInput { amount: smallest, fee_percentage: percentage, ..input(FixedSide::Outgoing) };
    assert_eq!(outcome(backward), Err(QuoteFault::OutOfRange), "the gross has 39 digits");
    let percentage = decimal("99.99999999999999999999999999999");
    let backward = QuoteInput { fee_percentage: percentage, ..backward };
    let quoted = outcome(backward).expect("a quote");
    assert_eq!(quoted.gross.to_string(), "10000000000000000000000000.000000");
}

#[test]
fn the_largest_gross_is_paid_and_the_next_is_refused() {
    let base = QuoteInput { incoming_decimals: 0, ..input(FixedSide::Incoming) };
    let largest = QuoteInput { amount: decimal("99999999999999999999999999999999"), ..base };
    let quoted = outcome(largest).expect("a quote");
    assert_eq!(quoted.gross.to_string(), "99999999999999999999999999999999.000000");
    let next = QuoteInput { amount: decimal("100000000000000000000000000000000"), ..base };
    assert_eq!(outcome(next), Err(QuoteFault::OutOfRange));

    // The payout alone would fit, but the gross must fit too.
    let halved = QuoteInput { fee_percentage: decimal("50"), ..next };
    assert_eq!(outcome(halved), Err(QuoteFault::OutOfRange));
}

#[test]
fn a_refusal_says_why() {
    let zero_rate = QuoteInput { conversion_rate: Decimal::ZERO, ..input(FixedSide::Incoming) };
    let refused = quote(&zero_rate).expect_err("a refusal");
    assert_eq!(refused.to_string(), "quote refused: the conversion rate is zero");
    assert_eq!(refused.as_str(), "rate_zero");
}

#[test]
fn fixed_sides_have_one_spelling() {
    for (side, text) in [(FixedSide::Incoming, "incoming"), (FixedSide::Outgoing, "outgoing")] {
        assert_eq!((side.as_str(), side.to_string().as_str(), text.parse()), (text, text, Ok(side)));
        let json = format!("\"{text}\"");
        assert_eq!(serde_json::to_string(&side).expect("json"), json);
        assert_eq!(serde_json::from_str::<FixedSide>(&json).expect("a side"), side);
    }
    for text in ["", "Incoming", "INCOMING", " incoming", "both"] {
        assert_eq!(text.parse::<FixedSide>(), Err(FixedSideFault), "{text:?}");
        assert!(serde_json::from_str::<FixedSide>(&format!("\"{text}\"")).is_err());
    }
}
