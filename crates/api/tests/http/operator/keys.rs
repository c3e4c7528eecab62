//! `/operator/v1/merchants/{merchant_id}/keys`.

use serde_json::{Value, json};

use super::client::{OperatorClient, details};
use super::merchants::MERCHANTS;
use crate::privacy::capture;
use crate::service::{NOW, Setup};

on_both_stores! {
    a_key_is_made_and_works,
    a_key_is_shown_once,
    keys_are_listed_page_by_page,
    a_revocation_holds_from_the_next_request_on,
    another_merchants_key_is_a_404,
    an_unknown_merchant_is_a_404,
    bad_values_are_named_and_nothing_is_made,
    the_log_says_who_did_it_and_no_key,
}

const NOBODY: &str = "0190d3c4-7c00-7000-8000-00000000dead";

/// A new merchant's keys.
async fn keys_of_new_merchant(client: &OperatorClient) -> String {
    let merchant = client.call("POST", MERCHANTS, Some(&json!({ "name": "Acme" }))).await.ok();
    format!("{MERCHANTS}/{}/keys", merchant["merchant_id"].as_str().expect("an id"))
}

async fn create(client: &OperatorClient, keys: &str, label: Value) -> Value {
    client.call("POST", keys, Some(&json!({ "label": label }))).await.ok()
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object[field].as_str().unwrap_or_else(|| panic!("{field}: {object}"))
}

/// What the merchant API says to a key.
async fn answered(client: &OperatorClient, key: &str) -> u16 {
    let ask = client.service.ask("GET", "/v1/webhook").header("authorization", &format!("Bearer {key}"));
    ask.send().await.status
}

async fn a_key_is_made_and_works(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let keys = keys_of_new_merchant(&client).await;
    let created = create(&client, &keys, json!(" till 7 ")).await;
    assert!(keys.contains(text(&created, "merchant_id")));
    assert_eq!((&created["label"], &created["created_at"]), (&json!("till 7"), &json!(NOW)));
    assert_eq!(answered(&client, text(&created, "api_key")).await, 200);
    let unlabelled = client.call("POST", &keys, Some(&json!({}))).await.ok();
    assert_eq!(unlabelled["label"], Value::Null);
    assert_ne!(unlabelled["api_key"], created["api_key"]);
}

async fn a_key_is_shown_once(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let keys = keys_of_new_merchant(&client).await;
    let created = create(&client, &keys, json!("till 7")).await;
    let api_key = text(&created, "api_key");
    let page = client.call("GET", &keys, None).await;
    assert!(!page.text.contains(api_key), "{}", page.text);
    let mut listed = created.clone();
    let listed = listed.as_object_mut().unwrap();
    listed.remove("api_key");
    listed.insert("last_four".to_owned(), json!(api_key[api_key.len() - 4..]));
    listed.insert("revoked_at".to_owned(), Value::Null);
    assert_eq!(page.ok(), json!({ "keys": [listed], "limit": 50, "next_after": null }));
}

async fn keys_are_listed_page_by_page(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let (keys, others) = (keys_of_new_merchant(&client).await, keys_of_new_merchant(&client).await);
    for _ in 0..3 {
        create(&client, &keys, Value::Null).await;
    }
    create(&client, &others, Value::Null).await;
    let first = client.call("GET", &format!("{keys}?limit=2"), None).await.ok();
    assert_eq!(first["keys"].as_array().unwrap().len(), 2);
    let after = text(&first, "next_after");
    let second = client.call("GET", &format!("{keys}?limit=2&after={after}"), None).await.ok();
    assert_eq!((second["keys"].as_array().unwrap().len(), &second["next_after"]), (1, &Value::Null));
    let refused = client.call("GET", &format!("{keys}?after="), None).await;
    details(&refused, 422, "admin_validation_failed");
}

async fn a_revocation_holds_from_the_next_request_on(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let keys = keys_of_new_merchant(&client).await;
    let (lost, kept) = (create(&client, &keys, Value::Null).await, create(&client, &keys, Value::Null).await);
    let path = format!("{keys}/{}", text(&lost, "key_id"));
    assert_eq!(answered(&client, text(&lost, "api_key")).await, 200);
    let revoked = client.call("DELETE", &path, None).await.ok();
    assert_eq!((&revoked["key_id"], &revoked["revoked_at"]), (&lost["key_id"], &json!(NOW)));
    assert_eq!(answered(&client, text(&lost, "api_key")).await, 401);
    assert_eq!(answered(&client, text(&kept, "api_key")).await, 200);
    assert_eq!(client.call("DELETE", &path, None).await.ok(), revoked, "again changes nothing");
    let page = client.call("GET", &keys, None).await.ok();
    let listed = page["keys"].as_array().unwrap();
    assert!(listed.len() == 2 && listed.contains(&revoked), "{page}");
}

async fn another_merchants_key_is_a_404(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let (keys, others) = (keys_of_new_merchant(&client).await, keys_of_new_merchant(&client).await);
    let created = create(&client, &keys, Value::Null).await;
    for path in [
        format!("{others}/{}", text(&created, "key_id")),
        format!("{keys}/{NOBODY}"),
        format!("{keys}/7"),
        format!("{MERCHANTS}/7/keys/{}", text(&created, "key_id")),
    ] {
        client.call("DELETE", &path, None).await.refused(404, "not_found");
    }
    assert_eq!(answered(&client, text(&created, "api_key")).await, 200);
}

async fn an_unknown_merchant_is_a_404(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    for merchant in [NOBODY, "7", "%ff"] {
        let keys = format!("{MERCHANTS}/{merchant}/keys");
        client.call("GET", &keys, None).await.refused(404, "not_found");
        client.call("POST", &keys, Some(&json!({}))).await.refused(404, "not_found");
    }
}

async fn bad_values_are_named_and_nothing_is_made(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let keys = keys_of_new_merchant(&client).await;
    for (body, expected) in [
        (json!({ "label": 7 }), "label: must be a string"),
        (json!({ "label": "" }), "label: is empty"),
        (json!({ "label": "x".repeat(201) }), "label: is longer than 200 bytes"),
        (json!({ "lable": "till 7" }), "lable: is not a field of a key"),
    ] {
        let refused = client.call("POST", &keys, Some(&body)).await;
        assert_eq!(details(&refused, 422, "admin_validation_failed"), [expected], "{body}");
    }
    assert_eq!(client.call("GET", &keys, None).await.ok()["keys"], json!([]));
}

async fn the_log_says_who_did_it_and_no_key(setup: Setup) {
    let (captured, _guard) = capture(tracing::Level::TRACE);
    let client = OperatorClient::start(setup).await;
    let keys = keys_of_new_merchant(&client).await;
    let created = create(&client, &keys, Value::Null).await;
    client.call("DELETE", &format!("{keys}/{}", text(&created, "key_id")), None).await.ok();
    let logged = captured.text();
    for (message, id) in [
        ("merchant added", text(&created, "merchant_id")),
        ("API key made", text(&created, "key_id")),
        ("API key revoked", text(&created, "key_id")),
    ] {
        let line = logged.lines().find(|line| line.contains(message)).expect("a line");
        assert!(line.contains(id) && line.contains(&client.operator_id.to_string()), "{line}");
    }
    assert!(!logged.contains(&text(&created, "api_key")[3..]), "{logged}");
}
