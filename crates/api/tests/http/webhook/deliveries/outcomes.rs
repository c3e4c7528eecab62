//! What a merchant learns of an attempt: `response_status`, `last_error` and `attempts`.

use std::io::ErrorKind;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use settle_notify::sender::{Attempt, AttemptFault, SendError};

use crate::dispatch::{Dispatching, fault, status};
use crate::service::Setup;

on_both_stores! {
    a_failure_without_a_response_names_its_class,
    a_response_that_is_not_2xx_is_a_plain_failure,
    a_response_that_does_not_complete_in_time_has_a_status_and_an_error,
    an_attempt_replaces_what_the_last_one_left,
    an_attempt_that_is_cut_off_does_not_count,
    an_attempt_that_the_sender_could_not_make_does_not_count,
    a_fault_of_ours_spends_no_attempt,
    the_delay_is_measured_where_the_very_first_attempt_succeeds,
}

/// "`response_status` | Response status of the last attempt."; "`last_error` | Last error of the delivery."
async fn a_failure_without_a_response_names_its_class(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    let faults = [
        (AttemptFault::Timeout(Duration::from_secs(10)), "timeout: no complete response within 10 s"),
        (AttemptFault::Dns, "DNS: the host has no address, or its name servers did not answer"),
        (AttemptFault::Connect(ErrorKind::ConnectionRefused), "connection: refused"),
        (AttemptFault::Tls("the certificate has expired".to_owned()), "TLS: the certificate has expired"),
        (AttemptFault::UnsafeAddress, "unsafe address: the host leads to an address that is not public"),
        (AttemptFault::Broken, "connection: closed before a complete response, or the response was not HTTP"),
    ];
    dispatching.settle().await;
    for (attempts, (reason, words)) in (1..).zip(faults) {
        dispatching.attempt(fault(reason)).await;
        let row = dispatching.row().await;
        assert_eq!((&row["response_status"], &row["last_error"]), (&Value::Null, &json!(words)));
        assert_eq!((&row["status"], &row["attempts"]), (&json!("pending"), &json!(attempts)));
        dispatching.pass(Duration::from_hours(1));
    }
}

/// "no 2xx": a redirect is not followed, and 410 and 429 are treated like any other failure.
async fn a_response_that_is_not_2xx_is_a_plain_failure(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let waits = [1, 2, 4, 8, 16, 32];
    for ((attempts, answer), minutes) in (1..).zip([302, 410, 429, 404, 500, 199]).zip(waits) {
        dispatching.attempt(status(answer)).await;
        let row = dispatching.row().await;
        let redirect = if answer == 302 { ": redirects are not followed" } else { "" };
        let words = format!("answered with status {answer}{redirect}");
        assert_eq!((&row["response_status"], &row["last_error"]), (&json!(answer), &json!(words)));
        assert_eq!((&row["status"], &row["attempts"]), (&json!("pending"), &json!(attempts)));
        let due = dispatching.now().plus(Duration::from_mins(minutes));
        assert_eq!(row["next_attempt_at"], json!(due), "as after any other failure");
        dispatching.set(due);
    }
}

/// Delivery rule 1: "A request that does not complete in time counts as a failure", also when it began with
/// a 200.
async fn a_response_that_does_not_complete_in_time_has_a_status_and_an_error(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let late = AttemptFault::Timeout(Duration::from_secs(10));
    dispatching.attempt(Attempt { response_status: Some(200), fault: Some(late) }).await;
    let row = dispatching.row().await;
    assert_eq!((&row["status"], &row["response_status"]), (&json!("pending"), &json!(200)));
    assert_eq!(row["last_error"], "timeout: no complete response within 10 s");
}

/// Status and error are both of the last attempt, never of two different ones.
async fn an_attempt_replaces_what_the_last_one_left(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    for (attempt, answer, words) in [
        (status(503), json!(503), json!("answered with status 503")),
        (
            fault(AttemptFault::Dns),
            Value::Null,
            json!("DNS: the host has no address, or its name servers did not answer"),
        ),
        (status(201), json!(201), Value::Null),
    ] {
        dispatching.attempt(attempt).await;
        let row = dispatching.row().await;
        assert_eq!((&row["response_status"], &row["last_error"]), (&answer, &words));
        dispatching.pass(Duration::from_hours(1));
    }
}

/// "attempts | Attempt counter.": of attempts with an outcome. One whose dispatcher dies is made again, and
/// the receiver sees the same delivery twice: "Delivery is at-least-once."
async fn an_attempt_that_is_cut_off_does_not_count(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let before = dispatching.row().await;
    let cut_off = dispatching.request().await;
    dispatching.crash_and_restart().await;
    assert_eq!(dispatching.row().await, before);
    let again = dispatching.attempt(status(200)).await;
    assert_eq!(again.header("service-delivery-id"), cut_off.header("service-delivery-id"));
    assert_eq!(again.notification.body, cut_off.notification.body);
    let row = dispatching.row().await;
    assert_eq!((&row["status"], &row["attempts"]), (&json!("delivered"), &json!(1)));
}

/// A failure inside the service never uses up a merchant's attempt.
async fn an_attempt_that_the_sender_could_not_make_does_not_count(setup: Setup) {
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let before = dispatching.row().await;
    drop(dispatching.request().await);
    dispatching.nothing_is_recorded().await;
    dispatching.crash_and_restart().await;
    assert_eq!(dispatching.row().await, before);
    dispatching.attempt(status(500)).await;
    assert_eq!(dispatching.row().await["attempts"], 1);
}

/// Whatever is wrong on our side: the row stays as it is, and the delivery is made when we can again.
async fn a_fault_of_ours_spends_no_attempt(setup: Setup) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _measuring = metrics::set_default_local_recorder(&recorder);
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    let before = dispatching.row().await;
    for error in [SendError::Resources, SendError::Network, SendError::Resolver] {
        dispatching.request().await.fail(error);
        dispatching.nothing_is_recorded().await;
        // Its merchant would rest for a moment.
        dispatching.crash_and_restart().await;
        assert_eq!(dispatching.row().await, before);
    }
    dispatching.attempt(status(200)).await;
    assert_eq!(dispatching.row().await["attempts"], 1);
    let rendered = recorder.handle().render();
    for cause in ["resources", "network", "resolver"] {
        let line = format!("settle_delivery_faults_total{{cause=\"{cause}\"}} 1");
        assert!(rendered.lines().any(|rendered| rendered == line), "{line}: {rendered}");
    }
}

/// The delay of a redelivery depends on when somebody requested it, so it is not measured.
async fn the_delay_is_measured_where_the_very_first_attempt_succeeds(setup: Setup) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _measuring = metrics::set_default_local_recorder(&recorder);
    let mut dispatching = Dispatching::start(setup).await;
    dispatching.settle().await;
    dispatching.attempt(status(200)).await;
    dispatching.pass(Duration::from_secs(1));
    dispatching.settle().await;
    dispatching.die().await;
    dispatching.redeliver().await;
    dispatching.attempt(status(200)).await;
    let rendered = recorder.handle().render();
    assert!(rendered.lines().any(|line| line == "settle_delivery_delay_seconds_count 1"), "{rendered}");
}
