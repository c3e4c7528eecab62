//! `GET /v1/webhook`: the Webhook configuration table.

use serde_json::{Value, json};

use crate::service::Setup;

on_both_stores! {
    row_webhook_url_is_null_or_the_url,
    row_webhook_secret_set_says_whether_a_secret_is_set,
    the_configuration_has_the_rows_of_the_table_and_no_other,
    the_query_string_is_ignored,
}

async fn row_webhook_url_is_null_or_the_url(setup: Setup) {
    let merchant = setup.merchant().await;
    let configuration = merchant.get("/v1/webhook").await.ok();
    assert_eq!(configuration.get("webhook_url"), Some(&Value::Null), "present, though null");
    merchant.set_webhook().await;
    let configuration = merchant.get("/v1/webhook").await.ok();
    assert_eq!(configuration["webhook_url"], "https://merchant.example/hook");
}

async fn row_webhook_secret_set_says_whether_a_secret_is_set(setup: Setup) {
    let merchant = setup.merchant().await;
    assert_eq!(merchant.get("/v1/webhook").await.ok()["webhook_secret_set"], false);
    merchant.set_webhook().await;
    assert_eq!(merchant.get("/v1/webhook").await.ok()["webhook_secret_set"], true);
}

async fn the_configuration_has_the_rows_of_the_table_and_no_other(setup: Setup) {
    let merchant = setup.merchant().await;
    let none = json!({ "webhook_url": null, "webhook_secret_set": false });
    assert_eq!(merchant.get("/v1/webhook").await.ok(), none);
    merchant.set_webhook().await;
    let set = json!({ "webhook_url": "https://merchant.example/hook", "webhook_secret_set": true });
    assert_eq!(merchant.get("/v1/webhook").await.ok(), set);
}

async fn the_query_string_is_ignored(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.get("/v1/webhook?limit=0&limit=0&webhook_url=x").await.ok();
}
