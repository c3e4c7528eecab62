//! The Webhook delivery table of the specification, row by row.

use serde_json::{Value, json};
use settle_domain::delivery::DeliveryEvent;
use settle_domain::time::Timestamp;

use crate::merchant::{answered, failed};
use crate::service::{NOW, Setup};
use settle_store::conformance::fixtures;

on_both_stores! {
    every_row_of_the_delivery_table_when_new,
    every_row_of_the_delivery_table_when_delivered,
    every_row_of_the_delivery_table_when_retrying,
    every_row_of_the_delivery_table_without_a_response,
    the_payload_is_not_repeated,
}

/// The rows, in their order.
const ROWS: [&str; 11] = [
    "delivery_id",
    "settlement_id",
    "event_type",
    "status",
    "attempts",
    "created_at",
    "delivered_at",
    "next_attempt_at",
    "response_status",
    "last_error",
    "url",
];

/// Lists one delivery after these events, and checks the fields that changed.
async fn check(setup: Setup, events: &[DeliveryEvent], changing: Value) {
    let merchant = setup.merchant().await;
    let now: Timestamp = NOW.parse().unwrap();
    let new = merchant.delivery(now, events).await;
    let answer = merchant.get("/v1/webhook/deliveries").await;
    let mut expected = json!({
        "delivery_id": new.delivery_id.to_string(),
        "settlement_id": new.settlement_id.to_string(),
        "event_type": "settlement.completed",
        "created_at": NOW,
        "url": new.url,
    });
    let Value::Object(changing) = changing else { panic!("an object") };
    expected.as_object_mut().unwrap().extend(changing);
    let page = answer.ok();
    let row = &page["deliveries"][0];
    for field in ROWS {
        assert_eq!(row.get(field), expected.get(field), "{field}");
    }
    assert_eq!(row.as_object().unwrap().len(), ROWS.len(), "no other row: {row}");
    let positions: Vec<usize> =
        ROWS.iter().map(|field| answer.text.find(&format!("\"{field}\":")).unwrap()).collect();
    assert!(positions.is_sorted(), "in the order of the table: {}", answer.text);
}

async fn every_row_of_the_delivery_table_when_new(setup: Setup) {
    let rows = json!({
        "status": "pending",
        "attempts": 0,
        "delivered_at": null,
        "next_attempt_at": NOW,
        "response_status": null,
        "last_error": null,
    });
    check(setup, &[], rows).await;
}

async fn every_row_of_the_delivery_table_when_delivered(setup: Setup) {
    let rows = json!({
        "status": "delivered",
        "attempts": 2,
        "delivered_at": NOW,
        "next_attempt_at": "2026-02-01T12:01:00.000001+00:00",
        "response_status": 204,
        "last_error": null,
    });
    check(setup, &[failed(), answered()], rows).await;
}

async fn every_row_of_the_delivery_table_when_retrying(setup: Setup) {
    let rows = json!({
        "status": "pending",
        "attempts": 3,
        "delivered_at": null,
        "next_attempt_at": "2026-02-01T12:04:00.000001+00:00",
        "response_status": 503,
        "last_error": "status 503",
    });
    check(setup, &[failed(), failed(), failed()], rows).await;
}

async fn every_row_of_the_delivery_table_without_a_response(setup: Setup) {
    let refused = DeliveryEvent::Failed {
        response_status: None,
        error: "connection refused “é” \"\\\"".to_owned(),
    };
    let rows = json!({
        "status": "pending",
        "attempts": 2,
        "delivered_at": null,
        "next_attempt_at": "2026-02-01T12:02:00.000001+00:00",
        "response_status": null,
        "last_error": "connection refused “é” \"\\\"",
    });
    check(setup, &[failed(), refused], rows).await;
}

/// "The frozen payload is not repeated in the record."
async fn the_payload_is_not_repeated(setup: Setup) {
    let merchant = setup.merchant().await;
    let new = fixtures::delivery(merchant.id, NOW.parse().unwrap());
    let told = fixtures::settlement(merchant.id, new.settlement_id, new.created_at);
    fixtures::record(&*merchant.service.store, &[told]).await;
    fixtures::enqueue(&*merchant.service.store, &[new]).await;
    let answer = merchant.get("/v1/webhook/deliveries").await;
    answer.ok();
    assert!(!answer.text.contains("payin_reference"), "{}", answer.text);
}
