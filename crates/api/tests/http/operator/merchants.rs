//! `/operator/v1/merchants`.

use serde_json::{Value, json};
use uuid::Uuid;

use super::client::{OperatorClient, details, send};
use crate::service::{NOW, Setup};

on_both_stores! {
    a_merchant_is_added,
    merchants_are_listed_page_by_page,
    bad_values_are_named_and_nothing_is_added,
    what_cannot_be_read_is_refused,
    bad_pages_are_named,
}

pub const MERCHANTS: &str = "/operator/v1/merchants";

async fn names(client: &OperatorClient) -> Vec<String> {
    let page = client.call("GET", MERCHANTS, None).await.ok();
    let name = |merchant: &Value| merchant["name"].as_str().expect("a name").to_owned();
    page["merchants"].as_array().expect("a list").iter().map(name).collect()
}

async fn a_merchant_is_added(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let created = client.call("POST", MERCHANTS, Some(&json!({ "name": " Café Ñandú " }))).await.ok();
    assert_eq!((&created["name"], &created["created_at"]), (&json!("Café Ñandú"), &json!(NOW)));
    let id = Uuid::try_parse(created["merchant_id"].as_str().unwrap()).unwrap();
    assert_eq!(id.get_version_num(), 7);
    let page = client.call("GET", MERCHANTS, None).await.ok();
    assert_eq!(page, json!({ "merchants": [created], "limit": 50, "next_after": null }));
}

async fn merchants_are_listed_page_by_page(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    for number in 0..5 {
        client.call("POST", MERCHANTS, Some(&json!({ "name": format!("shop {number}") }))).await.ok();
    }
    let mut seen = Vec::new();
    let mut path = format!("{MERCHANTS}?limit=2");
    loop {
        let page = client.call("GET", &path, None).await.ok();
        assert_eq!(page["limit"], 2);
        let merchants = page["merchants"].as_array().unwrap();
        seen.push(merchants.len());
        let Some(after) = page["next_after"].as_str() else { break };
        assert_eq!(merchants.last().unwrap()["merchant_id"], after);
        path = format!("{MERCHANTS}?limit=2&after={after}");
    }
    assert_eq!(seen, [2, 2, 1]);
    let all = client.call("GET", &format!("{MERCHANTS}?limit=5"), None).await.ok();
    assert_eq!(all["next_after"], Value::Null, "the last page is full, and the last");
    assert_eq!(names(&client).await.len(), 5);
}

async fn bad_values_are_named_and_nothing_is_added(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    for (body, expected) in [
        (json!({}), vec!["name: is required"]),
        (json!({ "name": null }), vec!["name: is required"]),
        (json!({ "name": 7 }), vec!["name: must be a string"]),
        (json!({ "name": " " }), vec!["name: is empty"]),
        (json!({ "name": "a\nb" }), vec!["name: contains a control character"]),
        (json!({ "name": "x".repeat(201) }), vec!["name: is longer than 200 bytes"]),
        (json!({ "nam": "x" }), vec!["name: is required", "nam: is not a field of a merchant"]),
        (json!({ "name": "x", "id": 1 }), vec!["id: is not a field of a merchant"]),
    ] {
        let refused = client.call("POST", MERCHANTS, Some(&body)).await;
        assert_eq!(details(&refused, 422, "admin_validation_failed"), expected, "{body}");
    }
    assert_eq!(names(&client).await, Vec::<String>::new());
}

async fn what_cannot_be_read_is_refused(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let ask = || client.ask("POST", MERCHANTS).header("authorization", &format!("Bearer {}", client.token));
    for body in ["", "[]", "\"x\"", "{", "{\"name\":\"x\",\"name\":\"x\"}"] {
        send(ask().body(body)).await.refused(400, "invalid_body");
    }
    send(ask().header("content-type", "text/plain").body("{}")).await.refused(415, "invalid_body");
    let long = json!({ "name": "x".repeat(64 * 1_024) });
    send(ask().json(&long)).await.refused(413, "invalid_body");
    assert_eq!(names(&client).await, Vec::<String>::new());
}

async fn bad_pages_are_named(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let refused = client.call("GET", &format!("{MERCHANTS}?limit=0&after=7"), None).await;
    let expected = [
        "limit: is a number from 1 to 200, given once",
        "after: not a uuid such as 0190d3c4-7c00-7000-8000-000000000000",
    ];
    assert_eq!(details(&refused, 422, "admin_validation_failed"), expected);
}
