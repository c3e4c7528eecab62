//! The body of a corridor on whatever an operator may send: what is agreed reads the same after it is
//! written, and every fault is named.

use proptest::prelude::*;
use serde_json::{Value, json};
use settle_testing::corpus::{JSON_PIECES, lines, near};

use super::super::fuzz::{assert_named, fields};
use super::*;

const CORPUS: &str = include_str!("../../../tests/data/fuzz_corridors.txt");
const FIELDS: [&str; 9] = [
    "fee_percentage",
    "fee_fixed",
    "provider",
    "minimum",
    "maximum",
    "alert_after_seconds",
    "spread",
    "partner",
    "commission",
];

fn asset(code: &str) -> Asset {
    code.parse().expect("an asset")
}

/// What a body agrees between two assets; `None` if it is no object.
fn agreed_in(body: &str) -> Option<Result<(Corridor, CorridorPricing), ApiError>> {
    Some(agreed(fields(body)?, asset("BRL"), asset("USDC")))
}

fn written(corridor: &Corridor, pricing: &CorridorPricing) -> Value {
    let terms = corridor.terms();
    let partner = pricing.partner();
    json!({
        "fee_percentage": terms.fee_percentage,
        "fee_fixed": terms.fee_fixed,
        "provider": terms.provider,
        "minimum": terms.minimum,
        "maximum": terms.maximum,
        "alert_after_seconds": terms.alert_after.as_secs(),
        "spread": pricing.spread(),
        "partner": partner.map(|partner| &partner.name),
        "commission": partner.map(|partner| partner.commission),
    })
}

/// Whether the body agrees something.
fn read(body: &str) -> bool {
    match agreed_in(body) {
        Some(Ok((corridor, pricing))) => {
            let again = agreed_in(&written(&corridor, &pricing).to_string()).expect("an object");
            assert_eq!(again.expect("what was read"), (corridor, pricing), "{body}");
            true
        }
        Some(Err(refusal)) => {
            assert_named(&refusal, &FIELDS);
            false
        }
        None => false,
    }
}

#[test]
fn the_corpus() {
    let read = lines(CORPUS).iter().filter(|body| read(body)).count();
    assert!(read >= 5, "{read} bodies were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_body_is_read_or_refused_by_name(body in near(lines(CORPUS), JSON_PIECES)) {
        read(&body);
    }
}
