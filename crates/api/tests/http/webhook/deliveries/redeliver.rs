//! `POST /v1/webhook/deliveries/{delivery_id}/redeliver`: accepts only a merchant's own dead delivery.

use serde_json::{Value, json};
use settle_domain::time::Timestamp;

use crate::merchant::{answered, failed};
use crate::service::{NOW, Setup};

on_both_stores! {
    a_dead_delivery_is_requeued,
    the_requeued_record_is_what_the_log_shows,
    a_redelivery_does_not_move_its_row,
    an_unknown_delivery_is_not_found,
    another_merchants_delivery_is_not_found_and_stays_dead,
    a_pending_or_delivered_delivery_is_not_found_and_stays,
    a_malformed_id_is_not_found,
    an_id_is_read_in_any_case,
    a_second_redelivery_is_not_found,
    of_many_at_once_one_succeeds,
    it_needs_no_body_and_no_endpoint,
    the_dispatcher_is_woken,
}

fn path(id: impl std::fmt::Display) -> String {
    format!("/v1/webhook/deliveries/{id}/redeliver")
}

fn created() -> Timestamp {
    "2026-02-01T09:00:00Z".parse().unwrap()
}

/// The transition dead → pending: the counter restarts, it is due now, the last outcome stays.
async fn a_dead_delivery_is_requeued(setup: Setup) {
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    let requeued = merchant.post(&path(dead.delivery_id)).await.ok();
    let expected = json!({
        "delivery_id": dead.delivery_id.to_string(),
        "settlement_id": dead.settlement_id.to_string(),
        "event_type": "settlement.completed",
        "status": "pending",
        "attempts": 0,
        "created_at": "2026-02-01T09:00:00.000000+00:00",
        "delivered_at": null,
        "next_attempt_at": NOW,
        "response_status": 503,
        "last_error": "status 503",
        "url": dead.url,
    });
    assert_eq!(requeued, expected);
}

async fn the_requeued_record_is_what_the_log_shows(setup: Setup) {
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    let requeued = merchant.post(&path(dead.delivery_id)).await.ok();
    let pending = merchant.get("/v1/webhook/deliveries?status=pending").await.ok();
    assert_eq!(pending["deliveries"], json!([requeued]));
    assert_eq!(pending["total"], 1);
    assert_eq!(merchant.get("/v1/webhook/deliveries?status=dead").await.ok()["total"], 0);
}

async fn a_redelivery_does_not_move_its_row(setup: Setup) {
    let merchant = setup.merchant().await;
    for second in 0..3 {
        merchant.dead_delivery(created().plus(std::time::Duration::from_secs(second))).await;
    }
    let ids = |page: &Value| -> Vec<Value> {
        page["deliveries"].as_array().unwrap().iter().map(|row| row["delivery_id"].clone()).collect()
    };
    let before = merchant.get("/v1/webhook/deliveries").await.ok();
    merchant.post(&path(before["deliveries"][2]["delivery_id"].as_str().unwrap())).await.ok();
    let after = merchant.get("/v1/webhook/deliveries").await.ok();
    assert_eq!(ids(&after), ids(&before));
    assert_eq!(after["deliveries"][2]["status"], "pending");
}

/// Known conditions: redeliver, unknown delivery id.
async fn an_unknown_delivery_is_not_found(setup: Setup) {
    let merchant = setup.merchant().await;
    for id in ["0190d3c4-7c00-7000-8000-0000000000ab", "00000000-0000-0000-0000-000000000000"] {
        merchant.post(&path(id)).await.refused(404, "not_found");
    }
}

/// Known conditions: redeliver, another merchant's delivery.
async fn another_merchants_delivery_is_not_found_and_stays_dead(setup: Setup) {
    let merchant = setup.merchant().await;
    let other = merchant.service.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    let theirs = other.post(&path(dead.delivery_id)).await;
    theirs.refused(404, "not_found");
    let nobodys = other.post(&path("0190d3c4-7c00-7000-8000-0000000000ab")).await;
    assert_eq!(theirs.text, nobodys.text, "as if it were not there at all");
    assert_eq!(merchant.get("/v1/webhook/deliveries?status=dead").await.ok()["total"], 1);
}

/// Known conditions: redeliver, delivery not dead. "A delivery in any state other than dead cannot be
/// redelivered."
async fn a_pending_or_delivered_delivery_is_not_found_and_stays(setup: Setup) {
    let merchant = setup.merchant().await;
    let events = [vec![], vec![failed()], vec![failed(), answered()]];
    for events in events {
        let delivery = merchant.delivery(created(), &events).await;
        let before = merchant.get("/v1/webhook/deliveries").await.text;
        merchant.post(&path(delivery.delivery_id)).await.refused(404, "not_found");
        assert_eq!(merchant.get("/v1/webhook/deliveries").await.text, before);
    }
}

/// Path parameter `delivery_id`: a uuid in its hyphenated form.
async fn a_malformed_id_is_not_found(setup: Setup) {
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    let id = dead.delivery_id.to_string();
    for bad in [
        "7",
        "null",
        "%00",
        "%ff",
        "..",
        "%2e%2e",
        "a%2fb",
        &id.replace('-', ""),
        &format!("%7B{id}%7D"),
        &format!("urn:uuid:{id}"),
        &format!("{id}%20"),
        &format!("{id}0"),
        &"9".repeat(2_000),
    ] {
        let answer = merchant.post(&path(bad)).await;
        assert_eq!(answer.status, 404, "{bad}: {}", answer.text);
        answer.refused(404, "not_found");
    }
}

async fn an_id_is_read_in_any_case(setup: Setup) {
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    let capitals = dead.delivery_id.to_string().to_uppercase();
    let requeued = merchant.post(&path(capitals)).await.ok();
    assert_eq!(requeued["delivery_id"], dead.delivery_id.to_string());
}

async fn a_second_redelivery_is_not_found(setup: Setup) {
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    merchant.post(&path(dead.delivery_id)).await.ok();
    merchant.post(&path(dead.delivery_id)).await.refused(404, "not_found");
}

async fn of_many_at_once_one_succeeds(setup: Setup) {
    let merchant = setup.merchant().await;
    let path = path(merchant.dead_delivery(created()).await.delivery_id);
    let post = || merchant.post(&path);
    let answers = tokio::join!(post(), post(), post(), post());
    let mut statuses = [answers.0.status, answers.1.status, answers.2.status, answers.3.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 404, 404, 404]);
}

async fn it_needs_no_body_and_no_endpoint(setup: Setup) {
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    let ask = merchant.ask("POST", &path(dead.delivery_id)).header("content-type", "text/plain").body("{");
    assert_eq!(ask.send().await.ok()["status"], "pending");
    assert_eq!(merchant.get("/v1/webhook").await.ok()["webhook_url"], Value::Null);
}

async fn the_dispatcher_is_woken(setup: Setup) {
    let merchant = setup.merchant().await;
    let dead = merchant.dead_delivery(created()).await;
    let woken = || tokio::time::timeout(std::time::Duration::ZERO, merchant.service.wake.woken());
    merchant.post(&path("0190d3c4-7c00-7000-8000-0000000000ab")).await.refused(404, "not_found");
    assert!(woken().await.is_err(), "nothing is due");
    merchant.post(&path(dead.delivery_id)).await.ok();
    assert!(woken().await.unwrap().merchants.contains(&merchant.id));
}
