//! `PUT /v1/webhook`: the rules of the specification by number, and what each field may hold.

use serde_json::{Value, json};
use settle_domain::delivery::ENDPOINT_CLEARED;
use settle_domain::time::Timestamp;

use crate::merchant::{Merchant, answered, failed};
use crate::service::{NOW, Setup};

on_both_stores! {
    put_rule_1_a_null_or_empty_url_clears_endpoint_and_secret,
    put_rule_1_a_secret_beside_a_clear_is_ignored,
    put_rule_1_clearing_nothing_is_fine,
    put_rule_1_clearing_ends_what_is_pending_and_redeliver_works,
    put_rule_2_a_public_https_address_is_accepted,
    put_rule_2_a_bad_url_is_refused_with_its_code,
    put_rule_2_a_refused_url_changes_nothing,
    put_rule_3_the_first_url_needs_a_secret,
    put_rule_3_after_a_clear_the_next_url_is_the_first_again,
    put_rule_4_a_later_url_change_may_omit_the_secret,
    put_rule_5_a_new_secret_rotates,
    a_secret_without_any_endpoint_is_refused,
    an_empty_object_changes_nothing,
    an_empty_secret_is_required_never_keep,
    a_secret_has_1_to_256_bytes,
    a_secret_has_no_control_characters,
    both_fields_bad_are_two_entries_in_order,
    the_url_is_stored_and_returned_as_sent,
    a_change_does_not_alter_deliveries_enqueued_before,
}

const URL: &str = "https://merchant.example/hook";

async fn put(merchant: &Merchant, body: Value) -> crate::answer::Answer {
    merchant.put("/v1/webhook", &body).await
}

/// The present secret, in plain text.
async fn secret(merchant: &Merchant) -> Option<String> {
    let service = &merchant.service;
    let endpoint = service.store.endpoint_find(merchant.id).await.unwrap()?;
    let secret = service.ring.open(merchant.id, &endpoint.secret).expect("it opens");
    Some(String::from_utf8(secret.as_bytes().to_vec()).unwrap())
}

fn none() -> Value {
    json!({ "webhook_url": null, "webhook_secret_set": false })
}

fn set(url: &str) -> Value {
    json!({ "webhook_url": url, "webhook_secret_set": true })
}

async fn put_rule_1_a_null_or_empty_url_clears_endpoint_and_secret(setup: Setup) {
    let merchant = setup.merchant().await;
    for empty in [Value::Null, json!("")] {
        merchant.set_webhook().await;
        assert_eq!(put(&merchant, json!({ "webhook_url": empty })).await.ok(), none());
        assert_eq!(merchant.get("/v1/webhook").await.ok(), none());
        assert_eq!(secret(&merchant).await, None, "the secret is retired with it");
    }
}

async fn put_rule_1_a_secret_beside_a_clear_is_ignored(setup: Setup) {
    let merchant = setup.merchant().await;
    for beside in [json!("fresh"), json!(""), json!("\u{7}"), json!("x".repeat(257)), Value::Null] {
        merchant.set_webhook().await;
        let body = json!({ "webhook_url": null, "webhook_secret": beside });
        assert_eq!(put(&merchant, body).await.ok(), none(), "{beside}");
    }
}

async fn put_rule_1_clearing_nothing_is_fine(setup: Setup) {
    let merchant = setup.merchant().await;
    assert_eq!(put(&merchant, json!({ "webhook_url": "" })).await.ok(), none());
}

async fn put_rule_1_clearing_ends_what_is_pending_and_redeliver_works(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    let now: Timestamp = NOW.parse().unwrap();
    let waiting = merchant.delivery(now, &[failed()]).await;
    let delivered = merchant.delivery(now, &[answered()]).await;
    put(&merchant, json!({ "webhook_url": null })).await.ok();

    let dead = merchant.get("/v1/webhook/deliveries?status=dead").await.ok();
    assert_eq!(dead["total"], 1);
    let row = &dead["deliveries"][0];
    assert_eq!(row["delivery_id"], waiting.delivery_id.to_string());
    assert_eq!((&row["last_error"], &row["attempts"]), (&json!(ENDPOINT_CLEARED), &json!(1)));
    let kept = merchant.get("/v1/webhook/deliveries?status=delivered").await.ok();
    assert_eq!(kept["deliveries"][0]["delivery_id"], delivered.delivery_id.to_string());
    assert_eq!(kept["deliveries"][0]["last_error"], Value::Null);

    let path = format!("/v1/webhook/deliveries/{}/redeliver", waiting.delivery_id);
    assert_eq!(merchant.post(&path).await.ok()["status"], "pending");
}

