//! Properties of every decimal and every quote, checked against exact fractions of whole numbers.
//!
//! The tests build the fractions from the printed text, so that a mistake in the representation cannot hide
//! on both sides of a comparison. They check refusals like results: each must be the right one.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash, Hasher};

use num_bigint::BigInt;
use proptest::prelude::*;
use settle_domain::money::Decimal;
use settle_domain::quote::{FixedSide, Quote, QuoteFault, QuoteInput, quote};

const CASES: u32 = 2_000;

/// We turn a failure into a named vector, so proptest keeps no file of seeds.
fn config() -> ProptestConfig {
    ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() }
}

/// An exact fraction; the denominator is positive.
#[derive(Clone, Debug)]
struct Fraction {
    numerator: BigInt,
    denominator: BigInt,
}

impl Fraction {
    fn new(numerator: impl Into<BigInt>, denominator: BigInt) -> Self {
        let numerator = numerator.into();
        Self { numerator, denominator }
    }

    fn of(value: Decimal) -> Self {
        let text = value.to_string();
        let decimals = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let digits: BigInt = text.replace('.', "").parse().expect("digits");
        Self::new(digits, ten_to(decimals))
    }

    fn whole(value: u32) -> Self {
        Self::new(value, 1.into())
    }

    /// One unit of the last place at a scale.
    fn unit(decimals: u8) -> Self {
        Self::new(1, ten_to(decimals.into()))
    }

    fn plus(&self, other: &Self) -> Self {
        let numerator = &self.numerator * &other.denominator + &other.numerator * &self.denominator;
        Self::new(numerator, &self.denominator * &other.denominator)
    }

    fn minus(&self, other: &Self) -> Self {
        self.plus(&Self::new(-&other.numerator, other.denominator.clone()))
    }

    fn times(&self, other: &Self) -> Self {
        Self::new(&self.numerator * &other.numerator, &self.denominator * &other.denominator)
    }

    /// `other` must be positive.
    fn over(&self, other: &Self) -> Self {
        self.times(&Self::new(other.denominator.clone(), other.numerator.clone()))
    }

    /// Whether the value is a whole number of units at the scale.
    fn fits_decimals(&self, decimals: u8) -> bool {
        &self.numerator * ten_to(decimals.into()) % &self.denominator == BigInt::ZERO
    }

    /// Whether the value, rounded down to the scale, has at most 38 digits, and the scale exists at all.
    fn fits_digits(&self, decimals: u8) -> bool {
        let units = &self.numerator * ten_to(decimals.into()) / &self.denominator;
        decimals <= Decimal::SCALE_MAX && units < ten_to(38)
    }
}

impl PartialEq for Fraction {
    fn eq(&self, other: &Self) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Fraction {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let (left, right) = (&self.numerator * &other.denominator, &other.numerator * &self.denominator);
        Some(left.cmp(&right))
    }
}

fn ten_to(exponent: usize) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap())
}

fn hash_of(value: Decimal) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Decimals of every length and scale; short ones are as likely as long ones.
fn any_decimal() -> impl Strategy<Value = Decimal> {
    (0..=38_u32, any::<u128>(), 0..=Decimal::SCALE_MAX)
        .prop_map(|(digits, seed, scale)| Decimal::new(seed % 10_u128.pow(digits), scale).unwrap())
}

fn any_side() -> impl Strategy<Value = FixedSide> {
    prop::sample::select(FixedSide::ALL.to_vec())
}

/// Meaningless inputs: most are refused.
fn any_input() -> impl Strategy<Value = QuoteInput> {
    let decimals = || prop_oneof![9 => 0..=Decimal::SCALE_MAX, 1 => any::<u8>()];
    let numbers = (any_decimal(), any_decimal(), any_decimal(), any_decimal());
    (any_side(), decimals(), decimals(), numbers).prop_map(
        |(fixed_side, incoming_decimals, outgoing_decimals, numbers)| QuoteInput {
            fixed_side,
            amount: numbers.0,
            incoming_decimals,
            outgoing_decimals,
            conversion_rate: numbers.1,
            fee_percentage: numbers.2,
            fee_fixed: numbers.3,
        },
    )
}

