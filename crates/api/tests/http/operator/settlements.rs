//! `POST /operator/v1/settlements`: what it accepts and records.

use serde_json::{Value, json};

use super::client::{OperatorClient, completed, details, seen, send};
use crate::merchant::Merchant;
use crate::service::{NOW, Setup};

mod refused;

on_both_stores! {
    one_settlement_is_recorded,
    a_list_is_recorded_for_every_merchant_in_it,
    a_thousand_are_taken_and_not_one_more,
    the_same_again_changes_nothing,
    the_same_twice_in_a_list_is_recorded_and_notified_once,
    many_at_once_are_each_answered,
    pricing_is_kept_and_never_shown,
    what_is_unchecked_is_remembered_and_never_shown,
    a_delivery_is_pending_at_once,
    the_url_is_that_of_the_moment,
    without_an_endpoint_there_is_no_delivery,
    json_by_any_name_is_taken,
}

fn answer(recorded: usize, unchanged: usize, notified: usize) -> Value {
    json!({ "recorded": recorded, "unchanged": unchanged, "notified": notified })
}

/// The record as its merchant sees it.
fn record(completed: &Value) -> Value {
    let mut record = completed.clone();
    let object = record.as_object_mut().expect("an object");
    object.remove("merchant_id");
    object.remove("pricing");
    record
}

async fn one_settlement_is_recorded(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let one = completed(&merchant, json!({}));
    assert_eq!(client.post(&one).await.ok(), answer(1, 0, 0));
    let page = merchant.get("/v1/settlements").await.ok();
    assert_eq!(page["settlements"], json!([record(&one)]));
}

async fn a_list_is_recorded_for_every_merchant_in_it(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let (one, other) = (client.notified_merchant().await, client.service.merchant().await);
    let list = [completed(&one, json!({})), completed(&other, json!({})), completed(&one, json!({}))];
    assert_eq!(client.post(&json!(list)).await.ok(), answer(3, 0, 2));
    assert_eq!((seen(&one).await, seen(&other).await), ((2, 2), (1, 0)));
    assert_eq!(other.get("/v1/settlements").await.ok()["settlements"], json!([record(&list[1])]));
    assert_eq!(
        client.post(&json!([completed(&one, json!({}))])).await.ok(),
        answer(1, 0, 1),
        "a list of one"
    );
}

async fn a_thousand_are_taken_and_not_one_more(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let mut list: Vec<Value> = (0..1_001).map(|_| completed(&merchant, json!({}))).collect();
    let refused = client.post(&json!(list)).await;
    assert_eq!(
        details(&refused, 422, "admin_validation_failed"),
        ["a list has 1 to 1000 settlements, not 1001"]
    );
    assert_eq!(seen(&merchant).await, (0, 0));
    list.pop();
    assert_eq!(client.post(&json!(list)).await.ok(), answer(1_000, 0, 1_000));
    assert_eq!(seen(&merchant).await, (1_000, 1_000));
}

/// Idempotent by `settlement_id`: a caller that was cut off sends it again.
async fn the_same_again_changes_nothing(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let one = completed(&merchant, json!({}));
    assert_eq!(client.post(&one).await.ok(), answer(1, 0, 1));
    assert_eq!(client.post(&one).await.ok(), answer(0, 1, 0));
    // The same content, written differently.
    let mut other = one.clone();
    other["incoming_amount"] = json!("1000");
    other["completed_at"] = json!("2026-01-31T09:31:02.12-03:00");
    assert_eq!(client.post(&json!([other, completed(&merchant, json!({}))])).await.ok(), answer(1, 1, 1));
    assert_eq!(seen(&merchant).await, (2, 2));
}

async fn the_same_twice_in_a_list_is_recorded_and_notified_once(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let one = completed(&merchant, json!({}));
    assert_eq!(client.post(&json!([one, one])).await.ok(), answer(1, 1, 1));
    assert_eq!(seen(&merchant).await, (1, 1));
}

async fn many_at_once_are_each_answered(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let (one, other) = (client.notified_merchant().await, client.notified_merchant().await);
    let shared = completed(&one, json!({}));
    let mut different = shared.clone();
    different["incoming_amount"] = json!("1007");
    let (first, second) = (completed(&other, json!({})), completed(&other, json!({})));
    client.post(&shared).await.ok();
    let (again, conflict) = (json!([shared, first]), json!([completed(&one, json!({})), different]));
    let answers = tokio::join!(client.post(&again), client.post(&conflict), client.post(&second));
    assert_eq!(answers.0.ok(), answer(1, 1, 1));
    answers.1.refused(409, "conflict");
    assert_eq!(answers.2.ok(), answer(1, 0, 1));
    assert_eq!((seen(&one).await, seen(&other).await), ((1, 1), (2, 2)));
}

