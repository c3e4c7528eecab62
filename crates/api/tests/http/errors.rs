//! The error envelope, wherever an error arises: in routing, by a panic, without a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;

use crate::contract::Contract;
use crate::raw::Connection;
use crate::service::{NOW, Setup};

on_both_stores! {
    every_row_of_the_error_envelope,
    an_unknown_route_is_a_404_without_a_key,
    the_root_leads_to_the_docs,
    another_version_is_a_404,
    a_wrong_method_is_a_405_with_allow,
    a_path_is_taken_literally,
    what_is_not_http_is_refused_and_the_connection_closed,
    every_request_has_an_id_of_its_own,
    a_panic_is_a_500_that_does_not_say_why,
    a_store_that_is_away_is_a_503_that_does_not_say_why,
}

/// Error envelope: `code`, `message`, `fields`, `fields[].field`, `fields[].code`.
async fn every_row_of_the_error_envelope(setup: Setup) {
    let merchant = setup.merchant().await;
    let error = merchant.get("/v1/webhook/deliveries?status=x&offset=x").await.json();
    let expected = json!({
        "error": {
            "code": "validation_failed",
            "message": "One or more fields are not valid.",
            "fields": [
                { "field": "status", "code": "validation_failed" },
                { "field": "offset", "code": "validation_failed" },
            ],
        },
    });
    assert_eq!(error, expected);
    // Without field errors the key is absent, not null.
    let error = merchant.post("/v1/webhook/test").await.json();
    let keys: Vec<&String> = error["error"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["code", "message"]);
}

async fn an_unknown_route_is_a_404_without_a_key(setup: Setup) {
    let merchant = setup.merchant().await;
    for path in ["/v1", "/v1/", "/v1/settlement", "/v1/webhook/deliveries/7", "/robots.txt", "/docs/x"] {
        for method in ["GET", "POST", "DELETE", "BREW"] {
            let answer = merchant.service.ask(method, path).send().await;
            answer.refused(404, "not_found");
            assert_eq!(answer.header("www-authenticate"), None, "{path}");
        }
        merchant.get(path).await.refused(404, "not_found");
    }
}

/// Who opens the service in a browser lands on its documentation.
async fn the_root_leads_to_the_docs(setup: Setup) {
    let answer = setup.start().await.ask("GET", "/").send().await;
    assert_eq!((answer.status, answer.header("location")), (307, Some("/docs")));
}

/// Versioning: the version is the path's prefix, and there is one.
async fn another_version_is_a_404(setup: Setup) {
    let merchant = setup.merchant().await;
    for operation in Contract::committed().operations() {
        for version in ["/v2", "/v0", "/V1", ""] {
            let path = operation.path("0190d3c4-7c00-7000-8000-0000000000ab").replacen("/v1", version, 1);
            merchant.ask(&operation.method, &path).send().await.refused(404, "not_found");
        }
    }
}

async fn a_wrong_method_is_a_405_with_allow(setup: Setup) {
    let merchant = setup.merchant().await;
    let redeliver = "/v1/webhook/deliveries/0190d3c4-7c00-7000-8000-0000000000ab/redeliver";
    for (path, allowed) in [
        ("/v1/settlements", &["GET", "HEAD"][..]),
        ("/v1/webhook", &["GET", "HEAD", "PUT"]),
        ("/v1/webhook/deliveries", &["GET", "HEAD"]),
        (redeliver, &["POST"]),
        ("/v1/webhook/test", &["POST"]),
        ("/openapi.json", &["GET", "HEAD"]),
    ] {
        for method in ["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            if allowed.contains(&method) {
                continue;
            }
            let answer = merchant.ask(method, path).send().await;
            assert_eq!(answer.status, 405, "{method} {path}");
            answer.refused(405, "not_found");
            let mut listed: Vec<&str> = answer.header("allow").unwrap().split(',').map(str::trim).collect();
            listed.sort_unstable();
            assert_eq!(listed, allowed, "{method} {path}");
        }
    }
}