/// Realistic inputs: most are payable, some are refused because the fees use up the amount.
fn corridor_input(fixed_side: FixedSide) -> impl Strategy<Value = QuoteInput> {
    let decimals = || prop::sample::select(vec![0_u8, 2, 3, 6, 8, 18]);
    let amount_units = prop_oneof![1..1_000_u128, 1..10_u128.pow(12), 1..10_u128.pow(30)];
    let rate = (1..10_u128.pow(12), 0..=12_u8);
    let percentage = prop_oneof![Just((0, 0)), (0..1_000_000_u128).prop_map(|units| (units, 4))];
    let fee_units = prop_oneof![Just(0), 0..1_000_u128, 0..10_u128.pow(9)];
    (decimals(), decimals(), amount_units, rate, percentage, fee_units).prop_map(
        move |(incoming_decimals, outgoing_decimals, amount, rate, percentage, fee)| {
            let amount_decimals = match fixed_side {
                FixedSide::Incoming => incoming_decimals,
                FixedSide::Outgoing => outgoing_decimals,
            };
            QuoteInput {
                fixed_side,
                amount: Decimal::new(amount, amount_decimals).unwrap(),
                incoming_decimals,
                outgoing_decimals,
                conversion_rate: Decimal::new(rate.0, rate.1).unwrap(),
                fee_percentage: Decimal::new(percentage.0, percentage.1).unwrap(),
                fee_fixed: Decimal::new(fee, outgoing_decimals).unwrap(),
            }
        },
    )
}

/// `(100 − P) / 100`.
fn kept_share(input: &QuoteInput) -> Fraction {
    let hundred = Fraction::whole(100);
    hundred.minus(&Fraction::of(input.fee_percentage)).over(&hundred)
}

/// `I / R`.
fn exact_gross(incoming: Decimal, input: &QuoteInput) -> Fraction {
    Fraction::of(incoming).over(&Fraction::of(input.conversion_rate))
}

/// The first refusal that the rules demand before any computation.
fn precondition_refusal(input: &QuoteInput) -> Option<QuoteFault> {
    let amount_decimals = match input.fixed_side {
        FixedSide::Incoming => input.incoming_decimals,
        FixedSide::Outgoing => input.outgoing_decimals,
    };
    let (amount, fee) = (Fraction::of(input.amount), Fraction::of(input.fee_fixed));
    let zero = Fraction::whole(0);
    [
        (Fraction::of(input.conversion_rate) == zero, QuoteFault::RateZero),
        (Fraction::of(input.fee_percentage) >= Fraction::whole(100), QuoteFault::PercentageTooHigh),
        (!fee.fits_decimals(input.outgoing_decimals), QuoteFault::FeeFixedTooManyDecimals),
        (!fee.fits_digits(input.outgoing_decimals), QuoteFault::OutOfRange),
        (amount == zero, QuoteFault::NotPositive),
        (!amount.fits_decimals(amount_decimals), QuoteFault::AmountTooManyDecimals),
        (!amount.fits_digits(amount_decimals), QuoteFault::OutOfRange),
    ]
    .into_iter()
    .find_map(|(broken, reason)| broken.then_some(reason))
}

/// The properties of a quote of either side.
fn check_lines_and_scales(input: &QuoteInput, quoted: &Quote) {
    let outgoing_side =
        [quoted.gross, quoted.fee_percentage_amount, quoted.fee_fixed, quoted.outgoing_amount];
    for amount in outgoing_side {
        assert_eq!(amount.scale(), input.outgoing_decimals);
    }
    assert_eq!(quoted.incoming_amount.scale(), input.incoming_decimals);

    let [gross, fee_percentage, fee_fixed, outgoing] = outgoing_side.map(Fraction::of);
    assert_eq!(gross, outgoing.plus(&fee_percentage).plus(&fee_fixed), "the printed lines add up");
    assert_eq!(fee_fixed, Fraction::of(input.fee_fixed));
    assert!(!quoted.outgoing_amount.is_zero() && !quoted.incoming_amount.is_zero());
}

fn check_incoming_fixed(input: &QuoteInput) {
    let gross = exact_gross(input.amount, input);
    let net = gross.times(&kept_share(input)).minus(&Fraction::of(input.fee_fixed));
    let unit = Fraction::unit(input.outgoing_decimals);
    match quote(input) {
        Ok(quoted) => {
            check_lines_and_scales(input, &quoted);
            let outgoing = Fraction::of(quoted.outgoing_amount);
            assert!(outgoing <= net, "never rounded up");
            assert!(net < outgoing.plus(&unit), "and not a whole unit down");
            let printed_gross = Fraction::of(quoted.gross);
            assert!(printed_gross <= gross && gross < printed_gross.plus(&unit));
            assert_eq!(quoted.incoming_amount, input.amount);
        }
        Err(refused) => match refused {
            QuoteFault::NotPositive => assert!(net < unit, "{net:?} is payable"),
            QuoteFault::OutOfRange => assert!(!gross.fits_digits(input.outgoing_decimals)),
            other => panic!("{other:?}, but every precondition holds"),
        },
    }
}

