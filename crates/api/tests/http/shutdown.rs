//! A stop: requests under way are finished, later ones are not accepted.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;

use crate::raw::Connection;
use crate::resolvers::Gate;
use crate::service::Setup;

on_both_stores! {
    a_request_under_way_is_finished,
    an_idle_connection_does_not_hold_it_up,
    a_request_that_never_ends_is_cut_off,
}

async fn a_request_under_way_is_finished(mut setup: Setup) {
    let gate = Arc::new(Gate::default());
    setup.resolver = Some(gate.clone());
    let merchant = setup.merchant().await;
    let body = json!({ "webhook_url": "https://merchant.example/", "webhook_secret": "hush" });
    let put = merchant.ask("PUT", "/v1/webhook").json(&body);
    let put = tokio::spawn(put.send());
    gate.asked.notified().await;

    merchant.service.stop();
    // The stop has begun when no connection is accepted any more.
    while TcpStream::connect(merchant.service.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!merchant.service.has_stopped(), "it waits for the request under way");
    gate.open.notify_one();
    let set = json!({ "webhook_url": "https://merchant.example/", "webhook_secret_set": true });
    assert_eq!(put.await.expect("an answer").ok(), set);
    merchant.service.stopped().await;
}

async fn an_idle_connection_does_not_hold_it_up(setup: Setup) {
    let merchant = setup.merchant().await;
    let mut idle = Connection::open(&merchant.service).await;
    let request =
        format!("GET /v1/webhook HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {}\r\n\r\n", merchant.key);
    // This connection stays open after its answer.
    idle.write(request).await;
    idle.answer("GET", "/v1/webhook").await.ok();
    merchant.service.stop();
    merchant.service.stopped().await;
    assert_eq!(idle.read_to_close().await, b"");
}

async fn a_request_that_never_ends_is_cut_off(mut setup: Setup) {
    let gate = Arc::new(Gate::default());
    setup.resolver = Some(gate.clone());
    setup.server.shutdown_timeout = Duration::from_millis(200);
    let merchant = setup.merchant().await;
    let body = json!({ "webhook_url": "https://merchant.example/", "webhook_secret": "hush" });
    let put = merchant.ask("PUT", "/v1/webhook").json(&body);
    let put = tokio::spawn(put.send());
    gate.asked.notified().await;
    merchant.service.stop();
    merchant.service.stopped().await;
    put.abort();
}
