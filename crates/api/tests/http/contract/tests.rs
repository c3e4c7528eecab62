//! The contract check can fail, and the contract is complete.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::{COMMITTED, COMMITTED_FOR_OPERATORS, Contract};
use crate::answer::Answer;
use crate::operator::{Listener, parts};
use crate::service::Setup;

on_both_stores! {
    the_document_is_served_as_it_is_committed,
    the_operators_document_is_served_as_it_is_committed,
}

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
#[should_panic(expected = "a schema of the document can be used")]
fn a_schema_that_the_document_does_not_have_is_found() {
    let mut doctored = document();
    doctored["components"]["schemas"].as_object_mut().expect("schemas").remove("WebhookConfiguration");
    found(doctored, "GET", "/v1/webhook", &configuration());
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

#[test]
fn the_operators_operations_are_documented_and_no_other() {
    let operations = Contract::with_operators().operations();
    let mut found: Vec<String> =
        operations.iter().map(|operation| format!("{} {}", operation.method, operation.template)).collect();
    found.sort();
    let expected = [
        "DELETE /operator/v1/merchants/{merchant_id}/keys/{key_id}",
        "GET /healthz",
        "GET /metrics",
        "GET /operator/v1/ledger/balances",
        "GET /operator/v1/ledger/reports",
        "GET /operator/v1/ledger/reports/{report_id}/findings",
        "GET /operator/v1/merchants",
        "GET /operator/v1/merchants/{merchant_id}/corridors",
        "GET /operator/v1/merchants/{merchant_id}/corridors/{incoming}/{outgoing}",
        "GET /operator/v1/merchants/{merchant_id}/keys",
        "GET /operator/v1/merchants/{merchant_id}/payments/{payment_id}",
        "GET /operator/v1/payments",
        "GET /operator/v1/proposals",
        "GET /operator/v1/providers",
        "GET /operator/v1/providers/{name}",
        "GET /readyz",
        "POST /operator/v1/merchants",
        "POST /operator/v1/merchants/{merchant_id}/keys",
        "POST /operator/v1/merchants/{merchant_id}/payments/{payment_id}/cancel",
        "POST /operator/v1/merchants/{merchant_id}/payments/{payment_id}/refund",
        "POST /operator/v1/merchants/{merchant_id}/payments/{payment_id}/resolve",
        "POST /operator/v1/merchants/{merchant_id}/payments/{payment_id}/retry",
        "POST /operator/v1/merchants/{merchant_id}/payments/{payment_id}/returned",
        "POST /operator/v1/payments",
        "POST /operator/v1/payments/retry",
        "POST /operator/v1/proposals/{proposal_id}/approve",
        "POST /operator/v1/providers/{name}/callback",
        "POST /operator/v1/settlements",
        "PUT /operator/v1/merchants/{merchant_id}/corridors/{incoming}/{outgoing}",
        "PUT /operator/v1/providers/{name}",
    ];
    assert_eq!(found, expected);
}

/// The enumeration of codes: both places have all 47, and both take any other, for a code may be added.
#[test]
fn the_47_codes_of_the_specification_are_documented_and_no_other() {
    let codes: Value = serde_json::from_str(include_str!("../../../../domain/tests/data/error_codes.json"))
        .expect("error_codes.json is JSON");
    let mut expected: Vec<&str> =
        codes["codes"].as_array().unwrap().iter().map(|row| row["code"].as_str().unwrap()).collect();
    let document = document();
    let schemas = &document["components"]["schemas"];
    let set = json!({ "$ref": "#/components/schemas/ErrorCode" });
    for place in ["ErrorBody", "FieldError"] {
        assert_eq!(schemas[place]["properties"]["code"], set, "{place}");
    }
    let open = json!([{ "$ref": "#/components/schemas/KnownErrorCode" }, { "type": "string" }]);
    assert_eq!(schemas["ErrorCode"]["anyOf"], open);
    let known = schemas["KnownErrorCode"]["enum"].as_array().unwrap();
    let mut found: Vec<&str> = known.iter().map(|code| code.as_str().unwrap()).collect();
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found.len(), 47);
    assert_eq!(found, expected);
}

/// A merchant never sees what operators earn, in whichever answer and wherever in it; operators do.
#[test]
fn what_operators_earn_is_found_wherever_it_stands() {
    for (internal, name) in [
        (json!({ "provider_rate": "5.3" }), "provider_rate"),
        (json!({ "pricing": null }), "pricing"),
        (json!({ "rows": [{ "inner": { "spread_revenue": "1" } }] }), "spread"),
        (json!({ "partner": "acme" }), "\"partner\""),
        (json!("the Commission is 7"), "commission"),
    ] {
        for (status, path) in
            [(200, "/v1/settlements"), (500, "/v1/webhook"), (404, "/nowhere"), (200, "/docs")]
        {
            let seen = found(document(), "GET", path, &answer(status, &[], &internal));
            assert!(seen.contains(&format!("a merchant sees {name}")), "{path}: {seen}");
        }
        let seen =
            Contract::with_operators().violations("GET", "/operator/v1/x", &answer(404, &[], &internal));
        assert!(!seen.join("\n").contains("a merchant sees"), "{seen:?}");
    }
    let header =
        answer(200, &[("x-spread", "1")], &json!({ "webhook_url": null, "webhook_secret_set": false }));
    assert!(found(document(), "GET", "/v1/webhook", &header).contains("a merchant sees spread"));
}

