//! `/operator/v1/payments`: what operators hand in, and what they say of a payment.

use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{OperatorClient, details};
use crate::service::Setup;

on_both_stores! {
    an_amount_that_would_fill_the_books_is_refused,
    what_an_operator_says_is_short_and_harmless,
    a_provider_that_this_process_does_not_know_is_named,
    whoever_gives_something_else_is_told_what_is_expected,
    a_retry_takes_every_filter_of_the_list,
}

const PAYMENTS: &str = "/operator/v1/payments";
const OPERATORS_DOCUMENT: &str = include_str!("../../../../../operator-openapi.json");

/// One merchant's amount that no balance could hold twice: it is named, and spoils nobody's books.
async fn an_amount_that_would_fill_the_books_is_refused(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let (ours, other) = (client.service.merchant().await, client.service.merchant().await);
    let payment = |merchant: Uuid, reference: &str, amount: &str| {
        json!({
            "merchant_id": merchant.to_string(), "payin_reference": reference, "incoming_currency": "BRL",
            "incoming_amount": amount, "outgoing_currency": "USDC", "destination_reference": "wallet",
        })
    };
    let huge = format!("{}.99", "9".repeat(36));
    let largest = format!("{}.99", "9".repeat(28));
    let spoilt = json!([payment(ours.id.0, "pix 1", "10.00"), payment(other.id.0, "pix 2", &huge)]);
    let refused = client.call("POST", PAYMENTS, Some(&spoilt)).await;
    let expected = format!("[1].incoming_amount: must be at most {largest}");
    assert_eq!(details(&refused, 422, "admin_validation_failed"), [expected]);
    for (small, large) in [("pix 3", "pix 4"), ("pix 5", "pix 6")] {
        let taken = json!([payment(ours.id.0, small, "10.00"), payment(other.id.0, large, &largest)]);
        let taken = client.call("POST", PAYMENTS, Some(&taken)).await.ok();
        assert_eq!(taken["payments"].as_array().map(Vec::len), Some(2), "{taken}");
    }
    client.call("GET", "/operator/v1/ledger/balances", None).await.ok();
}

/// The service under test has no providers.
async fn a_provider_that_this_process_does_not_know_is_named(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await.id;
    let words = "this process does not know provider bank: the one that runs the engine needs \
                 SETTLE_PROVIDERS__BANK__URL and SETTLE_PROVIDERS__BANK__SECRET";
    let corridor = json!({ "fee_percentage": "1.5", "fee_fixed": "0.25", "provider": "bank" });
    let path = format!("/operator/v1/merchants/{merchant}/corridors/BRL/USDC");
    let set = client.call("PUT", &path, Some(&corridor)).await.ok();
    assert_eq!((&set["version"], &set["warning"]), (&json!(1), &json!(words)), "{set}");
    assert_eq!(set["made_by_name"], "Ada");
    let versions = client.call("GET", &path, None).await.ok();
    assert_eq!(versions["versions"][0].get("warning"), None, "{versions}");
    let payment = json!({
        "merchant_id": merchant.to_string(), "payin_reference": "pix 1", "incoming_currency": "BRL",
        "incoming_amount": "10.00", "outgoing_currency": "USDC", "destination_reference": "wallet",
    });
    let created = client.call("POST", PAYMENTS, Some(&payment)).await.ok();
    let id = created["payments"][0]["payment_id"].as_str().expect("an id").to_owned();
    let shown =
        client.call("GET", &format!("/operator/v1/merchants/{merchant}/payments/{id}"), None).await.ok();
    assert_eq!((&shown["state"], &shown["obstacle"]), (&json!("received"), &json!(words)), "{shown}");
    assert_eq!(shown["timeline"][0]["by_name"], "Ada");
}

async fn what_an_operator_says_is_short_and_harmless(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let nowhere = format!("/operator/v1/merchants/{}/payments/{}", Uuid::from_u128(7), Uuid::from_u128(8));
    let resolve = json!({ "version": "1", "evidence": "the bank's\nstatement", "outcome": "paid" });
    let retry = json!({ "version": "1", "evidence": "I asked" });
    let all = json!({ "dry_run": true });
    let of_payment = |verb: &str| format!("{nowhere}/{verb}");
    let long = "a".repeat(3_000);
    for (path, body, field) in [
        (of_payment("resolve"), &resolve, "provider_reference"),
        (of_payment("retry"), &retry, "destination_reference"),
    ] {
        for (text, problem) in [
            ("", "is required"),
            (&long, "is longer than 512 bytes"),
            ("a\0b", "contains a control character"),
            ("a\u{1b}[2Jb", "contains a control character"),
        ] {
            assert_named(&client, &path, body, (field, text), problem).await;
        }
    }
    let very_long = "a".repeat(5_000);
    for (path, body) in [
        (of_payment("resolve"), &resolve),
        (of_payment("refund"), &retry),
        (format!("{PAYMENTS}/retry"), &all),
    ] {
        for (text, problem) in [
            (" ", "is required"),
            (&very_long, "is longer than 4096 bytes"),
            ("a\u{1b}[2Jb", "contains a control character"),
        ] {
            assert_named(&client, &path, body, ("evidence", text), problem).await;
        }
    }
    // What is well said is only of no payment.
    client.call("POST", &of_payment("resolve"), Some(&resolve)).await.refused(404, "not_found");
}

