//! What the service sends: the specification's table of request headers, its payload and its signature.

use std::time::{Duration, SystemTime};

use hyper::header::HeaderName;
use serde_json::{Value, json};
use settle_domain::settlement::FIELDS;
use settle_domain::time::Timestamp;
use settle_verify::{Event, Verifier, VerifyError};

use crate::dispatch::{Dispatching, Request, status};
use crate::service::Setup;

on_both_stores! {
    the_headers_are_those_of_the_table,
    the_payload_is_the_event_and_every_field_of_the_settlement,
    every_attempt_has_the_same_body_and_its_own_time_and_signature,
    an_attempt_is_signed_with_the_secret_of_its_time,
    an_attempt_goes_to_the_url_that_was_set_when_the_settlement_completed,
    each_delivery_has_an_id_of_its_own,
}

/// Verifies a request as a merchant's receiver does, at the given time.
fn verify(request: &Request, secret: &str, now: Timestamp) -> Result<Event, VerifyError> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(now.as_micros().unsigned_abs());
    let header = |name: &str| request.notification.headers.get(name)?.to_str().ok();
    Verifier::new(secret).verify(header, &request.notification.body, now)
}

/// "service-signature | `sha256=<hex>`, the HMAC-SHA256 of `{timestamp}.{body}`";
/// "service-timestamp | Unix timestamp in seconds of the delivery attempt";
/// "service-event | Event type, currently `settlement.completed`";
/// "service-delivery-id | Unique id of this delivery, for idempotency". "Content type of the request: not
/// shown": it is JSON.
async fn the_headers_are_those_of_the_table(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let request = dispatching.attempt(status(204)).await;
    let row = dispatching.row().await;
    assert_eq!(request.url, "https://merchant.example/hook");
    let mut names: Vec<&str> = request.notification.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    let table = ["service-delivery-id", "service-event", "service-signature", "service-timestamp"];
    assert_eq!(names, [&["content-type"][..], &table, &["user-agent"]].concat());
    assert_eq!(request.header("content-type"), "application/json");
    assert_eq!(request.header("service-timestamp"), "1769947200", "2026-02-01T12:00:00Z");
    assert_eq!(request.header("service-event"), "settlement.completed");
    assert_eq!(json!(request.header("service-delivery-id")), row["delivery_id"]);
    let hex = request.header("service-signature").strip_prefix("sha256=").unwrap();
    assert_eq!(hex.len(), 64);
    assert!(hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{hex}");
    let event = verify(&request, "hush", dispatching.now()).unwrap();
    assert_eq!((json!(event.delivery_id), event.test), (row["delivery_id"].clone(), false));
    assert_eq!(verify(&request, "Hush", dispatching.now()), Err(VerifyError::SignatureMismatch));
}

/// "A JSON object with `event` (string, `settlement.completed`) and every Settlement field listed under
/// Resources. […] All of these fields are present, and the nullable ones can be null."
async fn the_payload_is_the_event_and_every_field_of_the_settlement(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let request = dispatching.attempt(status(204)).await;
    let text = String::from_utf8(request.notification.body.clone()).unwrap();
    let mut payload: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(payload.as_object_mut().unwrap().remove("event"), Some(json!("settlement.completed")));
    let listed = dispatching.merchant.get("/v1/settlements").await.ok();
    assert_eq!(payload, listed["settlements"][0], "the record, without the event");
    assert_eq!(payload.as_object().unwrap().len(), FIELDS.len());
    // In this order, and without blanks between them.
    let names = std::iter::once("event").chain(FIELDS);
    let places: Vec<usize> = names.map(|name| text.find(&format!("\"{name}\":")).unwrap()).collect();
    assert!(places.is_sorted() && places[0] == 1, "{text}");
    assert!(!text.contains(": ") && !text.contains('\n'), "{text}");
}

/// "The `service-timestamp` header carries the timestamp used": that of the attempt, and the frozen payload.
async fn every_attempt_has_the_same_body_and_its_own_time_and_signature(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let first = dispatching.attempt(status(500)).await;
    let mut signatures = vec![first.header("service-signature").to_owned()];
    for _ in 2..=8 {
        dispatching.pass(Duration::from_hours(1));
        let request = dispatching.attempt(status(500)).await;
        assert_eq!(request.notification.body, first.notification.body);
        assert_eq!(request.header("service-delivery-id"), first.header("service-delivery-id"));
        assert_eq!(request.header("service-timestamp"), dispatching.now().as_seconds().to_string());
        verify(&request, "hush", dispatching.now()).unwrap();
        assert!(verify(&first, "hush", dispatching.now()).is_err(), "the first one is old by now");
        signatures.push(request.header("service-signature").to_owned());
    }
    signatures.sort();
    signatures.dedup();
    assert_eq!(signatures.len(), 8);
}

/// "Sending a new `webhook_secret` rotates the secret": from the next attempt on, also of what was enqueued
/// before.
async fn an_attempt_is_signed_with_the_secret_of_its_time(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let first = dispatching.attempt(status(500)).await;
    verify(&first, "hush", dispatching.now()).unwrap();
    dispatching.merchant.put("/v1/webhook", &json!({ "webhook_secret": "new" })).await.ok();
    dispatching.pass(Duration::from_mins(1));
    let second = dispatching.attempt(status(200)).await;
    verify(&second, "new", dispatching.now()).unwrap();
    assert_eq!(verify(&second, "hush", dispatching.now()), Err(VerifyError::SignatureMismatch));
    assert_eq!(second.notification.body, first.notification.body);
}

/// "url | The endpoint targeted, frozen when the delivery was enqueued. A later configuration change does not
/// alter it." And rule 4: "A later URL change may omit `webhook_secret`, and then the current secret is
/// kept."
async fn an_attempt_goes_to_the_url_that_was_set_when_the_settlement_completed(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let first = dispatching.attempt(status(500)).await;
    let moved = json!({ "webhook_url": "https://merchant.example/moved" });
    dispatching.merchant.put("/v1/webhook", &moved).await.ok();
    dispatching.pass(Duration::from_mins(1));
    let retry = dispatching.attempt(status(200)).await;
    assert_eq!(
        (retry.url.as_str(), first.url.as_str()),
        ("https://merchant.example/hook", retry.url.as_str())
    );
    assert_eq!(dispatching.row().await["url"], "https://merchant.example/hook");
    dispatching.settle().await;
    let next = dispatching.attempt(status(200)).await;
    assert_eq!(next.url, "https://merchant.example/moved");
    verify(&next, "hush", dispatching.now()).unwrap();
}

/// Delivery rule 3: "The receiver deduplicates by `service-delivery-id`": one id for each delivery, whatever
/// else is the same.
async fn each_delivery_has_an_id_of_its_own(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        dispatching.settle().await;
        ids.push(dispatching.attempt(status(200)).await.header("service-delivery-id").to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}
