//! Connections: how long a head may be, who gets a place and who loses it, and how a connection ends.

use std::time::Duration;

use serde_json::json;
use settle_api::http::Proxies;

use crate::contract::Contract;
use crate::merchant::Merchant;
use crate::operator::{Listener, parts};
use crate::raw::Connection;
use crate::resolvers::Gate;
use crate::service::{Service, Setup};

on_both_stores! {
    a_head_of_more_than_32_kib_is_a_431,
    more_than_100_headers_are_a_431,
    a_connection_ends_after_a_long_head,
    what_comes_after_a_long_head_does_not_take_its_answer_away,
    a_body_leaves_its_connection_as_it_is,
    the_operators_listener_has_the_same_bounds,
    who_sends_no_head_gives_its_place_to_who_does,
    who_sends_no_body_gives_its_place_to_who_does,
    a_body_that_comes_in_pieces_is_read_whole,
    who_does_not_read_gives_its_place_to_who_asks,
    a_source_gives_places_of_its_own,
    a_source_for_which_handlers_work_gets_no_more_connections,
    a_source_behind_a_proxy_has_as_many_requests_as_it_may_have_connections,
    few_urls_of_a_merchant_are_judged_at_once,
    a_refused_body_is_drained_so_that_the_answer_arrives,
    a_host_is_named_once,
}

/// Longer than a test lasts: nothing happens because of a time limit.
const NEVER: Duration = Duration::from_hours(1);
const KIB: usize = 1_024;

/// A request with a header of so many bytes.
fn with_header(length: usize) -> String {
    format!("GET /v1/webhook HTTP/1.1\r\nhost: settle\r\nx-long: {}\r\n\r\n", "a".repeat(length))
}

/// A request with so many headers, the host among them.
fn with_headers(number: usize) -> String {
    format!("GET /v1/webhook HTTP/1.1\r\nhost: settle\r\n{}\r\n", "x-one: 1\r\n".repeat(number - 1))
}

/// Sends a head that the HTTP library refuses, and checks that the refusal arrives.
async fn refused_with_431(mut connection: Connection, head: &str) {
    connection.write(head).await;
    let answer = String::from_utf8(connection.read_to_end().await).unwrap();
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    assert!(answer.contains("\"code\":\"invalid_body\"") && answer.contains("x-request-id: "), "{answer}");
}

async fn a_head_of_more_than_32_kib_is_a_431(setup: Setup) {
    let service = setup.start().await;
    let mut connection = Connection::open(&service).await;
    connection.write(with_header(31 * KIB)).await;
    connection.answer("GET", "/v1/webhook").await.refused(401, "invalid_credentials");
    // However much is still to come, the client reads the refusal.
    for length in [33 * KIB, 400 * KIB] {
        refused_with_431(Connection::open(&service).await, &with_header(length)).await;
    }
}

async fn more_than_100_headers_are_a_431(setup: Setup) {
    let service = setup.start().await;
    let mut connection = Connection::open(&service).await;
    connection.write(with_headers(100)).await;
    connection.answer("GET", "/v1/webhook").await.refused(401, "invalid_credentials");
    refused_with_431(Connection::open(&service).await, &with_headers(101)).await;
}

async fn a_connection_ends_after_a_long_head(mut setup: Setup) {
    setup.server.header_timeout = NEVER;
    let service = setup.start().await;
    let mut connection = Connection::open(&service).await;
    for (length, is_last) in [(7 * KIB, false), (7 * KIB, false), (24 * KIB, true)] {
        connection.write(with_header(length)).await;
        let answer = connection.answer("GET", "/v1/webhook").await;
        answer.refused(401, "invalid_credentials");
        assert_eq!(answer.headers.contains_key("connection"), is_last, "{length}");
    }
    assert!(connection.read_to_end().await.is_empty(), "its buffer is not kept for the next request");
}

async fn what_comes_after_a_long_head_does_not_take_its_answer_away(mut setup: Setup) {
    setup.server.header_timeout = NEVER;
    let service = setup.start().await;
    let mut connection = Connection::open(&service).await;
    // A client that writes everything before it reads. The kernel would reset the connection if the service
    // closed it with all that unread.
    connection.write(with_header(24 * KIB).repeat(350)).await;
    connection.answer("GET", "/v1/webhook").await.refused(401, "invalid_credentials");
    connection.close_half().await;
    connection.read_to_close().await;
}

