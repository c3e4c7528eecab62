//! `settle delivery redeliver`: what is sent again.

use serde_json::{Value, json};
use settle_domain::delivery::DeliveryStatus;
use settle_domain::ids::MerchantId;
use settle_store::conformance::fixtures;
use settle_store::{DeliveryFilter, Duty};
use settle_testing::binary::{Settle, block_on, keys};
use settle_testing::serving::PATIENCE;

use super::{OLD, OTHER_URL, URL, YOUNG, dead, delivery, merchant, put_endpoint, totals};

use crate::BINARY;

on_both_stores! {
    by_id,
    by_several_ids,
    by_each_filter,
    by_filters_together,
    all_of_them,
    more_than_one_batch,
    a_dry_run_changes_nothing,
    a_long_dry_run_shows_the_first,
    a_missing_endpoint_is_told,
    pending_ones_are_tried_now,
}

fn redeliver(settle: &Settle, options: &[&str]) -> Value {
    let arguments: Vec<&str> = ["delivery", "redeliver", "--json"].iter().chain(options).copied().collect();
    settle.run(&arguments).json()
}

fn done(number: usize) -> Value {
    json!({ "matched": number, "requeued": number, "dry_run": false, "without_endpoint": [] })
}

/// A delivery as it is now.
fn find(settle: &Settle, id: &str) -> Value {
    let listed = settle.run(&["delivery", "list", "--json"]).json();
    let rows = listed["deliveries"].as_array().expect("a list");
    rows.iter().find(|row| row["delivery_id"] == id).expect("it is listed").clone()
}

fn by_id(settle: &Settle) {
    let merchant = merchant(settle);
    let (id, other) = (dead(settle, &merchant), dead(settle, &merchant));
    let ran = settle.run(&["delivery", "redeliver", &id]);
    assert_eq!((ran.ok(), ran.stderr.as_str()), ("1 delivery requeued.\n", ""));
    assert_eq!(totals(settle, &merchant), [1, 0, 1, 2]);
    let row = find(settle, &id);
    assert_eq!((&row["status"], &row["attempts"]), (&json!("pending"), &json!(0)));
    assert!(row["next_attempt_at"].as_str() > Some("2026"), "due now: {row}");
    assert_eq!(find(settle, &other)["status"], "dead");
}

fn by_several_ids(settle: &Settle) {
    let (one, two) = (merchant(settle), merchant(settle));
    let (first, second, third) = (dead(settle, &one), dead(settle, &two), dead(settle, &two));
    assert_eq!(redeliver(settle, &[&first, &third, &first]), done(2), "a repetition counts once");
    assert_eq!((totals(settle, &one), totals(settle, &two)), ([1, 0, 0, 1], [1, 0, 1, 2]));
    assert_eq!(find(settle, &second)["status"], "dead");
}

fn by_each_filter(settle: &Settle) {
    let (one, two) = (merchant(settle), merchant(settle));
    let mine = dead(settle, &one);
    let young = delivery(settle, &two, DeliveryStatus::Dead, YOUNG, URL);
    let elsewhere = delivery(settle, &two, DeliveryStatus::Dead, OLD, OTHER_URL);
    let (pending, delivered) = (DeliveryStatus::Pending, DeliveryStatus::Delivered);
    let others = [pending, delivered].map(|status| delivery(settle, &two, status, YOUNG, OTHER_URL));
    let before = others.each_ref().map(|id| find(settle, id));
    for (options, id) in [
        (["--merchant", &one], mine),
        (["--since", "2050-01-01T00:00:00Z"], young),
        (["--url", OTHER_URL], elsewhere),
    ] {
        assert_eq!(redeliver(settle, &options), done(1), "{options:?}");
        assert_eq!(find(settle, &id)["status"], "pending", "{options:?}");
        assert_eq!(redeliver(settle, &options), done(0), "{options:?}");
    }
    assert_eq!(others.each_ref().map(|id| find(settle, id)), before, "neither pending nor delivered ones");
    assert_eq!((totals(settle, &one), totals(settle, &two)), ([1, 0, 0, 1], [3, 1, 0, 4]));
}

fn by_filters_together(settle: &Settle) {
    let (one, two) = (merchant(settle), merchant(settle));
    let wanted = delivery(settle, &one, DeliveryStatus::Dead, YOUNG, OTHER_URL);
    delivery(settle, &two, DeliveryStatus::Dead, YOUNG, OTHER_URL);
    delivery(settle, &one, DeliveryStatus::Dead, OLD, OTHER_URL);
    delivery(settle, &one, DeliveryStatus::Dead, YOUNG, URL);
    let options = ["--merchant", &one, "--since", "1h", "--url", "https://other."];
    assert_eq!(redeliver(settle, &options), done(1));
    assert_eq!(find(settle, &wanted)["status"], "pending");
    assert_eq!((totals(settle, &one), totals(settle, &two)), ([1, 0, 2, 3], [0, 0, 1, 1]));
}

fn all_of_them(settle: &Settle) {
    let (one, two) = (merchant(settle), merchant(settle));
    for owner in [&one, &two, &two] {
        dead(settle, owner);
    }
    delivery(settle, &one, DeliveryStatus::Delivered, OLD, URL);
    assert_eq!(settle.run(&["delivery", "redeliver", "--all"]).ok(), "3 deliveries requeued.\n");
    assert_eq!((totals(settle, &one), totals(settle, &two)), ([1, 1, 0, 2], [2, 0, 0, 2]));
}

