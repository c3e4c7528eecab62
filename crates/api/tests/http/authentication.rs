//! Who may call: every operation with every kind of caller.
//!
//! The operations come from `openapi.json`, so a new one is tested as soon as it is documented.

use std::num::NonZeroU32;

use serde_json::json;
use settle_api::Guessing;
use settle_api::http::Proxies;
use settle_domain::time::Timestamp;

use crate::answer::Answer;
use crate::contract::{Contract, Operation};
use crate::merchant::{Ask, Merchant, settlement};
use crate::service::{NOW, Service, Setup};

on_both_stores! {
    every_operation_without_a_key,
    every_operation_with_a_malformed_key,
    every_operation_with_an_unknown_key,
    every_operation_with_a_revoked_key,
    every_operation_with_another_merchants_key,
    the_reason_is_not_told,
    the_key_is_judged_before_anything_else,
    a_revocation_holds_from_the_next_request_on,
    one_revoked_key_leaves_the_others_alone,
    two_authorization_headers_are_none,
    the_scheme_is_read_in_any_case,
    a_key_in_the_query_string_is_not_looked_at,
    a_key_looks_like_sk_and_hexadecimal_digits,
    too_many_wrong_keys_are_a_429_and_a_right_key_still_works,
    wrong_keys_behind_a_proxy_cost_their_source_alone,
    what_is_no_key_is_always_a_401,
}

/// A request of an operation that lacks only the key.
fn ask(service: &Service, operation: &Operation) -> Ask {
    let path = operation.path("0190d3c4-7c00-7000-8000-0000000000ab");
    let ask = service.ask(&operation.method, &path);
    if operation.method == "PUT" { ask.json(&json!({ "webhook_url": null })) } else { ask }
}

#[track_caller]
fn assert_unauthorized(answer: &Answer, what: &str) {
    assert_eq!(answer.status, 401, "{what}: {}", answer.text);
    answer.refused(401, "invalid_credentials");
    assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"settle\""), "{what}");
}

/// Sends every operation with each of these `Authorization` headers.
async fn assert_all_unauthorized(service: &Service, values: &[&[u8]]) {
    for operation in Contract::committed().operations() {
        for value in values {
            let answer = ask(service, &operation).header_bytes("authorization", value).send().await;
            let what = format!("{operation:?} with {}", String::from_utf8_lossy(value));
            assert_unauthorized(&answer, &what);
        }
    }
}

/// API access 1: a key is needed.
async fn every_operation_without_a_key(setup: Setup) {
    let service = setup.start().await;
    for operation in Contract::committed().operations() {
        let answer = ask(&service, &operation).send().await;
        assert_unauthorized(&answer, &format!("{operation:?}"));
    }
}

/// API access 2 and 4: texts that do not look like a key.
async fn every_operation_with_a_malformed_key(setup: Setup) {
    let merchant = setup.merchant().await;
    let key = &merchant.key;
    let (capitals, no_prefix) = (key.to_uppercase(), key.trim_start_matches("sk_"));
    let long = "a".repeat(1_000);
    let values = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer sk_".to_owned(),
        "Bearer sk_xyz".to_owned(),
        key.clone(),
        format!("Basic {key}"),
        format!("Token {key}"),
        format!("Bearer={key}"),
        format!("Bearer {capitals}"),
        format!("Bearer sk_{}", no_prefix.to_uppercase()),
        format!("Bearer {no_prefix}"),
        format!("Bearer op_{no_prefix}"),
        format!("Bearer \"{key}\""),
        format!("Bearer {key},"),
        format!("Bearer {key} {key}"),
        format!("Bearer {key}\u{e9}"),
        format!("Bearer sk_{long}"),
    ];
    let mut values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
    values.push(b"Bearer sk_\xff\xfe");
    assert_all_unauthorized(&merchant.service, &values).await;
}

/// API access 4: a key that was never issued, one that is cut off, and one that is too long.
async fn every_operation_with_an_unknown_key(setup: Setup) {
    let merchant = setup.merchant().await;
    let key = &merchant.key;
    let last = if key.ends_with('0') { '1' } else { '0' };
    let values = [
        format!("Bearer sk_{}", "0".repeat(64)),
        format!("Bearer {}", &key[..key.len() - 1]),
        format!("Bearer {key}0"),
        format!("Bearer {}{last}", &key[..key.len() - 1]),
    ];
    let values: Vec<&[u8]> = values.iter().map(String::as_bytes).collect();
    assert_all_unauthorized(&merchant.service, &values).await;
}

/// API access 3: a key that was revoked.
async fn every_operation_with_a_revoked_key(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.service.revoke(merchant.key_id).await;
    let value = format!("Bearer {}", merchant.key);
    assert_all_unauthorized(&merchant.service, &[value.as_bytes()]).await;
}

