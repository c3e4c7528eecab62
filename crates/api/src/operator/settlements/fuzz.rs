//! Completed settlements on whatever an operator may send: what is accepted reads the same after it is
//! written, and every fault is named.

use proptest::prelude::*;
use serde_json::{Value, json};
use settle_domain::settlement::{FIELDS, Origin, UNCHECKED};
use settle_testing::corpus::{JSON_PIECES, lines, near};

use super::super::fuzz::assert_named;
use super::*;

const CORPUS: &str = include_str!("../../../tests/data/fuzz_settlements.txt");

/// Whether the body has settlements, alone or in a list.
fn read_settlements(body: &str) -> bool {
    match read(body.as_bytes()) {
        Ok((settlements, elements)) => {
            assert!((1..=BATCH_MAX).contains(&settlements.len()), "{body}");
            assert_eq!(elements.keys.len(), settlements.len(), "{body}");
            assert!(elements.is_list || settlements.len() == 1, "{body}");
            for settlement in settlements {
                let (again, _) = read(written(&settlement).to_string().as_bytes()).expect("what was read");
                assert_eq!(again, [settlement], "{body}");
            }
            true
        }
        Err(refusal) => {
            assert_named(&refusal, &[&FIELDS[..], &["merchant_id", "pricing", UNCHECKED]].concat());
            false
        }
    }
}

fn written(settlement: &NewSettlement) -> Value {
    let mut body: Value = serde_json::from_str(settlement.record.as_str()).expect("a record");
    body["merchant_id"] = json!(settlement.merchant_id);
    body["pricing"] = json!(settlement.pricing);
    body[UNCHECKED] = json!(settlement.origin == Origin::Unchecked);
    body
}

#[test]
fn the_corpus() {
    let read = lines(CORPUS).iter().filter(|body| read_settlements(body)).count();
    assert!(read >= 5, "{read} bodies were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_body_is_settlements_or_refused_by_name(body in near(lines(CORPUS), JSON_PIECES)) {
        read_settlements(&body);
        read_settlements(&format!("[{body},{body}]"));
    }
}