async fn a_path_is_taken_literally(setup: Setup) {
    let merchant = setup.merchant().await;
    for path in
        ["/v1/webhook/", "//v1/webhook", "/v1//webhook", "/v1/Webhook", "/v1/webhook;a", "/v1/./webhook"]
    {
        merchant.get(path).await.refused(404, "not_found");
    }
}

/// The HTTP library refuses these itself, before there is a request: they get the envelope all the same.
async fn what_is_not_http_is_refused_and_the_connection_closed(setup: Setup) {
    let service = setup.start().await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    for (bytes, status) in [
        ("nonsense\r\n\r\n", "400"),
        ("GET /v1/webhook HTTP/1.1\r\nno colon\r\n\r\n", "400"),
        ("PUT /v1/webhook HTTP/1.1\r\ncontent-length: many\r\n\r\n", "400"),
        (&long, "431"),
    ] {
        let mut connection = Connection::open(&service).await;
        connection.write(bytes).await;
        let answer = String::from_utf8(connection.read_to_close().await).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        for header in ["x-request-id: 0", "content-type: application/json", "cache-control: no-store"] {
            assert!(head.contains(header), "{header}: {answer}");
        }
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["error"]["code"], "invalid_body", "{answer}");
        let words = if status == "400" { "read as HTTP" } else { "too long" };
        assert!(body["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    }
}

/// The test client checks that each id is a uuid v7. This test checks that no two are equal, and that the
/// service does not take the caller's.
async fn every_request_has_an_id_of_its_own(setup: Setup) {
    let merchant = setup.merchant().await;
    let theirs = "0190d3c4-7c00-7000-8000-0000000000ab";
    let mut ids = Vec::new();
    for path in ["/v1/webhook", "/v1/webhook", "/v1/nothing", "/v1/settlements?limit=0"] {
        let answer = merchant.ask("GET", path).header("x-request-id", theirs).send().await;
        ids.push(answer.header("x-request-id").unwrap().to_owned());
    }
    assert!(!ids.contains(&theirs.to_owned()));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

/// A clock that panics on its second reading: the first is the request id's, the second a handler's.
struct BrokenClock(AtomicUsize);

impl Clock for BrokenClock {
    fn now(&self) -> Timestamp {
        let reading = self.0.fetch_add(1, Ordering::SeqCst);
        assert!(reading != 1, "distinctive words of a panic");
        NOW.parse().expect("a time")
    }
}

async fn a_panic_is_a_500_that_does_not_say_why(mut setup: Setup) {
    setup.clock = Some(Arc::new(BrokenClock(AtomicUsize::new(0))));
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(NOW.parse().unwrap()).await;
    let path = format!("/v1/webhook/deliveries/{}/redeliver", dead.delivery_id);
    let answer = merchant.post(&path).await;
    answer.refused(500, "internal_error");
    assert!(!answer.text.contains("distinctive"), "{}", answer.text);
    // Nothing is half done or locked: the next request succeeds.
    assert_eq!(merchant.get("/v1/webhook/deliveries?status=dead").await.ok()["total"], 1);
    merchant.post(&path).await.ok();
}

async fn a_store_that_is_away_is_a_503_that_does_not_say_why(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.service.store.close().await;
    for operation in Contract::committed().operations() {
        let path = operation.path("0190d3c4-7c00-7000-8000-0000000000ab");
        let ask = merchant.ask(&operation.method, &path);
        let ask = if operation.method == "PUT" { ask.json(&json!({})) } else { ask };
        let answer = ask.send().await;
        let error = answer.refused(503, "internal_error");
        assert_eq!(error["message"], "An internal error occurred. Please try again later.");
    }
    // A request that needs no store is answered as usual.
    merchant.service.ask("GET", "/v1/webhook").send().await.refused(401, "invalid_credentials");
    merchant.get("/nowhere").await.refused(404, "not_found");
}
