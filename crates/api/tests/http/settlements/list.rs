//! `GET /v1/settlements`: its query parameters, its page envelope, its order.

use serde_json::{Value, json};

use crate::merchant::{Merchant, settlement};
use crate::service::Setup;

on_both_stores! {
    a_new_merchant_has_an_empty_page,
    limit_is_50_unless_said,
    limit_is_1_to_200,
    offset_is_0_to_10000,
    bad_paging_is_refused_with_every_field_at_once,
    a_parameter_given_twice_is_refused,
    unknown_parameters_are_ignored,
    newest_first_and_ties_by_id,
    without_completed_at_it_is_listed_by_occurred_at,
    pages_follow_each_other_without_gap_or_overlap,
    an_offset_past_the_end_is_an_empty_page,
    total_is_exact_beyond_the_largest_offset,
    a_merchant_sees_its_own_alone,
    head_is_answered_without_a_body,
}

const PATH: &str = "/v1/settlements";

/// Records this many settlements, one a second, the oldest first.
async fn recorded(merchant: &Merchant, count: usize) {
    let completed = |number: usize| {
        let at = settle_store::conformance::fixtures::at(number as u64).to_string();
        settlement(json!({ "completed_at": at, "payin_reference": format!("payin-{number}") }))
    };
    merchant.record((0..count).map(completed)).await;
}

fn references(page: &Value) -> Vec<&str> {
    let settlements = page["settlements"].as_array().expect("settlements is an array");
    settlements.iter().map(|record| record["payin_reference"].as_str().unwrap()).collect()
}

/// Page envelope: `settlements`, `limit`, `offset` and `total` are always there.
async fn a_new_merchant_has_an_empty_page(setup: Setup) {
    let page = setup.merchant().await.get(PATH).await.ok();
    assert_eq!(page, json!({ "settlements": [], "limit": 50, "offset": 0, "total": 0 }));
}

/// Query parameter `limit`, and the row "Page size" of the limits: default 50.
async fn limit_is_50_unless_said(setup: Setup) {
    let merchant = setup.merchant().await;
    recorded(&merchant, 51).await;
    let page = merchant.get(PATH).await.ok();
    assert_eq!(references(&page).len(), 50);
    assert_eq!((&page["limit"], &page["offset"], &page["total"]), (&json!(50), &json!(0), &json!(51)));
}

/// Query parameter `limit`, and the row "Page size" of the limits: 1 to 200.
async fn limit_is_1_to_200(setup: Setup) {
    let merchant = setup.merchant().await;
    recorded(&merchant, 201).await;
    for limit in [1, 2, 199, 200] {
        let page = merchant.get(&format!("{PATH}?limit={limit}")).await.ok();
        assert_eq!(references(&page).len(), limit);
        assert_eq!((&page["limit"], &page["total"]), (&json!(limit), &json!(201)));
    }
    for bad in crate::limits::BAD_LIMITS {
        let answer = merchant.get(&format!("{PATH}?limit={bad}")).await;
        answer.invalid_fields(&[("limit", "validation_failed")]);
    }
}

/// Query parameter `offset`, and its row of the limits: 0 to 10000, default 0.
async fn offset_is_0_to_10000(setup: Setup) {
    let merchant = setup.merchant().await;
    recorded(&merchant, 3).await;
    for (offset, rows) in [(0, 3), (1, 2), (3, 0), (10_000, 0)] {
        let page = merchant.get(&format!("{PATH}?offset={offset}")).await.ok();
        assert_eq!((references(&page).len(), &page["offset"]), (rows, &json!(offset)));
    }
    for bad in crate::limits::BAD_OFFSETS {
        let answer = merchant.get(&format!("{PATH}?offset={bad}")).await;
        answer.invalid_fields(&[("offset", "validation_failed")]);
    }
}

/// Known conditions: invalid paging. The order is that of the table, not that of the query.
async fn bad_paging_is_refused_with_every_field_at_once(setup: Setup) {
    let answer = setup.merchant().await.get(&format!("{PATH}?offset=-1&limit=0")).await;
    answer.invalid_fields(&[("limit", "validation_failed"), ("offset", "validation_failed")]);
}

async fn a_parameter_given_twice_is_refused(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.get(&format!("{PATH}?limit=5&limit=5")).await.invalid_fields(&[("limit", "validation_failed")]);
    let answer = merchant.get(&format!("{PATH}?offset=5&limit=1&offset=6")).await;
    answer.invalid_fields(&[("offset", "validation_failed")]);
    let answer = merchant.get(&format!("{PATH}?limit=5&%6cimit=5")).await;
    answer.invalid_fields(&[("limit", "validation_failed")]);
}

