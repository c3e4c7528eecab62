//! Runs every vector of `tests/data/money_vectors.json`: quotes from both sides, notation, rescaling.
//!
//! Each test asserts how many vectors it saw, and unknown fields are errors: no expectation is skipped
//! silently.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorTerms};
use settle_domain::money::{Decimal, asset_decimals};
use settle_domain::pricing::CorridorPricing;
use settle_domain::quote::{FixedSide, Quote, QuoteInput, quote};
use settle_domain::quoting::{FrozenQuote, ProviderQuote, QuotingFault, Wanted, freeze};

const ASSETS: usize = 16;
const QUOTES_PAYABLE: usize = 24;
const QUOTES_REJECTED: usize = 4;
const PARSED_TEXTS: usize = 13;
const RESCALED_TEXTS: usize = 5;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorFile {
    version: u32,
    #[serde(rename = "rules")]
    _rules: IgnoredAny,
    asset_decimals: BTreeMap<String, u8>,
    vectors: Vec<QuoteVector>,
    parse_vectors: Vec<ParseVector>,
    rescale_vectors: Vec<RescaleVector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuoteVector {
    id: String,
    note: String,
    fixed_side: FixedSide,
    input: VectorInput,
    expect: Expectation,
    /// The results of other ways of rounding, for the reader; no test compares them.
    #[serde(default, rename = "info")]
    _info: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorInput {
    incoming_currency: String,
    incoming_decimals: u8,
    outgoing_currency: String,
    outgoing_decimals: u8,
    incoming_amount: Option<String>,
    outgoing_amount: Option<String>,
    conversion_rate: String,
    fee_percentage: String,
    fee_fixed: String,
}

#[derive(Deserialize)]
#[serde(tag = "result", rename_all = "lowercase", deny_unknown_fields)]
enum Expectation {
    Ok {
        gross_truncated: Option<String>,
        gross_required: Option<String>,
        fee_percentage_amount: String,
        incoming_amount: Option<String>,
        outgoing_amount: String,
    },
    Rejected {
        code: String,
        reason: String,
        /// The amounts that led to the refusal, for the reader: a refusal carries none.
        #[serde(default, rename = "gross_truncated")]
        _gross_truncated: IgnoredAny,
        #[serde(default, rename = "computed_outgoing_amount")]
        _computed_outgoing_amount: IgnoredAny,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParseVector {
    text: String,
    accept: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RescaleVector {
    currency: String,
    text: String,
    canonical: Option<String>,
}

fn vector_file() -> VectorFile {
    let file: VectorFile = serde_json::from_str(include_str!("../data/money_vectors.json"))
        .expect("the vector file is well-formed");
    assert_eq!(file.version, 1);
    file
}

fn decimal(text: &str) -> Decimal {
    text.parse().expect("the vector's text is a decimal")
}

fn quote_input(vector: &QuoteVector) -> QuoteInput {
    let input = &vector.input;
    let given = (vector.fixed_side, &input.incoming_amount, &input.outgoing_amount);
    let ((FixedSide::Incoming, Some(amount), None) | (FixedSide::Outgoing, None, Some(amount))) = given
    else {
        panic!("{}: exactly the amount of the fixed side is given", vector.id);
    };
    QuoteInput {
        fixed_side: vector.fixed_side,
        amount: decimal(amount),
        incoming_decimals: input.incoming_decimals,
        outgoing_decimals: input.outgoing_decimals,
        conversion_rate: decimal(&input.conversion_rate),
        fee_percentage: decimal(&input.fee_percentage),
        fee_fixed: decimal(&input.fee_fixed),
    }
}

/// Compares texts, not values: the number of printed decimals is part of the expectation.
fn assert_prints(vector: &QuoteVector, field: &str, expected: &str, actual: Decimal) {
    assert_eq!(actual.to_string(), expected, "{} ({}): {field}", vector.id, vector.note);
}

fn assert_payable(vector: &QuoteVector, quoted: Quote) {
    let Expectation::Ok {
        gross_truncated,
        gross_required,
        fee_percentage_amount,
        incoming_amount,
        outgoing_amount,
    } = &vector.expect
    else {
        panic!("{} ({}): expected a refusal, got {quoted:?}", vector.id, vector.note);
    };
    let (gross, incoming) = match (vector.fixed_side, gross_truncated, gross_required, incoming_amount) {
        (FixedSide::Incoming, Some(gross), None, None) => (gross, vector.input.incoming_amount.as_ref()),
        (FixedSide::Outgoing, None, Some(gross), Some(incoming)) => (gross, Some(incoming)),
        _ => panic!("{}: the expectation does not belong to its fixed side", vector.id),
    };
    assert_prints(vector, "gross", gross, quoted.gross);
    assert_prints(vector, "fee_percentage_amount", fee_percentage_amount, quoted.fee_percentage_amount);
    assert_prints(vector, "outgoing_amount", outgoing_amount, quoted.outgoing_amount);
    assert_prints(vector, "incoming_amount", incoming.expect("an incoming amount"), quoted.incoming_amount);

    assert_eq!(quoted.fee_fixed, decimal(&vector.input.fee_fixed), "{}", vector.id);
    assert_eq!(quoted.fee_fixed.scale(), vector.input.outgoing_decimals, "{}", vector.id);
}

#[test]
fn every_quote_vector_gives_the_expected_amounts_or_reason() {
    let (mut payable, mut rejected) = (0, 0);
    for vector in &vector_file().vectors {
        match (quote(&quote_input(vector)), &vector.expect) {
            (Ok(quoted), _) => {
                assert_payable(vector, quoted);
                payable += 1;
            }
            (Err(refused), Expectation::Rejected { code, reason, .. }) => {
                assert_eq!(code, "quote_refused", "{}", vector.id);
                assert_eq!(refused.as_str(), reason, "{} ({})", vector.id, vector.note);
                rejected += 1;
            }
            (Err(refused), Expectation::Ok { .. }) => panic!("{} ({}): {refused}", vector.id, vector.note),
        }
    }
    assert_eq!((payable, rejected), (QUOTES_PAYABLE, QUOTES_REJECTED));
}

/// What a provider with the vector's rate would quote for what came in.
fn provider_quote(vector: &QuoteVector, incoming_amount: Decimal) -> ProviderQuote {
    let input = quote_input(vector);
    let without_fees = QuoteInput {
        fixed_side: FixedSide::Incoming,
        amount: incoming_amount,
        fee_percentage: Decimal::ZERO,
        fee_fixed: Decimal::ZERO,
        ..input
    };
    // Where there is no such amount, one that is as bad: nothing, or more than the asset can hold.
    let buy_amount = match (quote(&without_fees), &vector.expect) {
        (Ok(quoted), _) => quoted.gross,
        (Err(_), Expectation::Rejected { reason, .. }) if reason == "not_positive" => Decimal::ZERO,
        (Err(_), _) => incoming_amount,
    };
    ProviderQuote {
        quote_id: vector.id.clone(),
        sell_amount: incoming_amount,
        buy_amount,
        rate: Some(input.conversion_rate),
        expires_at: "2026-01-31T09:30:00Z".parse().expect("a time"),
    }
}

fn frozen(vector: &QuoteVector) -> Result<FrozenQuote, QuotingFault> {
    let input = quote_input(vector);
    let corridor = Corridor::new(CorridorTerms {
        incoming: vector.input.incoming_currency.parse().expect("a known asset"),
        outgoing: vector.input.outgoing_currency.parse().expect("a known asset"),
        fee_percentage: input.fee_percentage,
        fee_fixed: input.fee_fixed,
        minimum: None,
        maximum: None,
        provider: "sandbox".parse().expect("a name"),
        alert_after: ALERT_AFTER,
    })
    .expect("terms that can be agreed");
    let expected_incoming = match &vector.expect {
        Expectation::Ok { incoming_amount, .. } => incoming_amount.as_ref(),
        Expectation::Rejected { .. } => None,
    };
    let came_in = vector.input.incoming_amount.as_ref().or(expected_incoming).expect("an incoming amount");
    let wanted = Wanted {
        incoming_amount: decimal(came_in),
        outgoing_target: vector.input.outgoing_amount.as_ref().map(|target| decimal(target)),
    };
    let offer = provider_quote(vector, wanted.incoming_amount);
    freeze(&corridor, &CorridorPricing::NONE, &wanted, &offer)
}

#[test]
fn every_quote_vector_goes_through_the_engines_quoting() {
    let (mut payable, mut rejected) = (0, 0);
    for vector in &vector_file().vectors {
        match (frozen(vector), &vector.expect) {
            (Ok(frozen), _) => {
                assert_payable(vector, frozen.quote);
                assert_eq!(frozen.fixed_side, vector.fixed_side, "{}", vector.id);
                assert_prints(vector, "rate", &vector.input.conversion_rate, frozen.conversion_rate);
                payable += 1;
            }
            (Err(QuotingFault::Amounts(refused)), Expectation::Rejected { reason, .. }) => {
                assert_eq!(refused.as_str(), reason, "{} ({})", vector.id, vector.note);
                rejected += 1;
            }
            (Err(refused), _) => panic!("{} ({}): {refused}", vector.id, vector.note),
        }
    }
    assert_eq!((payable, rejected), (QUOTES_PAYABLE, QUOTES_REJECTED));
}

#[test]
fn every_asset_has_the_decimals_of_the_table() {
    let file = vector_file();
    assert_eq!(file.asset_decimals.len(), ASSETS);
    for (code, decimals) in &file.asset_decimals {
        assert_eq!(asset_decimals(code), Some(*decimals), "{code}");
    }
    for QuoteVector { id, input, .. } in &file.vectors {
        assert_eq!(asset_decimals(&input.incoming_currency), Some(input.incoming_decimals), "{id}");
        assert_eq!(asset_decimals(&input.outgoing_currency), Some(input.outgoing_decimals), "{id}");
    }
    for unknown in ["", "usdc", "USDC ", "XYZ"] {
        assert_eq!(asset_decimals(unknown), None, "{unknown:?}");
    }
}

#[test]
fn every_parse_vector_is_accepted_or_refused_as_expected() {
    let vectors = vector_file().parse_vectors;
    assert_eq!(vectors.len(), PARSED_TEXTS);
    for ParseVector { text, accept } in vectors {
        let parsed = text.parse::<Decimal>();
        assert_eq!(parsed.is_ok(), accept, "{text:?}: {parsed:?}");
        if let Ok(parsed) = parsed {
            assert_eq!(parsed.to_string(), text);
        }
    }
}

#[test]
fn every_rescale_vector_prints_canonically_or_is_refused() {
    let vectors = vector_file().rescale_vectors;
    assert_eq!(vectors.len(), RESCALED_TEXTS);
    for RescaleVector { currency, text, canonical } in vectors {
        let decimals = asset_decimals(&currency).expect("a known asset");
        let rescaled = decimal(&text).at_scale(decimals).map(|amount| amount.to_string());
        assert_eq!(rescaled, canonical, "{currency} {text}");
    }
}
