//! `PUT /v1/webhook`: what a body must be, before its fields are checked.

use serde_json::json;

use crate::merchant::Merchant;
use crate::raw::Connection;
use crate::service::Setup;

on_both_stores! {
    an_unreadable_body_is_a_400,
    a_field_of_the_wrong_type_is_a_400,
    unknown_fields_are_ignored,
    a_body_in_which_no_field_is_known_is_a_422,
    a_missing_content_type_is_accepted,
    any_json_content_type_is_accepted,
    another_content_type_is_a_415,
    a_body_of_64_kib_is_read,
    a_longer_announced_body_is_a_413_before_it_is_sent,
    a_longer_chunked_body_is_a_413,
    an_unreadable_body_changes_nothing,
}

const KIB_64: usize = 64 * 1_024;

async fn put(merchant: &Merchant, body: impl Into<Vec<u8>>) -> crate::answer::Answer {
    let ask = merchant.ask("PUT", "/v1/webhook").header("content-type", "application/json");
    ask.body(body).send().await
}

async fn an_unreadable_body_is_a_400(setup: Setup) {
    let merchant = setup.merchant().await;
    let bodies: [(&str, &[u8]); 14] = [
        ("empty", b""),
        ("blank", b" \r\n"),
        ("not JSON", b"webhook_url=x"),
        ("cut off", b"{\"webhook_url\": \"https://merch"),
        ("two documents", b"{}{}"),
        ("a comment", b"{} // clear"),
        ("a trailing comma", b"{\"webhook_url\": null,}"),
        ("an array", b"[]"),
        ("an array of fields", b"[null, \"hush\"]"),
        ("a string", b"\"webhook_url\""),
        ("null", b"null"),
        ("a number", b"7"),
        ("not UTF-8", b"{\"webhook_secret\": \"\xff\xfe\"}"),
        ("a lone surrogate", b"{\"webhook_secret\": \"\\ud800\"}"),
    ];
    for (what, body) in bodies {
        let answer = put(&merchant, body).await;
        assert_eq!(answer.status, 400, "{what}: {}", answer.text);
        answer.refused(400, "invalid_body");
    }
}

/// Request fields `webhook_url` and `webhook_secret`: strings, or null.
async fn a_field_of_the_wrong_type_is_a_400(setup: Setup) {
    let merchant = setup.merchant().await;
    for field in ["webhook_url", "webhook_secret"] {
        for value in [json!(7), json!(true), json!(["x"]), json!({}), json!(0.5)] {
            let answer = put(&merchant, json!({ field: value }).to_string()).await;
            assert_eq!(answer.status, 400, "{field}: {value}: {}", answer.text);
            answer.refused(400, "invalid_body");
        }
    }
}

async fn unknown_fields_are_ignored(setup: Setup) {
    let merchant = setup.merchant().await;
    let body = json!({
        "webhook_url": "https://merchant.example/hook",
        "webhook_secret": "hush",
        "webhook_secret_set": false,
        "Webhook_Url": 7,
        "nested": { "webhook_url": null },
    });
    let set = json!({ "webhook_url": "https://merchant.example/hook", "webhook_secret_set": true });
    assert_eq!(merchant.put("/v1/webhook", &body).await.ok(), set);
}

async fn a_missing_content_type_is_accepted(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.ask("PUT", "/v1/webhook").body("{}").send().await.ok();
}

async fn any_json_content_type_is_accepted(setup: Setup) {
    let merchant = setup.merchant().await;
    for kind in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/merge-patch+json",
    ] {
        merchant.ask("PUT", "/v1/webhook").header("content-type", kind).body("{}").send().await.ok();
    }
}

async fn another_content_type_is_a_415(setup: Setup) {
    let merchant = setup.merchant().await;
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/json", "json", ""]
    {
        let ask = merchant.ask("PUT", "/v1/webhook").header("content-type", kind).body("{}");
        let answer = ask.send().await;
        assert_eq!(answer.status, 415, "{kind}");
        answer.refused(415, "invalid_body");
        let message = answer.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains("application/json"), "{message}");
    }
}

fn padded(length: usize) -> Vec<u8> {
    let mut body = b"{}".to_vec();
    body.resize(length, b' ');
    body
}

async fn a_body_of_64_kib_is_read(setup: Setup) {
    let merchant = setup.merchant().await;
    put(&merchant, padded(KIB_64)).await.ok();
}

fn head(merchant: &Merchant, framing: &str) -> String {
    format!(
        "PUT /v1/webhook HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {}\r\n{framing}\r\n\r\n",
        merchant.key
    )
}

async fn a_longer_announced_body_is_a_413_before_it_is_sent(setup: Setup) {
    let merchant = setup.merchant().await;
    for length in ["65537", "1000000000000"] {
        let mut connection = Connection::open(&merchant.service).await;
        connection.write(head(&merchant, &format!("content-length: {length}"))).await;
        connection.answer("PUT", "/v1/webhook").await.refused(413, "invalid_body");
    }
}

async fn a_longer_chunked_body_is_a_413(setup: Setup) {
    let merchant = setup.merchant().await;
    for (length, status) in [(KIB_64, 200), (KIB_64 + 1, 413)] {
        // Written in one piece: the service may answer and close before it has read the end.
        let mut request = head(&merchant, "transfer-encoding: chunked").into_bytes();
        for chunk in padded(length).chunks(8 * 1_024) {
            request.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            request.extend([chunk, b"\r\n"].concat());
        }
        request.extend(b"0\r\n\r\n");
        let mut connection = Connection::open(&merchant.service).await;
        connection.write(request).await;
        let answer = connection.answer("PUT", "/v1/webhook").await;
        assert_eq!(answer.status, status, "{length}: {}", answer.text);
    }
}

async fn an_unreadable_body_changes_nothing(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    put(&merchant, "{\"webhook_url\": null").await.refused(400, "invalid_body");
    put(&merchant, "{\"webhook_url\": null, \"webhook_secret\": 7}").await.refused(400, "invalid_body");
    assert_eq!(merchant.get("/v1/webhook").await.ok()["webhook_secret_set"], true);
}

/// A misspelt name must not look like success.
async fn a_body_in_which_no_field_is_known_is_a_422(setup: Setup) {
    let merchant = setup.merchant().await;
    for body in [json!({ "webhok_url": "https://hooks.example.com/" }), json!({ "a": 1, "b": null })] {
        let answer = merchant.put("/v1/webhook", &body).await;
        answer.invalid_fields(&[("webhook_url", "required"), ("webhook_secret", "required")]);
    }
}
