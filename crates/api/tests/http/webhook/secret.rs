//! PUT rule 6: the secret is stored, and never returned.

use serde_json::json;
use settle_domain::time::Timestamp;

use crate::contract::Contract;
use crate::service::{NOW, Setup};

on_both_stores! {
    put_rule_6_the_secret_is_stored,
    put_rule_6_no_answer_holds_the_secret,
}

const SECRET: &str = "whsec_3fd1c0ffee-very-distinctive";

async fn put_rule_6_the_secret_is_stored(setup: Setup) {
    let merchant = setup.merchant().await;
    let body = json!({ "webhook_url": "https://merchant.example/hook", "webhook_secret": SECRET });
    merchant.put("/v1/webhook", &body).await.ok();
    let service = &merchant.service;
    let endpoint = service.store.endpoint_find(merchant.id).await.unwrap().expect("an endpoint");
    let opened = service.ring.open(merchant.id, &endpoint.secret).expect("it opens for its merchant");
    assert_eq!(opened.as_bytes(), SECRET.as_bytes(), "verbatim");
    let sealed = &endpoint.secret.0;
    assert!(!sealed.windows(SECRET.len()).any(|bytes| bytes == SECRET.as_bytes()), "stored sealed");
}

async fn put_rule_6_no_answer_holds_the_secret(setup: Setup) {
    let merchant = setup.merchant().await;
    let now: Timestamp = NOW.parse().unwrap();
    let dead = merchant.dead_delivery(now).await;
    let bodies = [
        json!({ "webhook_url": "https://merchant.example/hook", "webhook_secret": SECRET }),
        json!({ "webhook_secret": SECRET }),
        json!({ "webhook_url": "https://localhost/", "webhook_secret": SECRET }),
        json!({ "webhook_url": 7, "webhook_secret": SECRET }),
    ];
    for body in bodies {
        let answer = merchant.put("/v1/webhook", &body).await;
        assert!(!answer.text.contains(SECRET), "{}", answer.text);
    }
    for operation in Contract::committed().operations() {
        let path = operation.path(&dead.delivery_id.to_string());
        let ask = merchant.ask(&operation.method, &path);
        let ask = if operation.method == "PUT" { ask.json(&json!({})) } else { ask };
        let answer = ask.send().await;
        answer.ok();
        assert!(!format!("{answer:?}").contains(SECRET), "{operation:?}");
    }
}
