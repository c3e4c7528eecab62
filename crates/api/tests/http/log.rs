//! The log: what strangers cause at will fills neither its lines nor its size.

use std::time::Duration;

use settle_testing::log::Log;
use settle_testing::virtual_time;
use tracing::Level;

use crate::raw::Connection;
use crate::service::Setup;

on_both_stores! {
    many_wrong_keys_are_one_line,
    a_request_that_is_served_has_a_line_of_its_own,
    of_a_long_method_the_log_has_the_beginning,
}

/// Longer than the service counts before it says how many there were.
const COUNTED: Duration = Duration::from_secs(11);
/// The most characters of a caller's text that reach a log line, and the sign that there were more.
const EXCERPT_CHARACTERS: usize = 200;

fn log() -> Log {
    Log::of(Level::INFO, "settle_api")
}

async fn many_wrong_keys_are_one_line(setup: Setup) {
    let service = setup.start().await;
    let log = log();
    for number in 0..50 {
        let key = format!("Bearer sk_{}", format!("{number:02x}").repeat(32));
        let ask = service.ask("GET", "/v1/webhook").header("authorization", &key);
        ask.send().await.refused(401, "invalid_credentials");
    }
    assert_eq!(log.taken(), Vec::<String>::new());
    tokio::time::pause();
    virtual_time::pass(COUNTED).await;
    assert_eq!(log.taken(), ["requests were refused for their credentials"]);
}

async fn a_request_that_is_served_has_a_line_of_its_own(setup: Setup) {
    let merchant = setup.merchant().await;
    let log = log();
    for _ in 0..2 {
        merchant.get("/v1/webhook").await.ok();
    }
    assert_eq!(log.taken(), ["answered", "answered"]);
}

async fn of_a_long_method_the_log_has_the_beginning(setup: Setup) {
    let service = setup.start().await;
    let log = log();
    let mut connection = Connection::open(&service).await;
    let method = "X".repeat(EXCERPT_CHARACTERS + 100);
    connection.write(format!("{method} /v1/webhook HTTP/1.1\r\nhost: settle\r\n\r\n")).await;
    connection.next().await.refused(401, "invalid_credentials");
    let fields = log.fields_taken();
    let beginning = format!("method={}…", "X".repeat(EXCERPT_CHARACTERS));
    assert!(fields.contains(&beginning), "{fields:?}");
    assert!(!fields.iter().any(|field| field.contains(&method)), "{fields:?}");
}