async fn a_body_leaves_its_connection_as_it_is(mut setup: Setup) {
    setup.server.header_timeout = NEVER;
    let merchant = setup.merchant().await;
    let mut connection = Connection::open(&merchant.service).await;
    for _ in 0..2 {
        let body = format!("{{\"url\":\"https://example.com/{}\"}}", "a".repeat(40 * KIB));
        connection.write(put(&merchant, body.len()) + &body).await;
        let answer = connection.answer("PUT", "/v1/webhook").await;
        assert!(answer.status == 422 && !answer.headers.contains_key("connection"), "{}", answer.text);
    }
}

async fn the_operators_listener_has_the_same_bounds(setup: Setup) {
    let operator = Listener::start(parts(setup.into_scratch().share())).await;
    for head in [with_header(33 * KIB), with_headers(101)] {
        refused_with_431(Connection::to(operator.address).await, &head).await;
    }
}

async fn who_sends_no_head_gives_its_place_to_who_does(mut setup: Setup) {
    setup.server.header_timeout = NEVER;
    setup.server.connections_max = 2;
    let merchant = setup.merchant().await;
    let mut silent = Connection::open(&merchant.service).await;
    let mut slow = Connection::open(&merchant.service).await;
    slow.write("GET").await;
    for _ in 0..10 {
        merchant.get("/v1/webhook").await.ok();
    }
    silent.read_to_end().await;
    slow.read_to_end().await;
}

/// The head of a change of the endpoint whose body has so many bytes.
fn put(merchant: &Merchant, length: usize) -> String {
    format!(
        "PUT /v1/webhook HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {}\r\ncontent-length: {length}\r\n\r\n",
        merchant.key
    )
}

async fn who_sends_no_body_gives_its_place_to_who_does(mut setup: Setup) {
    setup.server.header_timeout = NEVER;
    setup.limits.body_timeout = NEVER;
    setup.limits.request_timeout = NEVER;
    setup.server.connections_max = 1;
    let merchant = setup.merchant().await;
    for body in ["", "{"] {
        let mut unfinished = Connection::open(&merchant.service).await;
        unfinished.write(format!("{}{body}", put(&merchant, 60_000))).await;
        merchant.get("/v1/webhook").await.ok();
        assert_eq!(unfinished.read_to_end().await, b"", "it ended without an answer");
    }
}

async fn a_body_that_comes_in_pieces_is_read_whole(setup: Setup) {
    let merchant = setup.merchant().await;
    let body = r#"{"webhook_url":null}"#;
    let mut connection = Connection::open(&merchant.service).await;
    connection.write(put(&merchant, body.len())).await;
    for byte in body.chars() {
        connection.write(byte.to_string()).await;
    }
    connection.answer("PUT", "/v1/webhook").await.ok();
}

async fn who_does_not_read_gives_its_place_to_who_asks(mut setup: Setup) {
    setup.server.write_timeout = NEVER;
    setup.server.connections_max = 1;
    let merchant = setup.merchant().await;
    // More answers than the buffers of the sockets hold, and nobody reads them.
    let mut unread = Connection::open(&merchant.service).await;
    unread.write("GET /openapi.json HTTP/1.1\r\nhost: settle\r\n\r\n".repeat(200)).await;
    merchant.get("/v1/webhook").await.ok();
    drop(unread);
}

async fn a_source_gives_places_of_its_own(mut setup: Setup) {
    setup.server.header_timeout = NEVER;
    setup.server.connections_per_source = 1;
    let merchant = setup.merchant().await;
    let mut silent = Connection::open(&merchant.service).await;
    merchant.get("/v1/webhook").await.ok();
    silent.read_to_end().await;
}

/// Starts a request that a handler works on until the gate opens.
async fn busy(merchant: &Merchant, gate: &Gate) -> tokio::task::JoinHandle<crate::answer::Answer> {
    let body = json!({ "webhook_url": "https://merchant.example/", "webhook_secret": "hush" });
    let put = tokio::spawn(merchant.ask("PUT", "/v1/webhook").json(&body).send());
    gate.asked.notified().await;
    put
}

async fn a_source_for_which_handlers_work_gets_no_more_connections(mut setup: Setup) {
    let gate = std::sync::Arc::new(Gate::default());
    setup.resolver = Some(gate.clone());
    setup.server.connections_per_source = 1;
    let merchant = setup.merchant().await;
    let put = busy(&merchant, &gate).await;
    let mut refused = Connection::open(&merchant.service).await;
    assert_eq!(refused.read_to_close().await, b"");
    gate.open.notify_one();
    put.await.expect("an answer").ok();
    merchant.get("/v1/webhook").await.ok();
}