async fn whoever_gives_something_else_is_told_what_is_expected(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await.id;
    let payment = format!("/operator/v1/merchants/{merchant}/payments/{}", Uuid::from_u128(8));
    let corridor = format!("/operator/v1/merchants/{merchant}/corridors/BRL/USDC");
    let age = "older_than: must be a duration such as 15m, or a number of seconds";
    let version = "version: must be a whole number, such as 3";
    let alert_after = "alert_after_seconds: must be a whole number of seconds, such as 900";
    let terms = json!({ "fee_percentage": "1.5", "fee_fixed": "0.25", "provider": "bank" });
    for value in [json!("new"), json!(-1), json!(1.5), json!(true), json!([])] {
        let given = |body: Value, field: &str| {
            let mut body = body;
            body[field] = value.clone();
            body
        };
        for (method, path, body, expected) in [
            ("POST", format!("{PAYMENTS}/retry"), given(json!({ "dry_run": true }), "older_than"), age),
            (
                "POST",
                format!("{payment}/cancel"),
                given(json!({ "evidence": "I asked" }), "version"),
                version,
            ),
            ("PUT", corridor.clone(), given(terms.clone(), "alert_after_seconds"), alert_after),
        ] {
            let refused = client.call(method, &path, Some(&body)).await;
            assert_eq!(details(&refused, 422, "admin_validation_failed"), [expected], "{body}");
        }
    }
    let listed = client.call("GET", &format!("{PAYMENTS}?older_than=old"), None).await;
    assert_eq!(details(&listed, 422, "admin_validation_failed"), [age]);
    for good in [json!("15m"), json!("900"), json!(900)] {
        let body = json!({ "dry_run": true, "older_than": good });
        client.call("POST", &format!("{PAYMENTS}/retry"), Some(&body)).await.ok();
    }
    client.call("GET", &format!("{PAYMENTS}?older_than=1h30m"), None).await.ok();
    let refused = client.call("POST", PAYMENTS, Some(&json!({ "payin_source": "" }))).await;
    let mut named = details(&refused, 422, "admin_validation_failed");
    named.truncate(3);
    let missing = ["merchant_id", "payin_reference", "payin_source"];
    assert_eq!(named, missing.map(|field| format!("{field}: is required")), "each once");
}

/// Whatever narrows the list down narrows a retry down, and what is wrong is named in the same words.
async fn a_retry_takes_every_filter_of_the_list(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await.id;
    let place = format!("{merchant}.{}", Uuid::from_u128(8));
    let retry = format!("{PAYMENTS}/retry");
    let document: Value = serde_json::from_str(OPERATORS_DOCUMENT).expect("JSON");
    let listed = &document["paths"][PAYMENTS]["get"]["parameters"];
    let listed = listed.as_array().expect("parameters").iter();
    for parameter in listed.filter(|parameter| parameter["in"] == "query") {
        let name = parameter["name"].as_str().expect("a name");
        let (good, wrong) = match name {
            "state" => ("failed", "lost"),
            "flag" => ("astray", "lost"),
            "merchant_id" => (&*merchant.to_string(), "nobody"),
            "blocked" => ("provider_unavailable", "lost"),
            "reason" => ("payout_refused", "lost"),
            "provider" => ("bank", "Not A Name!"),
            "reference" => ("pix 1", ""),
            "older_than" => ("15m", "old"),
            "limit" => ("7", "0"),
            "after" => (&*place, "nowhere"),
            other => panic!("{other} is a filter of the list: what is it to a retry?"),
        };
        let body = json!({ name: good, "dry_run": true });
        let found = client.call("POST", &retry, Some(&body)).await.ok();
        assert_eq!(
            found,
            json!({ "payments": [], "refused": [], "more": false, "next_after": null }),
            "{name}"
        );
        if !wrong.is_empty() {
            let body = json!({ name: wrong, "dry_run": true });
            let refused = client.call("POST", &retry, Some(&body)).await;
            let named = details(&refused, 422, "admin_validation_failed");
            assert!(named.len() == 1 && named[0].starts_with(&format!("{name}: ")), "{named:?}");
        }
    }
    let refused = client.call("POST", &retry, Some(&json!({ "limit": 1_001 }))).await;
    let expected = "limit: must be a number from 1 to 1000";
    assert_eq!(details(&refused, 422, "admin_validation_failed"), [expected]);
}

/// The body with one field replaced is refused, and the field is named.
async fn assert_named(
    client: &OperatorClient,
    path: &str,
    body: &Value,
    (field, text): (&str, &str),
    problem: &str,
) {
    let mut body = body.clone();
    body[field] = Value::from(text);
    let refused = client.call("POST", path, Some(&body)).await;
    let named = details(&refused, 422, "admin_validation_failed");
    assert_eq!(named, [format!("{field}: {problem}")], "{path} {text:?}");
}
