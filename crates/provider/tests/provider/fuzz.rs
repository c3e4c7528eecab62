//! What a provider may send, and whoever pretends to be one: bodies and signatures, near to what they should
//! be and far from it. Nothing panics, what is accepted reads the same after it is printed, and what is
//! refused is refused in a few words, however long the other side's text is.
//!
//! The corpus is a body of every kind, and texts that once were, or nearly were, a problem; every reader gets
//! every line. Add the text of a bug before you mend it.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use serde::Serialize;
use settle_domain::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use settle_domain::time::Timestamp;
use settle_provider::signing::{ProviderSecret, sign, verify};
use settle_provider::wire::{self, Body};

const CORPUS: &str = include_str!("../data/fuzz_corpus.txt");
/// The most characters of a fault: a path, and what is wrong there.
const FAULT_CHARACTERS_MAX: usize = 500;
const AT: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

fn corpus() -> Vec<String> {
    let long = "x".repeat(4_000);
    let made = [
        "[".repeat(4_000),
        "{\"a\":".repeat(1_000),
        format!(r#"{{"{long}":tru}}"#),
        format!(r#"{{"code":"{long}"}}"#),
        format!(r#"{{"code":{{"{long}":1}}}}"#),
        format!(r#"{{"operations":[{{"status":"{long}"}}]}}"#),
    ];
    CORPUS.lines().map(str::to_owned).chain(made).collect()
}

/// A line of the corpus with some bytes replaced, or any bytes.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        any::<u8>().prop_map(|byte| vec![byte]),
        prop::sample::select(vec!["\"", "null", "{", "[]", "1", ",", "-", "\\u0000", "é"])
            .prop_map(|piece| piece.as_bytes().to_vec()),
    ];
    let changes = prop::collection::vec((any::<prop::sample::Index>(), piece), 0..4);
    let near = (prop::sample::select(corpus()), changes).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (place, piece) in changes {
            let place = place.index(bytes.len());
            bytes.splice(place..=place, piece);
        }
        bytes
    });
    prop_oneof![4 => near, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

/// Whether a body of this kind was read.
fn read_as<T: Body + Serialize>(bytes: &[u8]) -> bool {
    let printed = |body: T| serde_json::to_string(&body).expect("what we print");
    match wire::read::<T>(bytes).map(printed) {
        Ok(text) => {
            let again = wire::read::<T>(text.as_bytes()).map(printed);
            assert_eq!(again.as_ref(), Ok(&text), "{:?}", String::from_utf8_lossy(bytes));
            true
        }
        Err(fault) => {
            let text = fault.to_string();
            assert!((1..=FAULT_CHARACTERS_MAX).contains(&text.chars().count()), "{text}");
            false
        }
    }
}

/// How many kinds of bodies these bytes are.
fn read_everything(bytes: &[u8]) -> usize {
    let read = [
        read_as::<wire::Operation>(bytes),
        read_as::<wire::OperationPage>(bytes),
        read_as::<wire::Capabilities>(bytes),
        read_as::<wire::Problem>(bytes),
        read_as::<wire::Absence>(bytes),
        read_as::<wire::Quote>(bytes),
        read_as::<wire::QuoteRequest>(bytes),
        read_as::<wire::ConversionRequest>(bytes),
        read_as::<wire::PayoutRequest>(bytes),
        read_as::<wire::RefundRequest>(bytes),
        read_as::<wire::VoidRequest>(bytes),
    ];
    read.into_iter().filter(|is_read| *is_read).count()
}

fn secret(text: &str) -> ProviderSecret {
    ProviderSecret::parse(text.to_owned()).expect("a secret")
}

fn signed(body: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    sign(&mut headers, &secret("hush"), AT, body);
    headers
}

/// Some values near to a right one, or anything that a header takes.
fn any_values(name: &'static str) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let right = signed(b"{}")[name].as_bytes().to_vec();
    let changed = (Just(right.clone()), any::<prop::sample::Index>(), any::<u8>());
    let near = changed.prop_map(|(mut value, place, byte)| {
        let place = place.index(value.len());
        value[place] = byte;
        value
    });
    let digits = "[ +-]?[0-9]{1,20}".prop_map(String::into_bytes);
    let any = prop::collection::vec(any::<u8>(), 0..80);
    prop::collection::vec(prop_oneof![4 => Just(right), 2 => near, 1 => digits, 1 => any], 0..3)
}

#[test]
fn the_corpus() {
    let corpus = corpus();
    let read = corpus.iter().map(|text| read_everything(text.as_bytes())).filter(|kinds| *kinds > 0);
    assert!(read.count() >= 11, "there is a body of every kind");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_body_is_read_or_refused(bytes in any_body()) {
        read_everything(&bytes);
    }

    /// Whatever the headers say, only the right signature at the right time is believed.
    #[test]
    fn only_what_was_signed_is_believed(
        timestamps in any_values(TIMESTAMP_HEADER),
        signatures in any_values(SIGNATURE_HEADER),
        body in prop_oneof![3 => Just(b"{}".to_vec()), 1 => any_body()],
        seconds in prop_oneof![Just(0), 0..900_u64],
    ) {
        let mut headers = HeaderMap::new();
        for (name, values) in [(TIMESTAMP_HEADER, &timestamps), (SIGNATURE_HEADER, &signatures)] {
            for value in values.iter().filter_map(|value| HeaderValue::from_bytes(value).ok()) {
                headers.append(name, value);
            }
        }
        let is_right = body == b"{}" && headers == signed(&body) && seconds <= 300;
        let now = AT.plus(Duration::from_secs(seconds));
        let is_believed = verify(&headers, &secret("hush"), &body, now).is_ok();
        // The digits of a signature may be upper case.
        let lower: Vec<Vec<u8>> = signatures.iter().map(|value| value.to_ascii_lowercase()).collect();
        prop_assert!(is_believed || !is_right);
        prop_assert!(!is_believed || is_right || lower != signatures, "{:?}", headers);
        prop_assert!(verify(&headers, &secret("hash"), &body, now).is_err());
    }
}