async fn unknown_parameters_are_ignored(setup: Setup) {
    let merchant = setup.merchant().await;
    recorded(&merchant, 2).await;
    for query in ["page=7", "Limit=1", "status=lost", "cursor=&cursor=", "%ff=%00", "&&=&", "limit%20=1"] {
        let page = merchant.get(&format!("{PATH}?{query}")).await.ok();
        assert_eq!((references(&page).len(), &page["limit"]), (2, &json!(50)), "{query}");
    }
}

/// "newest first": by `completed_at`, and among equals by `settlement_id`, both descending.
async fn newest_first_and_ties_by_id(setup: Setup) {
    let merchant = setup.merchant().await;
    let id = |last: u8| format!("0190d3c4-7c00-7000-8000-0000000000{last:02x}");
    let rows = [
        (id(0xff), "2026-01-31T12:00:00.000001Z", "third"),
        (id(0x01), "2026-01-31T12:00:00.000002Z", "second"),
        (id(0x02), "2026-01-31T12:00:00.000002Z", "first"),
        // In UTC this is the oldest, whatever its offset.
        (id(0x03), "2026-01-31T13:59:59+02:00", "fourth"),
    ];
    let fields = |(id, at, name): &(String, &str, &str)| {
        settlement(json!({ "settlement_id": id, "completed_at": at, "payin_reference": name }))
    };
    merchant.record(rows.iter().map(fields)).await;
    let page = merchant.get(PATH).await.ok();
    assert_eq!(references(&page), ["first", "second", "third", "fourth"]);
}

async fn without_completed_at_it_is_listed_by_occurred_at(setup: Setup) {
    let merchant = setup.merchant().await;
    let rows = [
        json!({ "completed_at": "2026-01-31T12:00:00Z", "payin_reference": "old" }),
        json!({ "completed_at": null, "occurred_at": "2026-01-31T12:00:01Z", "payin_reference": "middle" }),
        json!({ "completed_at": "2026-01-31T12:00:02Z", "payin_reference": "new" }),
    ];
    merchant.record(rows.map(settlement)).await;
    assert_eq!(references(&merchant.get(PATH).await.ok()), ["new", "middle", "old"]);
}

async fn pages_follow_each_other_without_gap_or_overlap(setup: Setup) {
    let merchant = setup.merchant().await;
    recorded(&merchant, 10).await;
    let mut walked: Vec<String> = Vec::new();
    for offset in [0, 3, 6, 9] {
        let page = merchant.get(&format!("{PATH}?limit=3&offset={offset}")).await.ok();
        assert_eq!(page["total"], 10);
        walked.extend(references(&page).into_iter().map(str::to_owned));
    }
    let expected: Vec<String> = (0..10).rev().map(|number| format!("payin-{number}")).collect();
    assert_eq!(walked, expected);
}

async fn an_offset_past_the_end_is_an_empty_page(setup: Setup) {
    let merchant = setup.merchant().await;
    recorded(&merchant, 2).await;
    let page = merchant.get(&format!("{PATH}?offset=2")).await.ok();
    assert_eq!(page, json!({ "settlements": [], "limit": 50, "offset": 2, "total": 2 }));
}

async fn total_is_exact_beyond_the_largest_offset(setup: Setup) {
    let merchant = setup.merchant().await;
    recorded(&merchant, 10_003).await;
    let page = merchant.get(&format!("{PATH}?offset=10000")).await.ok();
    assert_eq!(page["total"], 10_003, "not capped by the offset's limit");
    assert_eq!(references(&page), ["payin-2", "payin-1", "payin-0"]);
}

async fn a_merchant_sees_its_own_alone(setup: Setup) {
    let merchant = setup.merchant().await;
    let other = merchant.service.merchant().await;
    recorded(&merchant, 2).await;
    other.record([settlement(json!({ "payin_reference": "theirs" }))]).await;
    assert_eq!(references(&merchant.get(PATH).await.ok()), ["payin-1", "payin-0"]);
    let page = other.get(PATH).await.ok();
    assert_eq!((references(&page), &page["total"]), (vec!["theirs"], &json!(1)));
}

async fn head_is_answered_without_a_body(setup: Setup) {
    let answer = setup.merchant().await.ask("HEAD", PATH).send().await;
    assert_eq!((answer.status, answer.text.as_str()), (200, ""));
}