async fn put_rule_2_a_public_https_address_is_accepted(setup: Setup) {
    let merchant = setup.merchant().await;
    for url in [
        "https://merchant.example",
        "https://merchant.example:8443/a/b?c=d&e=%20",
        "HTTPS://MERCHANT.EXAMPLE/",
        "https://merchant.example./hook",
        "https://93.184.215.14/hook",
        "https://[2606:2800:21f:cb07:6820:80da:af6b:8b2c]/hook",
    ] {
        let body = json!({ "webhook_url": url, "webhook_secret": "hush" });
        assert_eq!(put(&merchant, body).await.ok(), set(url), "{url}");
    }
}

/// Known conditions: webhook URL invalid. The tests of the guard cover the whole corpus.
async fn put_rule_2_a_bad_url_is_refused_with_its_code(setup: Setup) {
    let merchant = setup.merchant().await;
    let long = format!("https://merchant.example/{}", "a".repeat(2_048));
    for (url, code) in [
        ("http://merchant.example/hook", "invalid_url"),
        ("merchant.example/hook", "invalid_url"),
        ("https://", "invalid_url"),
        ("https://user@merchant.example/", "invalid_url"),
        ("https://merchant.example/#fragment", "invalid_url"),
        ("https://merchant.example/a b", "invalid_url"),
        (" ", "invalid_url"),
        (&long, "invalid_url"),
        ("https://localhost/hook", "unsafe_url"),
        ("https://127.0.0.1/hook", "unsafe_url"),
        ("https://[::1]/hook", "unsafe_url"),
        ("https://169.254.169.254/latest/meta-data/", "unsafe_url"),
        ("https://metadata.google.internal/", "unsafe_url"),
        ("https://10.0.0.1/hook", "unsafe_url"),
        ("https://2130706433/", "unsafe_url"),
        ("https://merchant.example:22/", "unsafe_url"),
        ("https://private.example/hook", "unsafe_url"),
        ("https://mixed.example/hook", "unsafe_url"),
        ("https://nowhere.example/hook", "unresolvable_host"),
        ("https://merchant.invalid/hook", "unresolvable_host"),
    ] {
        let answer = put(&merchant, json!({ "webhook_url": url, "webhook_secret": "hush" })).await;
        assert_eq!(answer.invalid(), [("webhook_url".to_owned(), code.to_owned())], "{url}");
    }
}

async fn put_rule_2_a_refused_url_changes_nothing(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    let body = json!({ "webhook_url": "https://private.example/", "webhook_secret": "fresh" });
    put(&merchant, body).await.invalid_fields(&[("webhook_url", "unsafe_url")]);
    assert_eq!(merchant.get("/v1/webhook").await.ok(), set(URL));
    assert_eq!(secret(&merchant).await.as_deref(), Some("hush"));
}

/// Known conditions: secret missing on PUT.
async fn put_rule_3_the_first_url_needs_a_secret(setup: Setup) {
    let merchant = setup.merchant().await;
    for body in [
        json!({ "webhook_url": URL }),
        json!({ "webhook_url": URL, "webhook_secret": null }),
        json!({ "webhook_url": URL, "webhook_secret": "" }),
    ] {
        put(&merchant, body).await.invalid_fields(&[("webhook_secret", "required")]);
        assert_eq!(merchant.get("/v1/webhook").await.ok(), none());
    }
    let body = json!({ "webhook_url": URL, "webhook_secret": "hush" });
    assert_eq!(put(&merchant, body).await.ok(), set(URL));
}

async fn put_rule_3_after_a_clear_the_next_url_is_the_first_again(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    put(&merchant, json!({ "webhook_url": "" })).await.ok();
    put(&merchant, json!({ "webhook_url": URL })).await.invalid_fields(&[("webhook_secret", "required")]);
}

async fn put_rule_4_a_later_url_change_may_omit_the_secret(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    for (path, body) in [
        ("a", json!({ "webhook_url": "https://merchant.example/a" })),
        ("b", json!({ "webhook_url": "https://merchant.example/b", "webhook_secret": null })),
    ] {
        assert_eq!(put(&merchant, body).await.ok(), set(&format!("https://merchant.example/{path}")));
        assert_eq!(secret(&merchant).await.as_deref(), Some("hush"), "the current secret is kept");
    }
}

