//! The states and transitions of a delivery as its merchant sees them, row by row.
//!
//! Attempts are made by applying the domain's events; sending is tested with the sender.

use serde_json::{Value, json};
use settle_domain::delivery::DeliveryEvent;
use settle_domain::time::Timestamp;

use crate::merchant::{Merchant, answered, failed};
use crate::service::{NOW, Setup};

on_both_stores! {
    pending_becomes_delivered_by_an_attempt_that_is_answered,
    pending_stays_pending_while_attempts_remain,
    pending_becomes_dead_by_the_8th_failed_attempt,
    dead_becomes_pending_by_a_redelivery_and_goes_through_all_of_it_again,
}

/// Lists the one delivery that went through these events.
async fn after(merchant: &Merchant, events: &[DeliveryEvent]) -> Value {
    let now: Timestamp = NOW.parse().unwrap();
    merchant.delivery(now, events).await;
    merchant.get("/v1/webhook/deliveries").await.ok()["deliveries"][0].clone()
}

async fn pending_becomes_delivered_by_an_attempt_that_is_answered(setup: Setup) {
    let row = after(&setup.merchant().await, &[answered()]).await;
    assert_eq!((&row["status"], &row["attempts"]), (&json!("delivered"), &json!(1)));
    assert_eq!((&row["delivered_at"], &row["last_error"]), (&json!(NOW), &Value::Null));
}

async fn pending_stays_pending_while_attempts_remain(setup: Setup) {
    let row = after(&setup.merchant().await, &vec![failed(); 7]).await;
    assert_eq!((&row["status"], &row["attempts"]), (&json!("pending"), &json!(7)));
    assert_eq!(row["next_attempt_at"], "2026-02-01T13:00:00.000001+00:00", "an hour later");
}

async fn pending_becomes_dead_by_the_8th_failed_attempt(setup: Setup) {
    let row = after(&setup.merchant().await, &vec![failed(); 8]).await;
    assert_eq!((&row["status"], &row["attempts"]), (&json!("dead"), &json!(8)));
    assert_eq!((&row["response_status"], &row["last_error"]), (&json!(503), &json!("status 503")));
    assert_eq!(row["delivered_at"], Value::Null);
}

async fn dead_becomes_pending_by_a_redelivery_and_goes_through_all_of_it_again(setup: Setup) {
    let merchant = setup.merchant().await;
    let now: Timestamp = NOW.parse().unwrap();
    let dead = merchant.dead_delivery(now).await;
    let path = format!("/v1/webhook/deliveries/{}/redeliver", dead.delivery_id);
    for _ in 0..2 {
        assert_eq!(merchant.post(&path).await.ok()["status"], "pending");
        merchant.post(&path).await.refused(404, "not_found");
        let requeued = settle_store::conformance::fixtures::listed(&dead);
        merchant.happen(requeued, &vec![failed(); 8], now).await;
    }
    merchant.post(&path).await.ok();
    let requeued = settle_store::conformance::fixtures::listed(&dead);
    merchant.happen(requeued, &[answered()], now).await;
    merchant.post(&path).await.refused(404, "not_found");
}
