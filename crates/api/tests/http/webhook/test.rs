//! `POST /v1/webhook/test`: what it sends, its result, and the answer without an endpoint.

use std::time::Duration;

use serde_json::{Value, json};
use settle_domain::signature::{TOLERANCE, verify};
use settle_domain::time::Timestamp;
use settle_notify::sender::{Attempt, AttemptFault, SendError};
use tokio::task::JoinHandle;

use crate::answer::Answer;
use crate::merchant::Merchant;
use crate::service::{NOW, Setup};

on_both_stores! {
    without_an_endpoint_it_is_a_409,
    after_a_clear_it_is_a_409_again,
    every_key_of_the_result_when_delivered,
    every_key_of_the_result_when_refused,
    every_key_of_the_result_without_a_response,
    every_key_of_the_result_when_we_could_not_send,
    one_signed_notification_goes_to_the_configured_endpoint,
    it_is_signed_with_the_current_secret,
    it_cannot_be_mistaken_for_money,
    it_is_not_in_the_delivery_log,
    a_body_is_not_looked_at,
    a_merchant_has_two_under_way_at_once,
    all_merchants_have_32_under_way_at_once,
}

const PATH: &str = "/v1/webhook/test";

/// Known conditions: test delivery with no endpoint configured.
async fn without_an_endpoint_it_is_a_409(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.post(PATH).await.refused(409, "webhook_endpoint_not_configured");
    assert!(merchant.service.courier.taken().is_empty(), "nothing was sent");
}

async fn after_a_clear_it_is_a_409_again(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.put("/v1/webhook", &json!({ "webhook_url": null })).await.ok();
    merchant.post(PATH).await.refused(409, "webhook_endpoint_not_configured");
    assert!(merchant.service.courier.taken().is_empty(), "nothing was sent");
}

/// The result of a test delivery with this outcome, without `duration_ms`, which is an integer.
async fn result(setup: Setup, outcome: Attempt) -> Value {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.service.courier.answer(outcome);
    let mut result = merchant.post(PATH).await.ok();
    let duration = result.as_object_mut().unwrap().remove("duration_ms");
    assert!(duration.is_some_and(|duration| duration.is_u64()), "duration_ms is an integer");
    assert_eq!(merchant.service.courier.taken().len(), 1, "one attempt, never retried");
    result
}

/// Test delivery result: `delivered`, `duration_ms`, `error`, `status`, always all four.
async fn every_key_of_the_result_when_delivered(setup: Setup) {
    let outcome = Attempt { response_status: Some(204), fault: None };
    let expected = json!({ "delivered": true, "status": 204, "error": null });
    assert_eq!(result(setup, outcome).await, expected);
}

async fn every_key_of_the_result_when_refused(setup: Setup) {
    let fault = AttemptFault::Status(503);
    let outcome = Attempt { response_status: Some(503), fault: Some(fault.clone()) };
    let expected = json!({ "delivered": false, "status": 503, "error": fault.to_string() });
    assert_eq!(result(setup, outcome).await, expected);
}

async fn every_key_of_the_result_without_a_response(setup: Setup) {
    let fault = AttemptFault::Timeout(Duration::from_secs(10));
    let outcome = Attempt { response_status: None, fault: Some(fault.clone()) };
    let expected = json!({ "delivered": false, "status": null, "error": fault.to_string() });
    assert_eq!(result(setup, outcome).await, expected);
}

async fn every_key_of_the_result_when_we_could_not_send(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.service.courier.fail(SendError::Resolver);
    let mut result = merchant.post(PATH).await.ok();
    result.as_object_mut().unwrap().remove("duration_ms").unwrap();
    let error = SendError::Resolver.to_string();
    assert_eq!(result, json!({ "delivered": false, "status": null, "error": error }));
}