async fn put_rule_5_a_new_secret_rotates(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    assert_eq!(put(&merchant, json!({ "webhook_secret": "second" })).await.ok(), set(URL));
    assert_eq!(secret(&merchant).await.as_deref(), Some("second"));
    let body = json!({ "webhook_url": "https://merchant.example/new", "webhook_secret": "third" });
    assert_eq!(put(&merchant, body).await.ok(), set("https://merchant.example/new"));
    assert_eq!(secret(&merchant).await.as_deref(), Some("third"));
}

async fn a_secret_without_any_endpoint_is_refused(setup: Setup) {
    let merchant = setup.merchant().await;
    let answer = put(&merchant, json!({ "webhook_secret": "hush" })).await;
    answer.invalid_fields(&[("webhook_url", "required")]);
}

async fn an_empty_object_changes_nothing(setup: Setup) {
    let merchant = setup.merchant().await;
    assert_eq!(put(&merchant, json!({})).await.ok(), none());
    merchant.set_webhook().await;
    let beside = json!({ "webhook_secret": null, "something": { "else": [1] } });
    for body in [json!({}), json!({ "webhook_secret": null }), beside] {
        assert_eq!(put(&merchant, body).await.ok(), set(URL));
        assert_eq!(secret(&merchant).await.as_deref(), Some("hush"));
    }
}

async fn an_empty_secret_is_required_never_keep(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    for body in [json!({ "webhook_secret": "" }), json!({ "webhook_url": URL, "webhook_secret": "" })] {
        put(&merchant, body).await.invalid_fields(&[("webhook_secret", "required")]);
    }
    assert_eq!(secret(&merchant).await.as_deref(), Some("hush"));
}

/// Request field `webhook_secret`: bytes of UTF-8, not characters.
async fn a_secret_has_1_to_256_bytes(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    for good in ["x".to_owned(), "x".repeat(256), "é".repeat(128), " \" \\ “🔑” ".to_owned()] {
        put(&merchant, json!({ "webhook_secret": good })).await.ok();
        assert_eq!(secret(&merchant).await.as_ref(), Some(&good), "verbatim");
    }
    for bad in ["x".repeat(257), "é".repeat(129), "x".repeat(60_000)] {
        let answer = put(&merchant, json!({ "webhook_secret": bad })).await;
        answer.invalid_fields(&[("webhook_secret", "validation_failed")]);
    }
}

async fn a_secret_has_no_control_characters(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    for bad in ["\0", "a\nb", "a\tb", "a\r", "\u{1b}[0m", "\u{7f}", "\u{85}"] {
        let answer = put(&merchant, json!({ "webhook_secret": bad })).await;
        answer.invalid_fields(&[("webhook_secret", "validation_failed")]);
    }
    assert_eq!(secret(&merchant).await.as_deref(), Some("hush"));
}

async fn both_fields_bad_are_two_entries_in_order(setup: Setup) {
    let merchant = setup.merchant().await;
    let body = json!({ "webhook_secret": "x".repeat(257), "webhook_url": "https://localhost/" });
    let both = [("webhook_url", "unsafe_url"), ("webhook_secret", "validation_failed")];
    put(&merchant, body).await.invalid_fields(&both);
    let both = [("webhook_url", "invalid_url"), ("webhook_secret", "required")];
    put(&merchant, json!({ "webhook_url": "ftp://x" })).await.invalid_fields(&both);
    let both = [("webhook_url", "required"), ("webhook_secret", "validation_failed")];
    put(&merchant, json!({ "webhook_secret": "\n" })).await.invalid_fields(&both);
}

/// Request field `webhook_url`.
async fn the_url_is_stored_and_returned_as_sent(setup: Setup) {
    let merchant = setup.merchant().await;
    let url = "HTTPS://Merchant.EXAMPLE:443/A/../b/%7Euser?x=“é”&y=%41";
    let body = json!({ "webhook_url": url, "webhook_secret": "hush" });
    assert_eq!(put(&merchant, body).await.ok(), set(url));
    assert_eq!(merchant.get("/v1/webhook").await.ok(), set(url));
}

/// Delivery row `url`: "A later configuration change does not alter it."
async fn a_change_does_not_alter_deliveries_enqueued_before(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.set_webhook().await;
    let before = merchant.delivery(NOW.parse().unwrap(), &[]).await;
    put(&merchant, json!({ "webhook_url": "https://merchant.example/new" })).await.ok();
    let log = merchant.get("/v1/webhook/deliveries").await.ok();
    assert_eq!(log["deliveries"][0]["url"], before.url);
    assert_eq!(log["deliveries"][0]["status"], "pending");
}
