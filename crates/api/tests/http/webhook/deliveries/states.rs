//! The specification's table of states and transitions, row by row: the real dispatcher makes the attempts,
//! and the merchant sees the states.

use std::time::Duration;

use serde_json::{Value, json};
use settle_notify::sender::AttemptFault;

use crate::dispatch::{Dispatching, fault, status};
use crate::service::Setup;

on_both_stores! {
    pending_becomes_delivered_by_any_2xx,
    pending_stays_pending_while_attempts_remain,
    pending_becomes_dead_by_the_8th_failure_and_operations_are_alerted,
    dead_becomes_pending_by_a_redelivery_and_the_original_payload_is_sent,
    a_redelivered_delivery_can_die_and_be_redelivered_again,
    a_delivery_that_is_not_dead_cannot_be_redelivered,
    a_delivered_delivery_is_never_sent_again,
}

/// "pending | a delivery attempt | the endpoint answers with any 2xx status within 10 seconds | delivered |
/// No further attempts."
async fn pending_becomes_delivered_by_any_2xx(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    for answer in [200, 204, 299] {
        dispatching.settle().await;
        let before = dispatching.row().await;
        assert_eq!((&before["status"], &before["attempts"]), (&json!("pending"), &json!(0)));
        let mut request = dispatching.request().await;
        dispatching.pass(Duration::from_secs(9));
        request.end(status(answer));
        assert_eq!(dispatching.recorded().await, 1);
        let row = dispatching.row().await;
        let mut expected = before;
        expected["status"] = json!("delivered");
        expected["attempts"] = json!(1);
        expected["delivered_at"] = json!(dispatching.now());
        expected["response_status"] = json!(answer);
        assert_eq!(row, expected, "nothing else has changed");
        dispatching.nothing_is_due_at(dispatching.now().plus(Duration::from_hours(48))).await;
    }
    assert_eq!(dispatching.alerts().await, []);
}

/// "pending | a delivery attempt | the attempt fails (no 2xx, or not completed within 10 seconds) and fewer
/// than 8 attempts were made | pending | Retried with exponential backoff."
async fn pending_stays_pending_while_attempts_remain(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let late = fault(AttemptFault::Timeout(Duration::from_secs(10)));
    for attempts in 1..=7 {
        let failure = if attempts % 2 == 0 { status(500) } else { late.clone() };
        dispatching.attempt(failure).await;
        let row = dispatching.row().await;
        assert_eq!((&row["status"], &row["attempts"]), (&json!("pending"), &json!(attempts)));
        assert_eq!(row["delivered_at"], Value::Null);
        dispatching.set(row["next_attempt_at"].as_str().unwrap().parse().unwrap());
    }
    assert_eq!(dispatching.alerts().await, []);
    dispatching.attempt(status(200)).await;
    let row = dispatching.row().await;
    assert_eq!((&row["status"], &row["attempts"]), (&json!("delivered"), &json!(8)), "the 8th succeeds");
    assert_eq!(row["last_error"], Value::Null);
}

/// "pending | a delivery attempt | the final (8th) attempt fails | dead | Operations are alerted." And
/// delivery rule 4: "After the final failed attempt the delivery becomes dead and operations are alerted."
async fn pending_becomes_dead_by_the_8th_failure_and_operations_are_alerted(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    for _ in 1..=7 {
        dispatching.attempt(status(503)).await;
        dispatching.pass(Duration::from_hours(1));
    }
    assert_eq!(dispatching.alerts().await, [], "there is one attempt left");
    dispatching.attempt(fault(AttemptFault::Dns)).await;
    let row = dispatching.row().await;
    assert_eq!((&row["status"], &row["attempts"]), (&json!("dead"), &json!(8)));
    assert_eq!((&row["response_status"], &row["delivered_at"]), (&Value::Null, &Value::Null));
    let alerts = dispatching.alerts().await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let alert = &alerts[0];
    assert_eq!((alert.merchant_id, alert.occurrences), (dispatching.merchant.id, 1));
    assert_eq!(json!(alert.ids), json!([row["delivery_id"]]));
    assert_eq!(
        (json!(alert.subject), json!(alert.last_text)),
        (row["url"].clone(), row["last_error"].clone())
    );
    assert_eq!((alert.first_at, alert.last_at), (dispatching.now(), dispatching.now()));
    dispatching.nothing_is_due_at(dispatching.now().plus(Duration::from_hours(48))).await;
    assert_eq!(dispatching.row().await, row, "dead stays dead");
    assert_eq!(dispatching.alerts().await, [], "operations are told once");
}

