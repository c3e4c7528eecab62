//! The body of `PUT /v1/webhook` on whatever a merchant may send: nothing panics, it is refused where a JSON
//! parser finds nothing that the contract has, it says what the parser finds, and reads the same after it is
//! written; what it decides to refuse is refused by name.
//!
//! The corpus is `tests/data/fuzz_webhook.txt`, a body a line. Add the text of a bug before you mend it.

use proptest::prelude::*;
use serde_json::{Value, json};
use settle_domain::settlement::parse_object;
use settle_testing::corpus::{JSON_PIECES, lines, near};

use super::*;
use crate::http::parse_json;

const CORPUS: &str = include_str!("../../../tests/data/fuzz_webhook.txt");
const FIELDS: [&str; 2] = ["webhook_url", "webhook_secret"];

fn request(json: &[u8]) -> Option<WebhookConfigurationRequest> {
    parse_json(json).ok()
}

/// What a request says, in the words of the contract.
fn written(request: &WebhookConfigurationRequest) -> Value {
    let mut body = json!({});
    match &request.webhook_url {
        UrlRequest::Keep => {}
        UrlRequest::Clear => body["webhook_url"] = Value::Null,
        UrlRequest::Set(url) => body["webhook_url"] = json!(url),
    }
    match &request.webhook_secret {
        SecretRequest::Absent => {}
        SecretRequest::Null => body["webhook_secret"] = Value::Null,
        SecretRequest::Set(secret) => body["webhook_secret"] = json!(secret),
    }
    body
}

/// What a body says, as a JSON parser reads it.
fn said(body: &Value) -> Value {
    let mut said = json!({});
    for field in FIELDS {
        let Some(value) = body.get(field) else { continue };
        // An empty URL means the same as none.
        let is_none = field == "webhook_url" && value.as_str() == Some("");
        said[field] = if is_none { Value::Null } else { value.clone() };
    }
    said
}

/// Whether a body is one of the contract: an object that has no field twice, and texts or nothing in those
/// that we know.
fn is_of_contract(json: &[u8]) -> bool {
    let Ok(body) = parse_object(json) else { return false };
    let is_text = |field: &str| matches!(body.get(field), None | Some(Value::Null | Value::String(_)));
    FIELDS.into_iter().all(is_text)
}

/// Whether the body was read.
fn read(json: &[u8]) -> bool {
    let text = String::from_utf8_lossy(json);
    let Some(found) = request(json) else {
        assert!(!is_of_contract(json), "{text}");
        return false;
    };
    let body: Value = serde_json::from_slice(json).expect("what was read is JSON");
    let said = said(&body);
    assert_eq!(written(&found), said, "{text}");
    let is_empty = body.as_object().is_some_and(serde_json::Map::is_empty);
    assert_eq!(found.is_misspelt(), said == json!({}) && !is_empty, "{text}");
    let again = request(said.to_string().as_bytes()).expect("what was read");
    assert_eq!(written(&again), said, "{text}");
    decide(EndpointRequest::from(found), false);
    decide(EndpointRequest::from(again), true);
    true
}

/// A request sets what is whole, or is refused by name.
fn decide(request: EndpointRequest, has_endpoint: bool) {
    match request.decide(has_endpoint, None) {
        Ok(EndpointChange::Nothing | EndpointChange::Clear) => {}
        Ok(EndpointChange::Set { url, secret }) => {
            assert!(url.is_some() || secret.is_some());
            assert!(has_endpoint || (url.is_some() && secret.is_some()));
            assert!(url.is_none_or(|url| !url.is_empty()));
        }
        Err(faults) => {
            let named: Vec<&str> = faults.iter().map(|fault| fault.field).collect();
            assert!([&FIELDS[..], &FIELDS[..1], &FIELDS[1..]].contains(&named.as_slice()), "{named:?}");
        }
    }
}

#[test]
fn the_corpus() {
    let read = lines(CORPUS).iter().filter(|body| read(body.as_bytes())).count();
    assert!(read >= 15, "{read} bodies were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_body_is_read_as_it_stands_or_refused(body in near(lines(CORPUS), JSON_PIECES)) {
        read(body.as_bytes());
    }

    #[test]
    fn any_bytes_are_read_as_they_stand_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read(&bytes);
    }
}