/// "Internal pricing, spread revenue and partner commission are never exposed."
async fn pricing_is_kept_and_never_shown(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let pricing =
        json!({ "provider_rate": "5.3141592", "spread_revenue": "2718.28", "partner_commission": "0.5772" });
    let mut one = completed(&merchant, json!({ "pricing": pricing }));
    assert_eq!(client.post(&one).await.ok(), answer(1, 0, 1));
    for path in ["/v1/settlements", "/v1/webhook/deliveries", "/v1/webhook"] {
        let text = merchant.get(path).await.text;
        for unwanted in ["pricing", "provider_rate", "spread", "commission", "3141592", "2718", "5772"] {
            assert!(!text.contains(unwanted), "{unwanted} in {text}");
        }
    }
    // The pricing was stored: with other pricing it is another settlement.
    assert_eq!(client.post(&one).await.ok(), answer(0, 1, 0));
    one["pricing"]["spread_revenue"] = json!("2718.29");
    client.post(&one).await.refused(409, "conflict");
    one["pricing"] = Value::Null;
    client.post(&one).await.refused(409, "conflict");
}

async fn deliveries(merchant: &Merchant) -> Value {
    merchant.get("/v1/webhook/deliveries").await.ok()["deliveries"].clone()
}

/// Sent again it is the same settlement, whatever the second says about the check.
async fn what_is_unchecked_is_remembered_and_never_shown(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let fields = json!({ "outgoing_amount": "900.000000", "unchecked": true });
    let (rounded, exact) = (completed(&merchant, fields), completed(&merchant, json!({})));
    let mut waived = exact.clone();
    waived["unchecked"] = json!(true);
    assert_eq!(client.post(&json!([rounded, exact])).await.ok(), answer(2, 0, 2));
    assert_eq!(client.post(&json!([rounded, waived])).await.ok(), answer(0, 2, 0));
    let id = rounded["settlement_id"].as_str().unwrap().parse().unwrap();
    let store = &client.service.store;
    assert_eq!(store.settlement_unchecked(merchant.id, None, 10).await.unwrap(), [id]);
    let page = merchant.get("/v1/settlements").await;
    assert!(page.text.contains("900.000000") && !page.text.contains("unchecked"), "{}", page.text);
    let mut other = rounded.clone();
    other["outgoing_amount"] = json!("901");
    client.post(&other).await.refused(409, "conflict");
    other["unchecked"] = json!("yes");
    let found = details(&client.post(&other).await, 422, "admin_validation_failed");
    assert!(found.contains(&"unchecked: must be true or false".to_owned()), "{found:?}");
}

async fn a_delivery_is_pending_at_once(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let one = completed(&merchant, json!({}));
    client.post(&one).await.ok();
    let deliveries = deliveries(&merchant).await;
    let expected = json!([{
        "delivery_id": deliveries[0]["delivery_id"],
        "settlement_id": one["settlement_id"],
        "event_type": "settlement.completed",
        "status": "pending",
        "attempts": 0,
        "created_at": NOW,
        "delivered_at": null,
        "next_attempt_at": NOW,
        "response_status": null,
        "last_error": null,
        "url": "https://merchant.example/hook",
    }]);
    assert_eq!(deliveries, expected);
}

async fn the_url_is_that_of_the_moment(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    client.post(&completed(&merchant, json!({}))).await.ok();
    merchant.put("/v1/webhook", &json!({ "webhook_url": "https://merchant.example/moved" })).await.ok();
    assert_eq!(deliveries(&merchant).await[0]["url"], "https://merchant.example/hook");
    client.post(&completed(&merchant, json!({}))).await.ok();
    let urls = deliveries(&merchant).await;
    let urls: Vec<&str> = urls.as_array().unwrap().iter().map(|row| row["url"].as_str().unwrap()).collect();
    assert!(urls.contains(&"https://merchant.example/hook"), "{urls:?}");
    assert!(urls.contains(&"https://merchant.example/moved"), "{urls:?}");
}

async fn without_an_endpoint_there_is_no_delivery(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let one = completed(&merchant, json!({}));
    assert_eq!(client.post(&one).await.ok(), answer(1, 0, 0));
    merchant.set_webhook().await;
    assert_eq!(client.post(&one).await.ok(), answer(0, 1, 0), "who sets one later hears nothing of it");
    assert_eq!(seen(&merchant).await, (1, 0));
    merchant.put("/v1/webhook", &json!({ "webhook_url": null })).await.ok();
    assert_eq!(client.post(&completed(&merchant, json!({}))).await.ok(), answer(1, 0, 0));
    assert_eq!(seen(&merchant).await, (2, 0));
}

async fn json_by_any_name_is_taken(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let one = completed(&merchant, json!({})).to_string();
    assert_eq!(client.post_text(one.clone()).await.ok(), answer(1, 0, 0), "without a type");
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/vnd.settle+json"] {
        let ask = client.authorized().header("content-type", kind).body(one.clone());
        assert_eq!(send(ask).await.ok(), answer(0, 1, 0), "{kind}");
    }
}
