//! The service is built as the settings say: an alert reaches the URL that they name.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_notify::alerts;
use settle_store::DueTime;
use settle_store::conformance::alerts::death;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_wiring::config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// The alerter is wired as in the service, and posts to a receiver on this machine.
async fn an_alert_goes_over_real_http(scratch: ScratchStore) {
    let store = scratch.migrated().await;
    let merchant = fixtures::merchant(&*store).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/alerts", listener.local_addr().unwrap());
    let config = config::load(None, &vec![("SETTLE_ALERTS__URL".to_owned(), url)]).unwrap().config;
    let clock = Arc::new(ManualClock::at(fixtures::at(0)));
    let alerter = settle_wiring::alerter(&config, store.share(), clock).unwrap();
    let wake = alerter.wake();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(alerter.run(async { stopped.await.unwrap() }));
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let death = death(merchant, "https://merchant.example/hook", "timeout");
    alerts::raise(&mut *tx, &lock, &[death], fixtures::at(0), &SeededEntropy::new(1)).await.unwrap();
    tx.commit().await.unwrap();
    wake.wake();
    let request = receive(&listener).await;
    stop.send(()).unwrap();
    running.await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /alerts HTTP/1.1\r\n"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["event"], &body["last_error"]), (&json!("deliveries.dead"), &json!("timeout")));
    assert!(!store.alert_any_due(DueTime::by(fixtures::at(0).plus(Duration::from_hours(1)))).await.unwrap());
}

#[tokio::test]
async fn sqlite() {
    an_alert_goes_over_real_http(settle_store_sqlite::testing::scratch().await).await;
}

#[tokio::test]
async fn postgres() {
    an_alert_goes_over_real_http(settle_store_postgres::testing::scratch().await).await;
}

/// Reads one request, and answers it with 200.
async fn receive(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = String::new();
    while !request.ends_with('}') {
        let mut chunk = [0; 4_096];
        let read = stream.read(&mut chunk).await.unwrap();
        request.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    request
}