fn check_outgoing_fixed(input: &QuoteInput) {
    let net = Fraction::of(input.amount).plus(&Fraction::of(input.fee_fixed));
    let required = net.over(&kept_share(input));
    let rate = Fraction::of(input.conversion_rate);
    let unit = Fraction::unit(input.outgoing_decimals);
    let incoming_unit = Fraction::unit(input.incoming_decimals);
    match quote(input) {
        Ok(quoted) => {
            check_lines_and_scales(input, &quoted);
            let gross = Fraction::of(quoted.gross);
            assert!(required <= gross && gross < required.plus(&unit));
            let converted = exact_gross(quoted.incoming_amount, input);
            assert!(gross <= converted, "enough is collected");
            assert!(converted < gross.plus(&incoming_unit.over(&rate)), "and not a whole unit too much");
            assert_eq!(quoted.outgoing_amount, input.amount);
        }
        Err(refused) => {
            assert_eq!(refused, QuoteFault::OutOfRange, "every precondition holds");
            // Rounding up adds less than one unit to each.
            let gross_most = required.plus(&unit);
            let incoming_most = gross_most.times(&rate).plus(&incoming_unit);
            let gross_fits = gross_most.fits_digits(input.outgoing_decimals);
            assert!(!gross_fits || !incoming_most.fits_digits(input.incoming_decimals));
        }
    }
}

fn check_quote(input: &QuoteInput) {
    match (precondition_refusal(input), input.fixed_side) {
        (Some(reason), _) => assert_eq!(quote(input), Err(reason)),
        (None, FixedSide::Incoming) => check_incoming_fixed(input),
        (None, FixedSide::Outgoing) => check_outgoing_fixed(input),
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_printed_decimal_parses_to_the_same_value_and_scale(value in any_decimal()) {
        let text = value.to_string();
        let parsed: Decimal = text.parse().unwrap();
        assert_eq!((parsed, parsed.scale()), (value, value.scale()));
        assert!(text.len() <= Decimal::TEXT_BYTES_MAX);
        let json = serde_json::to_string(&value).unwrap();
        assert_eq!(json, format!("\"{text}\""));
        assert_eq!(serde_json::from_str::<Decimal>(&json).unwrap().to_string(), text);
    }

    #[test]
    fn an_accepted_text_prints_as_typed(text in "(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?") {
        let significant = text.replace('.', "").trim_start_matches('0').len();
        match text.parse::<Decimal>() {
            Ok(value) => assert_eq!(value.to_string(), text),
            Err(_) => assert!(significant > 38),
        }
    }

    #[test]
    fn any_text_is_refused_or_prints_as_typed(text in prop_oneof!["\\PC{0,50}", "[0-9.eE+,_ -]{0,45}"]) {
        if let Ok(value) = text.parse::<Decimal>() {
            assert_eq!(value.to_string(), text);
        }
    }

    #[test]
    fn the_order_is_that_of_the_values(left in any_decimal(), right in any_decimal()) {
        let expected = Fraction::of(left).partial_cmp(&Fraction::of(right)).unwrap();
        assert_eq!(left.cmp(&right), expected);
        assert_eq!(left == right, expected == Ordering::Equal);
    }

    #[test]
    fn a_change_of_scale_keeps_the_value_or_is_refused(value in any_decimal(), decimals in 0..=45_u8) {
        let exact = Fraction::of(value);
        let fits = exact.fits_decimals(decimals) && exact.fits_digits(decimals);
        assert_eq!(value.at_scale(decimals).is_some(), fits);
        let normalized = value.normalized();
        let text = normalized.to_string();
        assert!(!text.contains('.') || !text.ends_with('0'), "{text}");
        for same in value.at_scale(decimals).into_iter().chain([normalized]) {
            assert_eq!(Fraction::of(same), exact);
            assert_eq!((same, same.cmp(&value), hash_of(same)), (value, Ordering::Equal, hash_of(value)));
        }
    }

    #[test]
    fn no_input_panics_and_every_refusal_is_the_right_one(input in any_input()) {
        check_quote(&input);
    }

    #[test]
    fn a_fixed_incoming_amount_pays_out_the_exact_net_rounded_down(
        input in corridor_input(FixedSide::Incoming)
    ) {
        check_quote(&input);
    }

    #[test]
    fn a_fixed_outgoing_amount_collects_just_enough(input in corridor_input(FixedSide::Outgoing)) {
        check_quote(&input);
    }

    #[test]
    fn what_was_collected_for_a_payout_pays_it_out(input in corridor_input(FixedSide::Outgoing)) {
        let Ok(backward) = quote(&input) else { return Ok(()) };
        let forward = QuoteInput {
            fixed_side: FixedSide::Incoming,
            amount: backward.incoming_amount,
            ..input
        };
        match quote(&forward) {
            Ok(quoted) => assert!(quoted.outgoing_amount >= input.amount),
            // One incoming unit may be worth so much that the result no longer fits.
            Err(refused) => assert_eq!(refused, QuoteFault::OutOfRange),
        }
    }
}
