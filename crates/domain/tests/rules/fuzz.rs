//! Every parser of the domain on what strangers may send: random texts, and a corpus of texts that once were,
//! or nearly were, a problem. No text panics; what is accepted reads the same after it is printed.
//!
//! The corpus is `tests/data/fuzz_corpus.txt`, a JSON string a line, so that any character can stand in it;
//! every parser gets every line. Add the text of a bug before you mend it.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use proptest::prelude::*;
use settle_domain::credential::{Credential, CredentialKind};
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::money::Decimal;
use settle_domain::settlement::parse_document;
use settle_domain::signature::{TOLERANCE, sign, verify};
use settle_domain::time::Timestamp;
use settle_domain::vault::KeyRing;
use settle_domain::webhook_secret::{SECRET_BYTES_MAX, WebhookSecret};

const CORPUS: &str = include_str!("../data/fuzz_corpus.txt");
/// Settlements that one body may have.
const SETTLEMENTS_MAX: usize = 1_000;

fn corpus() -> Vec<String> {
    let lines = CORPUS.lines().map(|line| serde_json::from_str(line).expect("a JSON string a line"));
    lines.chain(["1".repeat(4_000), "[".repeat(4_000), "{\"a\":".repeat(1_000)]).collect()
}

/// A text near to what a parser accepts: a line of the corpus with some characters replaced, or any text at
/// all.
fn any_text() -> impl Strategy<Value = String> {
    let near = (
        prop::sample::select(corpus()),
        prop::collection::vec((any::<prop::sample::Index>(), any::<char>()), 0..4),
    );
    let near = near.prop_map(|(text, changes)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (place, character) in changes {
            if !characters.is_empty() {
                let place = place.index(characters.len());
                characters[place] = character;
            }
        }
        characters.into_iter().collect()
    });
    prop_oneof![3 => near, 1 => any::<String>(), 1 => "[0-9a-fT:.,Z+-]{0,80}"]
}

/// Runs every parser on a text. Each asserts what must hold for what it accepts.
fn parse_everything(text: &str) {
    money(text);
    times(text);
    ids(text);
    ring(text);
    credentials(text);
    signatures(text);
    documents(text);
}

fn money(text: &str) {
    let Ok(decimal) = text.parse::<Decimal>() else { return };
    let printed = decimal.to_string();
    assert_eq!(printed.parse::<Decimal>().expect("what we print"), decimal, "{text:?}");
    assert!(printed.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'), "{printed:?}");
}

fn times(text: &str) {
    let Ok(time) = text.parse::<Timestamp>() else { return };
    let printed = time.to_string();
    assert_eq!(printed.parse::<Timestamp>().expect("what we print"), time, "{text:?}");
    let _ = (time.plus(Duration::MAX), time.minus(Duration::MAX));
}

fn ids(text: &str) {
    if let Ok(id) = text.parse::<MerchantId>() {
        assert_eq!(id.to_string().parse::<MerchantId>().expect("what we print"), id);
    }
    if let Ok(id) = text.parse::<DeliveryId>() {
        assert_eq!(id.to_string().parse::<DeliveryId>().expect("what we print"), id);
    }
    if let Ok(event) = text.parse::<EventType>() {
        assert_eq!(event.to_string(), text);
    }
}

fn ring(text: &str) {
    let Ok(ring) = KeyRing::parse(text) else { return };
    assert_eq!(ring.ids().len(), text.split(',').count());
    let printed = format!("{ring:?}");
    assert!(text.split(',').all(|key| !printed.contains(key.trim())), "a key is printed");
}

fn credentials(text: &str) {
    for kind in [CredentialKind::ApiKey, CredentialKind::OperatorToken] {
        if let Some(credential) = Credential::parse(kind, text) {
            assert_eq!(credential.expose(), text);
            assert!(text.is_ascii() && text.len() <= 256);
            assert!(text.ends_with(&credential.last_four()));
        }
    }
    if let Ok(secret) = WebhookSecret::parse(text.to_owned()) {
        assert_eq!(secret.as_bytes(), text.as_bytes());
        assert!((1..=SECRET_BYTES_MAX).contains(&text.len()) && !text.chars().any(char::is_control));
    }
}

/// Whatever the headers say, only the right signature at the right time is accepted.
fn signatures(text: &str) {
    let now = Timestamp::from_micros(1_767_225_600_000_000);
    let (time, signature) = (now.as_seconds().to_string(), sign(b"hush", now, b"{}"));
    assert!(verify(b"hush", &time, text, b"{}", now, TOLERANCE).is_err() || text == signature, "{text:?}");
    if verify(b"hush", text, &signature, b"{}", now, TOLERANCE).is_ok() {
        assert_eq!(text.parse::<i64>().ok(), Some(now.as_seconds()), "{text:?}");
    }
    let forged = verify(b"other", text, text, text.as_bytes(), now, TOLERANCE);
    assert!(forged.is_err(), "{text:?}");
}

fn documents(text: &str) {
    // A fault or a document: what is in it was judged, and nothing panicked.
    let _ = parse_document(text.as_bytes(), SETTLEMENTS_MAX);
    let _ = parse_document(format!("[{text},{text}]").as_bytes(), SETTLEMENTS_MAX);
}

#[test]
fn the_corpus() {
    let corpus = corpus();
    assert!(corpus.len() > 40, "the corpus is there");
    for text in &corpus {
        parse_everything(text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_parsed_or_refused(text in any_text()) {
        parse_everything(&text);
    }

    #[test]
    fn any_bytes_are_a_document_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_document(&bytes, SETTLEMENTS_MAX);
    }
}
