//! `GET /v1/webhook/deliveries`: its query parameters, its page envelope, its order.

use std::time::Duration;

use serde_json::{Value, json};
use settle_domain::ids::DeliveryId;
use settle_domain::time::Timestamp;
use settle_store::conformance::fixtures;
use uuid::Uuid;

use crate::merchant::{Merchant, answered, failed};
use crate::service::Setup;

on_both_stores! {
    a_new_merchant_has_an_empty_log,
    status_filters_and_total_follows,
    status_is_exactly_one_of_three,
    limit_is_50_unless_said_and_1_to_200,
    offset_is_0_to_10000,
    every_bad_parameter_is_named_in_the_order_of_the_table,
    a_parameter_given_twice_is_refused,
    unknown_parameters_are_ignored,
    newest_first_and_ties_by_id,
    pages_follow_each_other_without_gap_or_overlap,
    an_offset_past_the_end_is_an_empty_page,
    total_is_exact_beyond_the_largest_offset,
}

const PATH: &str = "/v1/webhook/deliveries";

fn at(second: u64) -> Timestamp {
    fixtures::at(second)
}

/// Enqueues this many deliveries, one a second, the oldest first; returns their ids, the newest first.
async fn enqueued(merchant: &Merchant, count: u64) -> Vec<String> {
    let new: Vec<_> = (0..count).map(|second| fixtures::delivery(merchant.id, at(second))).collect();
    for batch in new.chunks(1_000) {
        fixtures::enqueue(&*merchant.service.store, batch).await;
    }
    new.iter().rev().map(|delivery| delivery.delivery_id.to_string()).collect()
}

fn ids(page: &Value) -> Vec<String> {
    let deliveries = page["deliveries"].as_array().expect("deliveries is an array");
    deliveries.iter().map(|row| row["delivery_id"].as_str().unwrap().to_owned()).collect()
}

/// Page envelope: `deliveries`, `limit`, `offset` and `total` are always there.
async fn a_new_merchant_has_an_empty_log(setup: Setup) {
    let page = setup.merchant().await.get(PATH).await.ok();
    assert_eq!(page, json!({ "deliveries": [], "limit": 50, "offset": 0, "total": 0 }));
}

/// Query parameter `status`.
async fn status_filters_and_total_follows(setup: Setup) {
    let merchant = setup.merchant().await;
    let (new, retrying) = (merchant.delivery(at(0), &[]).await, merchant.delivery(at(1), &[failed()]).await);
    let delivered = merchant.delivery(at(2), &[answered()]).await;
    let dead = merchant.dead_delivery(at(3)).await;
    for (query, expected) in [
        ("", vec![&dead, &delivered, &retrying, &new]),
        ("?status=pending", vec![&retrying, &new]),
        ("?status=delivered", vec![&delivered]),
        ("?status=dead", vec![&dead]),
        ("?status=pending&limit=1&offset=1", vec![&new]),
        ("?status=dead&offset=1", vec![]),
    ] {
        let page = merchant.get(&format!("{PATH}{query}")).await.ok();
        let expected: Vec<String> = expected.iter().map(|row| row.delivery_id.to_string()).collect();
        assert_eq!(ids(&page), expected, "{query}");
    }
    for (query, total) in [("status=pending&limit=1", 2), ("status=dead&offset=7", 1), ("limit=1", 4)] {
        assert_eq!(merchant.get(&format!("{PATH}?{query}")).await.ok()["total"], total, "{query}");
    }
}

/// Known conditions: invalid status filter.
async fn status_is_exactly_one_of_three(setup: Setup) {
    let merchant = setup.merchant().await;
    for bad in
        ["", "lost", "Pending", "PENDING", "pending%20", "%20pending", "pending,dead", "null", "*", "0"]
    {
        let answer = merchant.get(&format!("{PATH}?status={bad}")).await;
        assert_eq!(answer.invalid(), [("status".to_owned(), "validation_failed".to_owned())], "{bad}");
    }
    merchant.get(&format!("{PATH}?status=%70ending")).await.ok();
}