async fn one_signed_notification_goes_to_the_configured_endpoint(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.post(PATH).await.ok();
    merchant.post(PATH).await.ok();
    let taken = merchant.service.courier.taken();
    assert_eq!(taken.len(), 2);
    let mut ids = Vec::new();
    for (url, notification) in &taken {
        assert_eq!(url, "https://merchant.example/hook");
        let header = |name: &str| notification.headers[name].to_str().unwrap();
        assert_eq!((header("service-event"), header("service-test")), ("settlement.completed", "true"));
        assert_eq!(header("content-type"), "application/json");
        let (timestamp, signature) = (header("service-timestamp"), header("service-signature"));
        let now: Timestamp = NOW.parse().unwrap();
        assert_eq!(timestamp, now.as_seconds().to_string());
        assert_eq!(verify(b"hush", timestamp, signature, &notification.body, now, TOLERANCE), Ok(()));
        ids.push(header("service-delivery-id").to_owned());
    }
    assert_ne!(ids[0], ids[1], "each has an id of its own");
}

async fn it_is_signed_with_the_current_secret(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.put("/v1/webhook", &json!({ "webhook_secret": "rotated" })).await.ok();
    merchant.post(PATH).await.ok();
    let (_, notification) = merchant.service.courier.taken().remove(0);
    let header = |name: &str| notification.headers[name].to_str().unwrap();
    let (timestamp, signature) = (header("service-timestamp"), header("service-signature"));
    let now: Timestamp = NOW.parse().unwrap();
    assert_eq!(verify(b"rotated", timestamp, signature, &notification.body, now, TOLERANCE), Ok(()));
    assert!(verify(b"hush", timestamp, signature, &notification.body, now, TOLERANCE).is_err());
}

async fn it_cannot_be_mistaken_for_money(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.post(PATH).await.ok();
    let (_, notification) = merchant.service.courier.taken().remove(0);
    let body: Value = serde_json::from_slice(&notification.body).expect("the payload is JSON");
    assert_eq!(body["event"], "settlement.completed");
    assert_eq!(body["settlement_id"], "00000000-0000-0000-0000-000000000000");
    for field in ["payin_reference", "payout_reference", "destination_reference"] {
        assert_eq!(body[field], "TEST", "{field}");
    }
    for field in ["incoming_amount", "outgoing_amount", "fee_percentage_amount", "fee_fixed"] {
        let digits = body[field].as_str().expect("a decimal string").replace('.', "");
        assert!(digits.bytes().all(|byte| byte == b'0'), "{field} is zero: {body}");
    }
    assert_eq!(body["conversion_rate"], "1");
}

async fn it_is_not_in_the_delivery_log(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.post(PATH).await.ok();
    assert_eq!(merchant.get("/v1/webhook/deliveries").await.ok()["total"], 0);
}

async fn a_body_is_not_looked_at(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    merchant.ask("POST", PATH).header("content-type", "text/plain").body("{").send().await.ok();
}

/// Starts a test delivery that is under way until the courier lets it go.
async fn begin(merchant: &Merchant) -> JoinHandle<Answer> {
    let asked = tokio::spawn(merchant.ask("POST", PATH).send());
    merchant.service.courier.begun.notified().await;
    asked
}

#[track_caller]
fn assert_locked(answer: &Answer) {
    answer.refused(429, "locked");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.header("ratelimit"), Some("\"test-deliveries\";r=0;t=1"));
    let policy = "\"test-deliveries\";q=2;qu=\"concurrent-requests\"";
    assert_eq!(answer.header("ratelimit-policy"), Some(policy));
}

async fn a_merchant_has_two_under_way_at_once(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    let other = merchant.service.merchant().await;
    other.set_webhook().await;
    let held = merchant.service.courier.hold();
    let (first, second) = (begin(&merchant).await, begin(&merchant).await);
    assert_locked(&merchant.post(PATH).await);
    let others = begin(&other).await;
    held.add_permits(4);
    for answer in [first, second, others] {
        answer.await.unwrap().ok();
    }
    merchant.post(PATH).await.ok();
}

async fn all_merchants_have_32_under_way_at_once(setup: Setup) {
    let service = setup.start().await;
    let held = service.courier.hold();
    let mut under_way = Vec::new();
    for _ in 0..16 {
        let merchant = service.merchant().await;
        merchant.set_webhook().await;
        under_way.extend([begin(&merchant).await, begin(&merchant).await]);
    }
    let late = service.merchant().await;
    late.set_webhook().await;
    assert_locked(&late.post(PATH).await);
    held.add_permits(33);
    for answer in under_way {
        answer.await.unwrap().ok();
    }
    late.post(PATH).await.ok();
}
