//! The contract check can fail, and the contract is complete.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{COMMITTED, Contract};
use crate::answer::Answer;
use crate::service::Setup;

on_both_stores! { the_document_is_served_as_it_is_committed }

fn document() -> Value {
    serde_json::from_str(COMMITTED).expect("openapi.json is JSON")
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &Value) -> Answer {
    let mut all = HeaderMap::new();
    let every = [
        ("x-request-id", "0190d3c4-7c00-7000-8000-0000000000ab"),
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("content-type", "application/json"),
    ];
    for (name, value) in every.iter().chain(headers) {
        all.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    Answer { status, headers: all, text: body.to_string() }
}

const ERROR: [(&str, &str); 2] = [("content-language", "en"), ("vary", "Accept-Language")];

fn configuration() -> Answer {
    answer(200, &[], &json!({ "webhook_url": null, "webhook_secret_set": false }))
}

fn invalid() -> Answer {
    let fields = json!([{ "field": "limit", "code": "validation_failed" }]);
    let error = json!({ "code": "validation_failed", "message": "No.", "fields": fields });
    answer(422, &ERROR, &json!({ "error": error }))
}

fn found(document: Value, method: &str, path: &str, answer: &Answer) -> String {
    Contract::new(document).violations(method, path, answer).join("\n")
}

#[test]
fn good_answers_pass() {
    assert_eq!(found(document(), "GET", "/v1/webhook", &configuration()), "");
    assert_eq!(found(document(), "GET", "/v1/settlements?limit=0", &invalid()), "");
}

#[test]
fn an_error_that_the_document_does_not_list_is_found() {
    let mut doctored = document();
    let responses = &mut doctored["paths"]["/v1/settlements"]["get"]["responses"];
    responses.as_object_mut().unwrap().remove("422");
    let violations = found(doctored, "GET", "/v1/settlements", &invalid());
    assert_eq!(violations, "status 422 is not documented");
}

#[test]
fn a_code_that_the_document_does_not_show_is_found() {
    let mut doctored = document();
    let response = &mut doctored["paths"]["/v1/settlements"]["get"]["responses"]["422"];
    response["content"]["application/json"]["examples"] = json!({});
    let violations = found(doctored, "GET", "/v1/settlements", &invalid());
    assert_eq!(violations, "the code \"validation_failed\" is not documented for status 422");
}

#[test]
fn a_body_that_the_schema_does_not_allow_is_found() {
    let mut doctored = document();
    doctored["components"]["schemas"]["WebhookConfiguration"]["properties"]["webhook_secret_set"] =
        json!({ "type": "integer" });
    assert!(found(doctored, "GET", "/v1/webhook", &configuration()).contains("/webhook_secret_set"));

    let missing = answer(200, &[], &json!({ "webhook_url": null }));
    assert!(found(document(), "GET", "/v1/webhook", &missing).contains("webhook_secret_set"));
    let body = json!({ "webhook_url": null, "webhook_secret_set": false, "webhook_secret": "hush" });
    let surplus = answer(200, &[], &body);
    assert!(found(document(), "GET", "/v1/webhook", &surplus).contains("webhook_secret"));
}

#[test]
fn formats_are_checked() {
    let schema = json!({ "type": "string", "format": "date-time" });
    let contract = Contract::new(document());
    assert!(!contract.schema_violations(&schema, "\"yesterday\"").is_empty());
    assert!(contract.schema_violations(&schema, "\"2026-02-01T12:00:00.000001+00:00\"").is_empty());
    let schema = json!({ "type": "string", "format": "uuid" });
    assert!(!contract.schema_violations(&schema, "\"7\"").is_empty());
}

#[test]
fn a_missing_header_is_found() {
    for name in ["x-request-id", "cache-control", "content-type", "content-language", "vary"] {
        let mut without = invalid();
        without.headers.remove(name);
        assert!(found(document(), "GET", "/v1/settlements", &without).contains(name), "{name}");
    }
    let mut version_4 = configuration();
    let id = HeaderValue::from_static("f47ac10b-58cc-4372-a567-0e02b2c3d479");
    version_4.headers.insert("x-request-id", id);
    assert!(found(document(), "GET", "/v1/webhook", &version_4).contains("x-request-id"));
    let mut doctored = document();
    doctored["paths"]["/v1/webhook"]["get"]["responses"]["200"]["headers"]["ETag"] = json!({});
    assert!(found(doctored, "GET", "/v1/webhook", &configuration()).contains("ETag"));
}

#[test]
fn an_error_outside_the_envelope_is_found() {
    for body in [
        json!({ "message": "No." }),
        json!({ "error": { "code": "not_found" } }),
        json!({ "error": { "code": "not_found", "message": "No.", "fields": null } }),
        json!({ "error": { "code": "not_found", "message": "No.", "cause": "SQL" } }),
        json!({ "error": { "code": "not_found", "message": "No." }, "stack": [] }),
        json!({ "error": { "code": "validation_failed", "message": "No." } }),
        json!({ "error": { "code": "validation_failed", "message": "No.", "fields": [] } }),
    ] {
        let answer = answer(404, &ERROR, &body);
        assert_ne!(found(document(), "GET", "/v1/nothing", &answer), "", "{body}");
    }
}

#[test]
fn a_success_on_a_path_or_method_that_is_not_documented_is_found() {
    let answer = configuration();
    assert_ne!(found(document(), "GET", "/v1/nothing", &answer), "");
    assert_ne!(found(document(), "DELETE", "/v1/webhook", &answer), "");
}

/// The table of operations, by name.
#[test]
fn the_six_operations_of_the_specification_are_documented_and_no_other() {
    let operations = Contract::committed().operations();
    let mut found: Vec<String> =
        operations.iter().map(|operation| format!("{} {}", operation.method, operation.template)).collect();
    found.sort();
    let expected = [
        "GET /v1/settlements",
        "GET /v1/webhook",
        "GET /v1/webhook/deliveries",
        "POST /v1/webhook/deliveries/{delivery_id}/redeliver",
        "POST /v1/webhook/test",
        "PUT /v1/webhook",
    ];
    assert_eq!(found, expected);
}

/// The enumeration of codes: both places together have all 47.
#[test]
fn the_47_codes_of_the_specification_are_documented_and_no_other() {
    let codes: Value = serde_json::from_str(include_str!("../../../../domain/tests/data/error_codes.json"))
        .expect("error_codes.json is JSON");
    let mut expected: Vec<&str> =
        codes["codes"].as_array().unwrap().iter().map(|row| row["code"].as_str().unwrap()).collect();
    let document = document();
    let error = &document["components"]["schemas"]["Error"]["properties"]["error"]["properties"];
    let (top, field) = (&error["code"], &error["fields"]["items"]["properties"]["code"]);
    let mut found: Vec<&str> = [top, field]
        .iter()
        .flat_map(|schema| schema["enum"].as_array().unwrap())
        .map(|code| code.as_str().unwrap())
        .collect();
    expected.sort_unstable();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 47);
    assert_eq!(found, expected);
}

async fn the_document_is_served_as_it_is_committed(setup: Setup) {
    let served = setup.start().await.ask("GET", "/openapi.json").send().await;
    assert_eq!(served.status, 200);
    assert_eq!(served.header("content-type"), Some("application/json"));
    assert_eq!(served.text, COMMITTED, "write it anew: settle openapi > openapi.json");
}
