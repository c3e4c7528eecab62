//! Bounds on what an operator may send, and how long it may take.

use std::time::Duration;

use serde_json::json;
use settle_api::OperatorParts;
use settle_domain::ids::MerchantId;

use super::client::{OperatorClient, SETTLEMENTS, completed, hold, seen};
use super::listener::{Listener, parts, recorder};
use crate::raw::Connection;
use crate::service::{Service, Setup};

on_both_stores! {
    the_longest_body_is_4_mib,
    a_chunked_body_is_counted_too,
    a_body_that_never_ends_is_a_400,
    an_answer_that_takes_too_long_is_a_503_and_can_be_asked_for_again,
    a_store_that_goes_away_is_a_503,
}

const BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// The time after which the service cuts off the slow clients of these tests.
const SHORT: Duration = Duration::from_millis(200);

fn head(client: &OperatorClient, rest: &str) -> String {
    let token = &client.token;
    format!("POST {SETTLEMENTS} HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {token}\r\n{rest}\r\n\r\n")
}

async fn the_longest_body_is_4_mib(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let mut body = completed(&merchant, json!({})).to_string();
    body.push_str(&" ".repeat(BYTES_MAX - body.len()));
    assert_eq!(client.post_text(body).await.ok()["recorded"], 1);
    let mut connection = Connection::to(client.listener.address).await;
    connection.write(head(&client, &format!("content-length: {}", BYTES_MAX + 1))).await;
    let answer = connection.next().await;
    hold(&answer);
    answer.refused(413, "invalid_body");
}

async fn a_chunked_body_is_counted_too(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let mut connection = Connection::to(client.listener.address).await;
    connection.write(head(&client, "transfer-encoding: chunked")).await;
    connection.write(format!("{:x}\r\n[{}", BYTES_MAX + 1, " ".repeat(BYTES_MAX))).await;
    let answer = connection.next().await;
    hold(&answer);
    answer.refused(413, "invalid_body");
}

async fn a_body_that_never_ends_is_a_400(setup: Setup) {
    let client = OperatorClient::start_with(setup, |state| state.body_timeout = SHORT).await;
    let mut connection = Connection::to(client.listener.address).await;
    connection.write(head(&client, "content-length: 9")).await;
    connection.write("[{").await;
    let answer = connection.next().await;
    hold(&answer);
    answer.refused(400, "invalid_body");
}

/// Holds a merchant's lock, so that nothing of this merchant can be recorded.
async fn locked(service: &Service, merchant: MerchantId) -> Box<dyn settle_store::Tx> {
    let mut tx = service.store.begin().await.expect("a transaction");
    tx.merchant_lock(&[merchant]).await.expect("a lock");
    tx
}

async fn an_answer_that_takes_too_long_is_a_503_and_can_be_asked_for_again(setup: Setup) {
    let mut recorder = None;
    let client = OperatorClient::start_with(setup, |state| {
        state.envelope.request_timeout = SHORT;
        recorder = Some(state.recorder.clone());
    })
    .await;
    let recorder = recorder.expect("it is one of the parts");
    let merchant = client.service.merchant().await;
    let body = completed(&merchant, json!({}));
    let lock = locked(&client.service, merchant.id).await;
    client.post(&body).await.refused(503, "internal_error");
    lock.commit().await.expect("the merchant is free");
    // The first request may have been recorded meanwhile; there is one settlement either way.
    let patient = OperatorParts { recorder, ..parts(client.service.store.clone()) };
    let listener = Listener::start(patient).await;
    OperatorClient { listener, ..client }.post(&body).await.ok();
    assert_eq!(seen(&merchant).await, (1, 0));
}

async fn a_store_that_goes_away_is_a_503(setup: Setup) {
    let away = settle_store_sqlite::testing::scratch().await;
    away.close().await;
    let store = away.share();
    let client = OperatorClient::start_with(setup, |state| state.recorder = recorder(store)).await;
    let merchant = client.service.merchant().await;
    let error = client.post(&completed(&merchant, json!({}))).await.refused(503, "internal_error");
    assert!(!error.to_string().contains("database"), "the cause is for the log: {error}");
}