/// Query parameter `limit`, and the row "Page size" of the limits.
async fn limit_is_50_unless_said_and_1_to_200(setup: Setup) {
    let merchant = setup.merchant().await;
    enqueued(&merchant, 201).await;
    let page = merchant.get(PATH).await.ok();
    assert_eq!((ids(&page).len(), &page["limit"], &page["total"]), (50, &json!(50), &json!(201)));
    for limit in [1, 200] {
        let page = merchant.get(&format!("{PATH}?limit={limit}")).await.ok();
        assert_eq!((ids(&page).len(), &page["limit"]), (limit, &json!(limit)));
    }
    for bad in crate::limits::BAD_LIMITS {
        let answer = merchant.get(&format!("{PATH}?limit={bad}")).await;
        answer.invalid_fields(&[("limit", "validation_failed")]);
    }
}

/// Query parameter `offset`, and its row of the limits.
async fn offset_is_0_to_10000(setup: Setup) {
    let merchant = setup.merchant().await;
    enqueued(&merchant, 3).await;
    for (offset, rows) in [(0, 3), (2, 1), (10_000, 0)] {
        let page = merchant.get(&format!("{PATH}?offset={offset}")).await.ok();
        assert_eq!((ids(&page).len(), &page["offset"]), (rows, &json!(offset)));
    }
    for bad in crate::limits::BAD_OFFSETS {
        let answer = merchant.get(&format!("{PATH}?offset={bad}")).await;
        answer.invalid_fields(&[("offset", "validation_failed")]);
    }
}

/// Known conditions: invalid status filter or paging.
async fn every_bad_parameter_is_named_in_the_order_of_the_table(setup: Setup) {
    let answer = setup.merchant().await.get(&format!("{PATH}?offset=x&limit=x&status=x")).await;
    answer.invalid_fields(&[
        ("status", "validation_failed"),
        ("limit", "validation_failed"),
        ("offset", "validation_failed"),
    ]);
}

async fn a_parameter_given_twice_is_refused(setup: Setup) {
    let merchant = setup.merchant().await;
    for (field, value) in [("status", "dead"), ("limit", "5"), ("offset", "5")] {
        let answer = merchant.get(&format!("{PATH}?{field}={value}&{field}={value}")).await;
        answer.invalid_fields(&[(field, "validation_failed")]);
    }
}

async fn unknown_parameters_are_ignored(setup: Setup) {
    let merchant = setup.merchant().await;
    enqueued(&merchant, 1).await;
    for query in ["page=7", "Status=dead", "state=x&state=y", "%ff=%00", "&&=&"] {
        let page = merchant.get(&format!("{PATH}?{query}")).await.ok();
        assert_eq!(page["total"], 1, "{query}");
    }
}

/// "newest first": by `created_at`, and among equals by `delivery_id`, both descending.
async fn newest_first_and_ties_by_id(setup: Setup) {
    let merchant = setup.merchant().await;
    let mut new = Vec::new();
    for (id, micros) in [(9_u128, 1), (1, 2), (3, 2), (2, 2)] {
        let mut delivery = fixtures::delivery(merchant.id, at(1).plus(Duration::from_micros(micros)));
        let first = DeliveryId::first_at(delivery.created_at).0.as_u128();
        delivery.delivery_id = DeliveryId(Uuid::from_u128(first + id));
        new.push(delivery);
    }
    fixtures::enqueue(&*merchant.service.store, &new).await;
    let expected: Vec<String> =
        [2, 3, 1, 0].map(|position: usize| new[position].delivery_id.to_string()).to_vec();
    assert_eq!(ids(&merchant.get(PATH).await.ok()), expected);
}

async fn pages_follow_each_other_without_gap_or_overlap(setup: Setup) {
    let merchant = setup.merchant().await;
    let expected = enqueued(&merchant, 10).await;
    let mut walked = Vec::new();
    for offset in [0, 4, 8] {
        let page = merchant.get(&format!("{PATH}?limit=4&offset={offset}")).await.ok();
        walked.extend(ids(&page));
    }
    assert_eq!(walked, expected);
}

async fn an_offset_past_the_end_is_an_empty_page(setup: Setup) {
    let merchant = setup.merchant().await;
    enqueued(&merchant, 2).await;
    let page = merchant.get(&format!("{PATH}?offset=2&limit=7")).await.ok();
    assert_eq!(page, json!({ "deliveries": [], "limit": 7, "offset": 2, "total": 2 }));
}

async fn total_is_exact_beyond_the_largest_offset(setup: Setup) {
    let merchant = setup.merchant().await;
    let expected = enqueued(&merchant, 10_002).await;
    let page = merchant.get(&format!("{PATH}?offset=10000")).await.ok();
    assert_eq!(page["total"], 10_002, "not capped by the offset's limit");
    assert_eq!(ids(&page), expected[10_000..]);
}
