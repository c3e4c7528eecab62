//! Deliveries whose endpoint is changed or cleared.

use std::time::Duration;

use serde_json::{Value, json};
use settle_domain::delivery::ENDPOINT_CLEARED;

use crate::dispatch::{Dispatching, status};
use crate::service::Setup;

on_both_stores! {
    without_an_endpoint_a_settlement_makes_no_delivery,
    a_cleared_endpoint_ends_what_was_pending,
    an_attempt_under_way_does_not_bring_back_what_was_ended,
    a_redelivery_without_an_endpoint_sends_nothing,
    what_was_ended_can_be_redelivered_once_there_is_an_endpoint,
}

async fn clear(dispatching: &Dispatching) {
    dispatching.merchant.put("/v1/webhook", &json!({ "webhook_url": null })).await.ok();
}

/// "A null or empty `webhook_url` clears the endpoint and retires the secret with it. Notifications are then
/// disabled."
async fn without_an_endpoint_a_settlement_makes_no_delivery(setup: Setup) {
    let merchant = setup.merchant().await;
    let mut dispatching = Dispatching::of(merchant).await;
    let recorded = dispatching.settle().await;
    assert_eq!((recorded.recorded, recorded.notified), (1, 0), "it was never set");
    dispatching.merchant.set_webhook().await;
    clear(&dispatching).await;
    let recorded = dispatching.settle().await;
    assert_eq!((recorded.recorded, recorded.notified), (1, 0), "it was cleared");
    dispatching.merchant.set_webhook().await;
    dispatching.nothing_is_due_at(dispatching.now().plus(Duration::from_secs(1))).await;
    assert_eq!(dispatching.merchant.get("/v1/webhook/deliveries").await.ok()["total"], 0);
    assert_eq!(dispatching.merchant.get("/v1/settlements").await.ok()["total"], 2);
}

/// They become dead at once and say why. No alert is sent: operations can do nothing about it.
async fn a_cleared_endpoint_ends_what_was_pending(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    dispatching.attempt(status(503)).await;
    let before = dispatching.row().await;
    dispatching.pass(Duration::from_secs(20));
    clear(&dispatching).await;
    let row = dispatching.row().await;
    let mut expected = before;
    expected["status"] = json!("dead");
    expected["last_error"] = json!(ENDPOINT_CLEARED);
    expected["next_attempt_at"] = json!(dispatching.now());
    assert_eq!(row, expected);
    dispatching.nothing_is_due_at(dispatching.now().plus(Duration::from_hours(2))).await;
    assert_eq!(dispatching.row().await, row);
    assert_eq!(dispatching.alerts().await, []);
}

/// The endpoint is cleared while a request waits for its answer: the outcome comes too late.
async fn an_attempt_under_way_does_not_bring_back_what_was_ended(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    for answer in [200, 503] {
        dispatching.merchant.set_webhook().await;
        dispatching.settle().await;
        let mut request = dispatching.request().await;
        clear(&dispatching).await;
        let row = dispatching.row().await;
        assert_eq!((&row["status"], &row["last_error"]), (&json!("dead"), &json!(ENDPOINT_CLEARED)));
        request.end(status(answer));
        assert_eq!(dispatching.recorded().await, 0, "no row was changed");
        assert_eq!(dispatching.row().await, row);
    }
    assert_eq!(dispatching.alerts().await, []);
}

/// An attempt that finds no secret sends nothing, and ends the delivery as clearing the endpoint does.
async fn a_redelivery_without_an_endpoint_sends_nothing(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    dispatching.die().await;
    assert_eq!(dispatching.alerts().await.len(), 1);
    clear(&dispatching).await;
    let requeued = dispatching.redeliver().await;
    assert_eq!(
        (&requeued["status"], &requeued["last_error"]),
        (&json!("pending"), &json!("answered with status 503"))
    );
    assert_eq!(dispatching.recorded().await, 1);
    dispatching.nothing_was_sent();
    let row = dispatching.row().await;
    let mut expected = requeued;
    expected["status"] = json!("dead");
    expected["last_error"] = json!(ENDPOINT_CLEARED);
    assert_eq!(row, expected, "no attempt is counted");
    assert_eq!((&row["attempts"], &row["delivered_at"]), (&json!(0), &Value::Null));
    dispatching.pass(Duration::from_hours(1));
    assert_eq!(dispatching.alerts().await, []);
}

/// To the URL frozen at the start, signed with the present secret.
async fn what_was_ended_can_be_redelivered_once_there_is_an_endpoint(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let first = dispatching.attempt(status(503)).await;
    clear(&dispatching).await;
    let moved = json!({ "webhook_url": "https://merchant.example/moved", "webhook_secret": "new" });
    dispatching.merchant.put("/v1/webhook", &moved).await.ok();
    dispatching.redeliver().await;
    let again = dispatching.attempt(status(200)).await;
    assert_eq!((&again.url, &again.notification.body), (&first.url, &first.notification.body));
    assert_ne!(again.header("service-signature"), first.header("service-signature"));
    assert_eq!(dispatching.row().await["status"], "delivered");
}