async fn a_source_behind_a_proxy_has_as_many_requests_as_it_may_have_connections(mut setup: Setup) {
    let gate = std::sync::Arc::new(Gate::default());
    setup.resolver = Some(gate.clone());
    setup.server.connections_per_source = 1;
    setup.server.proxies = Proxies::new(&["127.0.0.0/8".parse().unwrap()]);
    let merchant = setup.merchant().await;
    let ask = |method: &str, source: &str| {
        merchant.ask(method, "/v1/webhook").header("x-forwarded-for", &format!("10.0.0.1, {source}"))
    };
    let body = json!({ "webhook_url": "https://merchant.example/", "webhook_secret": "hush" });
    let put = tokio::spawn(ask("PUT", "192.0.2.1").json(&body).send());
    gate.asked.notified().await;
    let refused = ask("GET", "192.0.2.1").send().await;
    refused.refused(429, "locked");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let policy = "\"source\";q=1;qu=\"concurrent-requests\"";
    assert_eq!(refused.header("ratelimit-policy"), Some(policy));
    ask("GET", "192.0.2.2").send().await.ok();
    merchant.get("/v1/webhook").await.ok();
    gate.open.notify_one();
    put.await.expect("an answer").ok();
    ask("GET", "192.0.2.1").send().await.ok();
}

/// Their name servers are silent: other merchants find places all the same.
async fn few_urls_of_a_merchant_are_judged_at_once(mut setup: Setup) {
    let gate = std::sync::Arc::new(Gate::default());
    setup.resolver = Some(gate.clone());
    let merchant = setup.merchant().await;
    let mut judged = Vec::new();
    for _ in 0..8 {
        judged.push(busy(&merchant, &gate).await);
    }
    let body = json!({ "webhook_url": "https://merchant.example/", "webhook_secret": "hush" });
    let refused = merchant.put("/v1/webhook", &body).await;
    refused.refused(429, "locked");
    assert_eq!(
        refused.header("ratelimit-policy"),
        Some("\"endpoint-changes\";q=8;qu=\"concurrent-requests\"")
    );
    merchant.put("/v1/webhook", &json!({ "webhook_url": null })).await.ok();
    let other = merchant.service.merchant().await;
    let others = busy(&other, &gate).await;
    for put in judged.into_iter().chain([others]) {
        gate.open.notify_one();
        put.await.expect("an answer").ok();
    }
}

async fn a_refused_body_is_drained_so_that_the_answer_arrives(setup: Setup) {
    const BYTES: usize = 8 * KIB * KIB;
    let merchant = setup.merchant().await;
    let body = "a".repeat(BYTES);
    for (authorization, status) in
        [(format!("authorization: Bearer {}\r\n", merchant.key), 413), (String::new(), 401)]
    {
        let mut connection = Connection::open(&merchant.service).await;
        let head = format!(
            "PUT /v1/webhook HTTP/1.1\r\nhost: settle\r\n{authorization}content-length: {BYTES}\r\n\r\n"
        );
        // A client that writes everything before it reads.
        connection.write(head).await;
        connection.write(&body).await;
        assert_eq!(connection.answer("PUT", "/v1/webhook").await.status, status);
        connection.read_to_close().await;
    }
}

/// RFC 9112: a server must answer 400 to a request without a host, or with more than one.
async fn a_host_is_named_once(setup: Setup) {
    let service = setup.start().await;
    let one = |version: &str, hosts: &str| format!("GET /nothing HTTP/{version}\r\n{hosts}\r\n");
    for (version, hosts, status, code) in [
        ("1.1", "", 400, "invalid_body"),
        ("1.1", "host: a\r\nhost: b\r\n", 400, "invalid_body"),
        ("1.1", "host: a\r\nHost: a\r\n", 400, "invalid_body"),
        ("1.0", "host: a\r\nhost: b\r\n", 400, "invalid_body"),
        ("1.0", "", 404, "not_found"),
        ("1.1", "host: a\r\n", 404, "not_found"),
    ] {
        let answer = ask(&service, &one(version, hosts)).await;
        answer.refused(status, code);
        Contract::committed().hold("GET", "/nothing", &answer);
    }
}

async fn ask(service: &Service, request: &str) -> crate::answer::Answer {
    let mut connection = Connection::open(service).await;
    connection.write(request).await;
    connection.next().await
}
