//! When a delivery is attempted: the delivery rules about time, to the microsecond.

use std::time::Duration;

use serde_json::{Value, json};
use settle_domain::time::Timestamp;

use crate::dispatch::{Dispatching, status};
use crate::service::Setup;

on_both_stores! {
    the_first_attempt_is_made_at_once,
    retries_wait_from_one_minute_doubling_up_to_one_hour,
    the_wait_begins_when_the_attempt_ends,
    a_delivered_or_dead_row_keeps_the_time_of_its_last_attempt,
    a_redelivery_starts_the_schedule_anew,
    a_settlement_of_the_meantime_does_not_wait_for_a_retry,
}

/// "Retry interval | exponential, starting at one minute, doubling, capped at one hour", in seconds.
const WAITS: [u64; 7] = [60, 120, 240, 480, 960, 1_920, 3_600];

fn time(value: &Value) -> Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

/// "It is sent when a settlement completes": the dispatcher is woken, and no time passes.
async fn the_first_attempt_is_made_at_once(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    let completed_at = dispatching.now();
    dispatching.settle().await;
    let row = dispatching.row().await;
    assert_eq!((&row["created_at"], &row["next_attempt_at"]), (&json!(completed_at), &json!(completed_at)));
    let request = dispatching.request().await;
    assert_eq!(request.header("service-timestamp"), completed_at.as_seconds().to_string());
}

/// Delivery rule 2: "Failed deliveries are retried with exponential backoff, from one minute doubling up to
/// one hour between attempts, for up to 8 attempts."
async fn retries_wait_from_one_minute_doubling_up_to_one_hour(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    for (attempts, seconds) in (1..).zip(WAITS) {
        dispatching.attempt(status(500)).await;
        let due = dispatching.now().plus(Duration::from_secs(seconds));
        let row = dispatching.row().await;
        assert_eq!((&row["attempts"], &row["next_attempt_at"]), (&json!(attempts), &json!(due)));
        dispatching.nothing_is_due_at(due.minus(Duration::from_micros(1))).await;
        dispatching.set(due);
    }
    dispatching.attempt(status(500)).await;
    assert_eq!(dispatching.row().await["status"], "dead", "of 8 attempts the last has failed");
}

/// "between attempts": the duration of the attempt itself is not part of the wait.
async fn the_wait_begins_when_the_attempt_ends(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let mut request = dispatching.request().await;
    dispatching.pass(Duration::from_secs(10));
    request.end(status(500));
    dispatching.recorded().await;
    let due = dispatching.now().plus(Duration::from_mins(1));
    assert_eq!(dispatching.row().await["next_attempt_at"], json!(due));
}

/// `next_attempt_at` of a row that has no next attempt is the time of its last one.
async fn a_delivered_or_dead_row_keeps_the_time_of_its_last_attempt(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    for last in [status(204), status(500)] {
        dispatching.settle().await;
        for _ in 1..=7 {
            dispatching.attempt(status(500)).await;
            dispatching.set(time(&dispatching.row().await["next_attempt_at"]));
        }
        let last_attempt_at = dispatching.now();
        dispatching.attempt(last).await;
        dispatching.nothing_is_due_at(last_attempt_at.plus(Duration::from_hours(5))).await;
        assert_eq!(dispatching.row().await["next_attempt_at"], json!(last_attempt_at));
    }
}

/// "The attempt counter restarts", and with it the waits.
async fn a_redelivery_starts_the_schedule_anew(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    dispatching.die().await;
    assert_eq!(dispatching.redeliver().await["next_attempt_at"], json!(dispatching.now()));
    dispatching.attempt(status(500)).await;
    let due = dispatching.now().plus(Duration::from_mins(1));
    let row = dispatching.row().await;
    assert_eq!((&row["attempts"], &row["next_attempt_at"]), (&json!(1), &json!(due)));
}

/// A new settlement does not wait for the retry of an older one.
async fn a_settlement_of_the_meantime_does_not_wait_for_a_retry(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let failing = dispatching.attempt(status(500)).await;
    dispatching.pass(Duration::from_secs(30));
    dispatching.settle().await;
    let other = dispatching.attempt(status(200)).await;
    assert_ne!(other.header("service-delivery-id"), failing.header("service-delivery-id"));
    dispatching.pass(Duration::from_secs(30));
    let retry = dispatching.attempt(status(200)).await;
    assert_eq!(retry.header("service-delivery-id"), failing.header("service-delivery-id"));
}
