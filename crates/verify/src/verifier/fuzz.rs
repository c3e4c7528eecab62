//! The verifier on whatever strangers may send to a receiver, and on whatever could be signed: nothing
//! panics, only what was signed is accepted, and an event says what the body says.
//!
//! The corpus is `tests/data/fuzz_corpus.txt`, a body a line. Add the text of a bug before you mend it.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

const BODY: &str = include_str!("../../tests/data/notification.json");
const CORPUS: &str = include_str!("../../tests/data/fuzz_corpus.txt");
const DELIVERY_ID: &str = "0190d3c4-7c00-7000-8000-0000000000d1";
const SENT_AT: u64 = 1_769_862_662;

fn signature(timestamp: &str, body: &[u8]) -> String {
    let message = keyed(b"whsec").chain_update(timestamp).chain_update(b".").chain_update(body);
    format!("{PREFIX}{}", hex::encode(message.finalize().into_bytes()))
}

/// The right text, one with a character replaced, or any.
fn near(right: String) -> impl Strategy<Value = String> {
    let changed = (Just(right.clone()), any::<prop::sample::Index>(), any::<char>());
    let changed = changed.prop_map(|(right, place, character)| {
        let mut characters: Vec<char> = right.chars().collect();
        let place = place.index(characters.len());
        characters[place] = character;
        characters.into_iter().collect()
    });
    prop_oneof![6 => Just(right), 3 => changed, 1 => any::<String>(), 1 => "[+ -]?[0-9]{0,25}"]
}

/// The notification, and the bodies of the corpus.
fn corpus() -> Vec<&'static str> {
    [BODY].into_iter().chain(CORPUS.lines()).collect()
}

/// The body of a notification with a field replaced, a body of the corpus with bytes replaced, or any bytes.
fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let fields: Value = serde_json::from_str(BODY).expect("JSON");
    let names: Vec<String> = fields.as_object().expect("an object").keys().cloned().collect();
    let value = prop_oneof![
        Just(Value::Null),
        any::<u32>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        Just(Value::from(vec![1])),
    ];
    let replaced = (prop::sample::select(names), value).prop_map(move |(name, value)| {
        let mut fields = fields.clone();
        fields[name] = value;
        fields.to_string().into_bytes()
    });
    let bytes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let changed = (prop::sample::select(corpus()), bytes).prop_map(|(body, bytes)| {
        let mut body = body.as_bytes().to_vec();
        for (place, byte) in bytes {
            let place = place.index(body.len());
            body[place] = byte;
        }
        body
    });
    prop_oneof![2 => replaced, 2 => changed, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

fn verified(headers: [Option<&str>; 3], body: &[u8], now: u64) -> Result<Event, VerifyError> {
    let [signature, timestamp, delivery_id] = headers;
    let header = |name: &str| match name {
        SIGNATURE_HEADER => signature,
        TIMESTAMP_HEADER => timestamp,
        DELIVERY_ID_HEADER => delivery_id,
        _ => None,
    };
    Verifier::new("whsec").verify(header, body, SystemTime::UNIX_EPOCH + Duration::from_secs(now))
}

/// Whether a body that was signed is an event, which then says what the body says.
fn read(body: &[u8]) -> bool {
    let timestamp = SENT_AT.to_string();
    let given = signature(&timestamp, body);
    let text = String::from_utf8_lossy(body);
    let event = match verified([Some(&given), Some(&timestamp), Some(DELIVERY_ID)], body, SENT_AT) {
        Ok(event) => event,
        Err(VerifyError::MalformedBody(_) | VerifyError::UnknownEvent(_)) => return false,
        Err(other) => panic!("{other}: {text}"),
    };
    // A field that nobody reads need not be text.
    let Ok(sent) = serde_json::from_slice::<Value>(body) else { return true };
    let read = serde_json::to_value(&event.settlement).expect("JSON");
    for (name, value) in read.as_object().expect("an object") {
        assert_eq!(sent.get(name).unwrap_or(&Value::Null), value, "{name}: {text}");
    }
    true
}

#[test]
fn the_corpus() {
    let read = corpus().into_iter().filter(|body| read(body.as_bytes())).count();
    assert!(read >= 6, "{read} bodies were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn only_what_was_signed_is_accepted(
        given in prop::option::weighted(0.95, near(signature(&SENT_AT.to_string(), BODY.as_bytes()))),
        timestamp in prop::option::weighted(0.95, near(SENT_AT.to_string())),
        delivery_id in prop::option::weighted(0.95, near(DELIVERY_ID.to_owned())),
        body in prop_oneof![3 => Just(BODY.as_bytes().to_vec()), 1 => any_body()],
        now in prop_oneof![Just(SENT_AT), SENT_AT - 900..SENT_AT + 900, any::<u32>().prop_map(u64::from)],
    ) {
        let headers = [given.as_deref(), timestamp.as_deref(), delivery_id.as_deref()];
        let Ok(event) = verified(headers, &body, now) else {
            let right = [signature(&SENT_AT.to_string(), BODY.as_bytes()), SENT_AT.to_string()];
            let is_right = headers == [Some(&*right[0]), Some(&*right[1]), Some(DELIVERY_ID)];
            prop_assert!(!is_right || body != BODY.as_bytes() || now.abs_diff(SENT_AT) > TOLERANCE.as_secs());
            return Ok(());
        };
        let timestamp = timestamp.unwrap_or_default();
        let given = given.unwrap_or_default().to_ascii_lowercase();
        prop_assert_eq!(given, signature(&timestamp, &body));
        prop_assert!(now.abs_diff(timestamp.parse().expect("seconds")) <= TOLERANCE.as_secs());
        prop_assert!((1..=DELIVERY_ID_BYTES_MAX).contains(&event.delivery_id.len()));
        prop_assert_eq!(Some(event.delivery_id), delivery_id);
    }

    #[test]
    fn whatever_was_signed_is_read_as_it_stands_or_refused(body in any_body()) {
        read(&body);
    }
}