/// Makes dead deliveries of a merchant: its endpoint is cleared and set again.
fn many_dead(settle: &Settle, merchant: &str, number: u64) {
    let id: MerchantId = merchant.parse().unwrap();
    let new: Vec<_> = (0..number).map(|second| fixtures::delivery(id, fixtures::at(second / 2))).collect();
    block_on(async {
        let store = settle.store();
        fixtures::enqueue(&*store, &new).await;
        fixtures::clear_endpoint_but(&*store, id, fixtures::at(9_000), u32::MAX).await;
    });
    put_endpoint(settle, merchant);
}

fn more_than_one_batch(settle: &Settle) {
    let merchants = [settle.merchant(), settle.merchant(), settle.merchant()];
    let numbers = [7, 1_999, 3];
    for (merchant, number) in merchants.iter().zip(numbers) {
        many_dead(settle, merchant, number);
    }
    assert_eq!(redeliver(settle, &["--all"]), done(2_009));
    for (merchant, number) in merchants.iter().zip([7, 1_999, 3]) {
        assert_eq!(totals(settle, merchant), [number, 0, 0, number]);
    }
    let counted =
        block_on(async { settle.store().delivery_count(&DeliveryFilter::default()).await.unwrap() });
    assert_eq!(
        counted.iter().map(|(_, number)| number).sum::<u64>(),
        2_009,
        "as many rows as the totals say"
    );
}

/// On PostgreSQL, because there the service may run on another machine.
#[test]
fn a_service_elsewhere_is_woken() {
    let settle = Settle::postgres(BINARY);
    let merchant = merchant(&settle);
    let id = dead(&settle, &merchant);
    let woken = block_on(async {
        let store = settle.store();
        let dispatcher = fixtures::unique_keeper_id();
        let mut presence =
            store.presence(dispatcher, Duty::Dispatch).await.unwrap().expect("nobody else has this id");
        settle.run(&["delivery", "redeliver", &id]).ok();
        tokio::time::timeout(PATIENCE, presence.woken()).await.expect("it is told").unwrap()
    });
    assert_eq!(woken, [merchant.parse().unwrap()]);
}

fn a_dry_run_changes_nothing(settle: &Settle) {
    let merchant = merchant(settle);
    let ids = [dead(settle, &merchant), dead(settle, &merchant)];
    let before = settle.run(&["delivery", "list", "--json"]).json();
    for options in [&[ids[0].as_str(), &ids[1]][..], &["--all"], &["--merchant", &merchant]] {
        let options = [options, &["--dry-run"]].concat();
        let outcome = redeliver(settle, &options);
        let fields = ["deliveries", "dry_run", "matched", "requeued", "without_endpoint"];
        assert_eq!(keys(&outcome), fields);
        assert_eq!((&outcome["matched"], &outcome["requeued"]), (&json!(2), &json!(0)), "{options:?}");
        assert_eq!(outcome["dry_run"], true);
        let rows = outcome["deliveries"].as_array().expect("a list");
        assert!(rows.len() == 2 && rows.iter().all(|row| row["merchant_id"] == merchant), "{outcome}");
        assert_eq!(settle.run(&["delivery", "list", "--json"]).json(), before, "{options:?}");
    }
    let ran = settle.run(&["delivery", "redeliver", &ids[0], "--dry-run"]);
    assert!(ran.ok().starts_with("1 delivery would be requeued.\n\nDELIVERY_ID "), "{ran:?}");
    assert!(ran.ok().contains(&ids[0]) && !ran.ok().contains(&ids[1]), "{ran:?}");
    assert_eq!(totals(settle, &merchant), [0, 0, 2, 2]);
}

fn a_long_dry_run_shows_the_first(settle: &Settle) {
    let merchant = settle.merchant();
    many_dead(settle, &merchant, 14);
    let ran = settle.run(&["delivery", "redeliver", "--all", "--dry-run"]);
    assert!(ran.ok().starts_with("14 deliveries would be requeued.\n"), "{ran:?}");
    assert!(ran.ok().ends_with("\nand 4 more\n"), "{ran:?}");
    let outcome = redeliver(settle, &["--all", "--dry-run"]);
    assert_eq!(outcome["deliveries"].as_array().map(Vec::len), Some(10));
}

fn a_missing_endpoint_is_told(settle: &Settle) {
    let (with, without) = (merchant(settle), settle.merchant());
    let ids = [dead(settle, &with), dead(settle, &without)];
    for options in [&["--all", "--dry-run"][..], &[ids[0].as_str(), &ids[1]]] {
        let arguments = [&["delivery", "redeliver", "--json"], options].concat();
        let ran = settle.run(&arguments);
        assert_eq!(ran.json()["without_endpoint"], json!([without]), "{ran:?}");
        assert!(ran.stderr.starts_with("warning: ") && ran.stderr.contains(&without), "{ran:?}");
        assert!(!ran.stderr.contains(&with), "{ran:?}");
    }
    assert_eq!(totals(settle, &without), [1, 0, 0, 1], "it is requeued all the same");
}

/// As after a clock that was years ahead for a moment.
fn pending_ones_are_tried_now(settle: &Settle) {
    let owner = merchant(settle);
    let died = dead(settle, &owner);
    let far = delivery(settle, &owner, DeliveryStatus::Pending, YOUNG, URL);
    let due = delivery(settle, &owner, DeliveryStatus::Pending, OLD, URL);
    let before = find(settle, &due);
    let refused = settle.run(&["delivery", "redeliver", "--pending", &died]);
    assert!(refused.failed().contains("is dead; with --pending only a pending one is meant"), "{refused:?}");
    assert_eq!(redeliver(settle, &["--all", "--pending"])["requeued"], 1);
    let row = find(settle, &far);
    assert!(row["next_attempt_at"].as_str() < Some("2050"), "due now: {row}");
    assert_eq!((find(settle, &due), &find(settle, &died)["status"]), (before, &json!("dead")));
}