/// API access 5: another merchant's key shows and changes nothing of this merchant.
async fn every_operation_with_another_merchants_key(setup: Setup) {
    let service = setup.start().await;
    let (owner, other) = (service.merchant().await, service.merchant().await);
    owner.record([settlement(json!({}))]).await;
    owner.set_webhook().await;
    let now: Timestamp = NOW.parse().unwrap();
    let dead = owner.dead_delivery(now).await;
    let before = everything(&owner).await;

    let mut seen = 0;
    for operation in Contract::committed().operations() {
        let path = operation.path(&dead.delivery_id.to_string());
        let request = || other.ask(&operation.method, &path);
        match (operation.method.as_str(), operation.template.as_str()) {
            ("GET", "/v1/settlements") => {
                let nothing = json!({ "settlements": [], "limit": 50, "offset": 0, "total": 0 });
                assert_eq!(request().send().await.ok(), nothing);
            }
            ("GET", "/v1/webhook/deliveries") => {
                let nothing = json!({ "deliveries": [], "limit": 50, "offset": 0, "total": 0 });
                assert_eq!(request().send().await.ok(), nothing);
            }
            ("POST", "/v1/webhook/deliveries/{delivery_id}/redeliver") => {
                request().send().await.refused(404, "not_found");
            }
            ("GET", "/v1/webhook") => {
                let nothing = json!({ "webhook_url": null, "webhook_secret_set": false });
                assert_eq!(request().send().await.ok(), nothing);
            }
            ("PUT", "/v1/webhook") => {
                request().json(&json!({ "webhook_url": null })).send().await.ok();
                request()
                    .json(&json!({ "webhook_secret": "x" }))
                    .send()
                    .await
                    .invalid_fields(&[("webhook_url", "required")]);
            }
            ("POST", "/v1/webhook/test") => {
                request().send().await.refused(409, "webhook_endpoint_not_configured");
            }
            other => panic!("{other:?}: say here what another merchant gets"),
        }
        seen += 1;
    }
    assert_eq!(seen, 6);
    assert_eq!(everything(&owner).await, before, "the other merchant changed something");
}

/// Everything that a merchant can read.
async fn everything(merchant: &Merchant) -> Vec<String> {
    let mut texts = Vec::new();
    for path in ["/v1/settlements", "/v1/webhook/deliveries", "/v1/webhook"] {
        let answer = merchant.get(path).await;
        answer.ok();
        texts.push(answer.text);
    }
    texts
}

/// API access 4, its last sentence: bodies and headers are the same, whatever is wrong with the key.
async fn the_reason_is_not_told(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.service.revoke(merchant.key_id).await;
    let ask = || merchant.service.ask("GET", "/v1/settlements");
    let unknown = format!("Bearer sk_{}", "0".repeat(64));
    let answers = [
        ask().send().await,
        ask().header("authorization", "Bearer nonsense").send().await,
        ask().header("authorization", &unknown).send().await,
        merchant.get("/v1/settlements").await,
    ];
    let visible = |answer: &Answer| {
        let mut headers = answer.headers.clone();
        // Each request has an id of its own, and the date may change.
        headers.remove("x-request-id");
        headers.remove("date");
        (answer.status, headers, answer.text.clone())
    };
    for answer in &answers {
        assert_eq!(visible(answer), visible(&answers[0]));
    }
}

/// Without a key a caller learns nothing: not even that a query, a body, an id or a method is wrong.
async fn the_key_is_judged_before_anything_else(setup: Setup) {
    let service = setup.start().await;
    let put = || service.ask("PUT", "/v1/webhook");
    let requests = [
        ("bad query", service.ask("GET", "/v1/settlements?limit=0&limit=x&offset=-1")),
        ("bad status", service.ask("GET", "/v1/webhook/deliveries?status=lost")),
        ("malformed uuid", service.ask("POST", "/v1/webhook/deliveries/7/redeliver")),
        ("bad body", put().header("content-type", "application/json").body("{")),
        ("wrong content type", put().header("content-type", "text/plain").body("hello")),
        ("refused URL", put().json(&json!({ "webhook_url": "https://localhost/" }))),
        ("wrong method", service.ask("DELETE", "/v1/webhook")),
        ("another wrong method", service.ask("PATCH", "/v1/settlements")),
        ("an invented method", service.ask("BREW", "/v1/webhook/test")),
    ];
    for (what, request) in requests {
        assert_unauthorized(&request.send().await, what);
    }
    assert!(service.stub.questions().is_empty(), "no name was asked for");
}

/// API access 3: revocation takes effect immediately.
async fn a_revocation_holds_from_the_next_request_on(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.get("/v1/webhook").await.ok();
    merchant.service.revoke(merchant.key_id).await;
    assert_unauthorized(&merchant.get("/v1/webhook").await, "the very next request");
}