/// "dead | `POST /v1/webhook/deliveries/{delivery_id}/redeliver` | the delivery belongs to the caller's
/// merchant | pending | The attempt counter restarts. The sender retries with the exact original payload."
/// And delivery rule 5: "A dead delivery can be requeued with the redeliver endpoint. The original payload is
/// resent."
async fn dead_becomes_pending_by_a_redelivery_and_the_original_payload_is_sent(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let first = dispatching.attempt(status(503)).await;
    for _ in 2..=8 {
        dispatching.pass(Duration::from_hours(1));
        dispatching.attempt(status(503)).await;
    }
    let dead = dispatching.row().await;
    dispatching.pass(Duration::from_hours(24));
    let requeued = dispatching.redeliver().await;
    let mut expected = dead;
    expected["status"] = json!("pending");
    expected["attempts"] = json!(0);
    expected["next_attempt_at"] = json!(dispatching.now());
    assert_eq!(requeued, expected, "the last outcome stays until the next attempt");
    let again = dispatching.attempt(status(200)).await;
    assert_eq!(again.notification.body, first.notification.body, "byte for byte");
    assert_eq!(again.url, first.url);
    assert_eq!(again.header("service-delivery-id"), first.header("service-delivery-id"));
    assert_eq!(again.header("service-timestamp"), dispatching.now().as_seconds().to_string());
    assert_ne!(again.header("service-timestamp"), first.header("service-timestamp"));
    assert_ne!(again.header("service-signature"), first.header("service-signature"));
    let row = dispatching.row().await;
    assert_eq!((&row["status"], &row["attempts"]), (&json!("delivered"), &json!(1)));
    assert_eq!((&row["response_status"], &row["last_error"]), (&json!(200), &Value::Null));
}

/// "The attempt counter restarts": there are 8 attempts again, and an alert again.
async fn a_redelivered_delivery_can_die_and_be_redelivered_again(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let id = dispatching.row().await["delivery_id"].clone();
    for _ in 0..2 {
        dispatching.die().await;
        let alerts = dispatching.alerts().await;
        assert_eq!(alerts.iter().map(|alert| json!(alert.ids)).collect::<Vec<_>>(), [json!([id])]);
        assert_eq!(dispatching.redeliver().await["attempts"], 0);
    }
    dispatching.attempt(status(204)).await;
    assert_eq!(dispatching.row().await["status"], "delivered");
}

/// "A delivery in any state other than dead cannot be redelivered."
async fn a_delivery_that_is_not_dead_cannot_be_redelivered(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let id = dispatching.row().await["delivery_id"].as_str().unwrap().to_owned();
    let path = format!("/v1/webhook/deliveries/{id}/redeliver");
    let refused = async |dispatching: &Dispatching| {
        let before = dispatching.row().await;
        dispatching.merchant.post(&path).await.refused(404, "not_found");
        assert_eq!(dispatching.row().await, before);
    };
    refused(&dispatching).await;
    let mut request = dispatching.request().await;
    refused(&dispatching).await;
    request.end(status(500));
    dispatching.recorded().await;
    refused(&dispatching).await;
    dispatching.pass(Duration::from_mins(1));
    dispatching.attempt(status(200)).await;
    refused(&dispatching).await;
    dispatching.nothing_is_due_at(dispatching.now().plus(Duration::from_hours(1))).await;
}

/// "delivered": "No further attempts", also not by a dispatcher that has just been started.
async fn a_delivered_delivery_is_never_sent_again(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    dispatching.attempt(status(200)).await;
    let row = dispatching.row().await;
    dispatching.crash_and_restart().await;
    dispatching.nothing_is_due_at(dispatching.now().plus(Duration::from_hours(2))).await;
    assert_eq!(dispatching.row().await, row);
}