/// Clients survive a code that is new, but this service has none.
#[test]
fn a_code_that_nobody_knows_is_found() {
    let fields = json!([{ "field": "limit", "code": "invented" }]);
    let error = json!({ "code": "validation_failed", "message": "No.", "fields": fields });
    let invented = answer(422, &ERROR, &json!({ "error": error }));
    assert!(found(document(), "GET", "/v1/settlements", &invented).contains("invented"));
}

/// Generators name a type after its schema; an object without a name gets an invented one.
#[test]
fn every_object_has_a_name() {
    for document in [COMMITTED, COMMITTED_FOR_OPERATORS] {
        let document: Value = serde_json::from_str(document).expect("JSON");
        let mut found = Vec::new();
        for part in ["paths", "webhooks"] {
            nameless(part, &document[part], &mut found);
        }
        for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
            for (key, inner) in schema.as_object().expect("a schema") {
                nameless(&format!("{name}/{key}"), inner, &mut found);
            }
        }
        assert_eq!(found, Vec::<String>::new());
    }
}

/// Where schemas of objects stand that are not references.
fn nameless(place: &str, part: &Value, found: &mut Vec<String>) {
    match part {
        Value::Object(object) => {
            if object.get("properties").is_some_and(|properties| properties.get("type").is_none()) {
                found.push(place.to_owned());
            }
            object.iter().for_each(|(key, inner)| nameless(&format!("{place}/{key}"), inner, found));
        }
        Value::Array(parts) => parts.iter().for_each(|inner| nameless(place, inner, found)),
        _ => {}
    }
}

/// The table of events: four headers that are always there, and the body with every field of the record.
#[test]
fn the_notification_of_the_specification_is_documented() {
    let document = document();
    let sent = &document["webhooks"]["settlementCompleted"]["post"];
    let headers = sent["parameters"].as_array().expect("headers");
    let required = headers.iter().filter(|header| header["required"] == true && header["in"] == "header");
    let names: Vec<&str> = required.map(|header| header["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["service-signature", "service-timestamp", "service-event", "service-delivery-id"]);
    let body = &sent["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body, &json!({ "$ref": "#/components/schemas/SettlementNotification" }));
    assert_eq!(sent["security"], json!([]), "a receiver has no key of ours");
    let schemas = &document["components"]["schemas"];
    let mut expected = schemas["Settlement"].clone();
    let event = schemas["SettlementNotification"]["properties"]["event"].clone();
    assert_eq!(event["type"], "string");
    expected["properties"]["event"] = event;
    expected["required"].as_array_mut().unwrap().insert(0, json!("event"));
    for part in ["properties", "required"] {
        assert_eq!(schemas["SettlementNotification"][part], expected[part]);
    }
}

/// Null is where the tables of the specification say so, and in the test delivery result, of which they say
/// nothing.
#[test]
fn what_can_be_null_is_what_the_specification_says() {
    let document = document();
    let mut nullable = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            if property["type"].as_array().is_some_and(|types| types.contains(&json!("null"))) {
                nullable.push(format!("{name}.{field}"));
            }
        }
    }
    nullable.sort();
    let settlement = ["completed_at", "fee_percentage_amount", "outgoing_amount", "payout_reference"];
    let of = |name: &str| settlement.map(|field| format!("{name}.{field}"));
    let mut expected = ["ErrorBody.fields".to_owned()].to_vec();
    expected.extend(of("Settlement"));
    expected.extend(of("SettlementNotification"));
    expected.extend(["TestDeliveryResult.error", "TestDeliveryResult.status"].map(str::to_owned));
    expected.extend(
        ["WebhookConfiguration.webhook_url", "WebhookConfigurationRequest.webhook_url"].map(str::to_owned),
    );
    expected.extend(
        ["delivered_at", "last_error", "response_status"].map(|field| format!("WebhookDelivery.{field}")),
    );
    assert_eq!(nullable, expected);
}

#[test]
fn a_document_names_no_host() {
    for document in [COMMITTED, COMMITTED_FOR_OPERATORS] {
        let document: Value = serde_json::from_str(document).expect("JSON");
        assert_eq!(document["servers"], json!([{ "url": "/" }]));
    }
}

async fn the_document_is_served_as_it_is_committed(setup: Setup) {
    let served = setup.start().await.ask("GET", "/openapi.json").send().await;
    assert_eq!(served.status, 200);
    assert_eq!(served.header("content-type"), Some("application/json"));
    assert_eq!(served.text, COMMITTED, "write it anew: settle openapi > openapi.json");
}

async fn the_operators_document_is_served_as_it_is_committed(setup: Setup) {
    let listener = Listener::start(parts(setup.into_scratch().share())).await;
    let served = listener.get("/openapi.json").await;
    assert_eq!(served.status, 200);
    assert_eq!(served.header("content-type"), Some("application/json"));
    assert_eq!(
        served.text, COMMITTED_FOR_OPERATORS,
        "write it anew: settle openapi --operator > operator-openapi.json"
    );
}