async fn one_revoked_key_leaves_the_others_alone(setup: Setup) {
    let first = setup.merchant().await;
    let (key_id, key) = first.service.new_key(first.id).await;
    let second = Merchant { service: first.service.clone(), id: first.id, key_id, key };
    let stranger = first.service.merchant().await;
    first.service.revoke(first.key_id).await;
    assert_unauthorized(&first.get("/v1/webhook").await, "the revoked one");
    second.get("/v1/webhook").await.ok();
    stranger.get("/v1/webhook").await.ok();
}

async fn two_authorization_headers_are_none(setup: Setup) {
    let merchant = setup.merchant().await;
    let good = format!("Bearer {}", merchant.key);
    for second in [good.as_str(), "Basic eA==", ""] {
        let answer = merchant.ask("GET", "/v1/webhook").header("authorization", second).send().await;
        assert_unauthorized(&answer, second);
    }
}

async fn the_scheme_is_read_in_any_case(setup: Setup) {
    let merchant = setup.merchant().await;
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR"] {
        let value = format!("{scheme} {}", merchant.key);
        merchant.service.ask("GET", "/v1/webhook").header("authorization", &value).send().await.ok();
    }
}

async fn a_key_in_the_query_string_is_not_looked_at(setup: Setup) {
    let merchant = setup.merchant().await;
    for name in ["access_token", "api_key", "key", "authorization", "Authorization"] {
        let path = format!("/v1/settlements?{name}={}", merchant.key);
        assert_unauthorized(&merchant.service.ask("GET", &path).send().await, name);
        let bad = format!("/v1/settlements?{name}=sk_00");
        merchant.get(&bad).await.ok();
    }
}

/// API access 2.
async fn a_key_looks_like_sk_and_hexadecimal_digits(setup: Setup) {
    let merchant = setup.merchant().await;
    let digits = merchant.key.strip_prefix("sk_").expect("the prefix");
    assert_eq!(digits.len(), 64);
    assert!(digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
    merchant.get("/v1/webhook").await.ok();
}

/// A key that nobody has.
fn wrong_key(number: u8) -> String {
    format!("Bearer sk_{}", format!("{number:02x}").repeat(32))
}

async fn too_many_wrong_keys_are_a_429_and_a_right_key_still_works(mut setup: Setup) {
    setup.limits.guessing = Guessing { per_second: NonZeroU32::new(1), burst: NonZeroU32::new(20).unwrap() };
    let merchant = setup.merchant().await;
    let guess = async |number: u8| {
        let ask = merchant.service.ask("GET", "/v1/webhook");
        ask.header("authorization", &wrong_key(number)).send().await
    };
    for number in 0..20 {
        assert_unauthorized(&guess(number).await, "one of the first");
    }
    // While a slow machine came this far, the source may have gained guesses.
    let mut last = guess(20).await;
    for number in 21..100 {
        if last.status == 429 {
            break;
        }
        last = guess(number).await;
    }
    last.refused(429, "locked");
    assert_eq!(last.header("retry-after"), Some("1"));
    assert_eq!(last.header("ratelimit-policy"), Some("\"wrong-credentials\";q=20;w=20"));
    // A key that was never used before, and then again; and one that is revoked.
    merchant.get("/v1/webhook").await.ok();
    merchant.get("/v1/webhook").await.ok();
    merchant.service.revoke(merchant.key_id).await;
    let refused = merchant.get("/v1/webhook").await.status;
    assert!([401, 429].contains(&refused), "{refused}");
}

async fn wrong_keys_behind_a_proxy_cost_their_source_alone(mut setup: Setup) {
    setup.limits.guessing = Guessing { per_second: NonZeroU32::new(1), burst: NonZeroU32::new(5).unwrap() };
    setup.server.proxies = Proxies::new(&["127.0.0.0/8".parse().unwrap()]);
    let service = setup.start().await;
    let guess = async |source: &str, number: u8| {
        let ask = service.ask("GET", "/v1/webhook").header("x-forwarded-for", source);
        ask.header("authorization", &wrong_key(number)).send().await
    };
    let mut last = guess("192.0.2.1", 0).await;
    for number in 1..100 {
        if last.status == 429 {
            break;
        }
        last = guess("192.0.2.1", number).await;
    }
    last.refused(429, "locked");
    for number in 0..5 {
        assert_unauthorized(&guess("192.0.2.2", number).await, "its own guesses");
    }
}

/// It costs no look into the database, so it costs no guess.
async fn what_is_no_key_is_always_a_401(mut setup: Setup) {
    setup.limits.guessing = Guessing { per_second: NonZeroU32::new(1), burst: NonZeroU32::MIN };
    let service = setup.start().await;
    for _ in 0..10 {
        let ask = || service.ask("GET", "/v1/webhook");
        assert_unauthorized(&ask().send().await, "none");
        assert_unauthorized(&ask().header("authorization", "Bearer nonsense").send().await, "no key");
    }
}
