//! `settle delivery list`.

use serde_json::{Value, json};
use settle_domain::delivery::DeliveryStatus;
use settle_testing::binary::{Settle, keys};

use super::{OLD, OTHER_URL, URL, YOUNG, dead, delivery};

on_both_stores! {
    every_field_is_printed,
    the_table_is_for_people,
    each_filter_narrows,
    filters_narrow_together,
    the_limit_is_kept_and_told,
    arguments_that_are_refused,
}

/// The ids of the listed deliveries, in their order.
fn listed(settle: &Settle, options: &[&str]) -> Vec<String> {
    let arguments: Vec<&str> = ["delivery", "list", "--json"].iter().chain(options).copied().collect();
    let ran = settle.run(&arguments);
    let ids = ran.json()["deliveries"].as_array().expect("a list").clone();
    ids.iter().map(|row| row["delivery_id"].as_str().expect("an id").to_owned()).collect()
}

fn every_field_is_printed(settle: &Settle) {
    settle.run(&["migrate"]).ok();
    assert_eq!(settle.run(&["delivery", "list", "--json"]).json(), json!({ "deliveries": [] }));
    let merchant = settle.merchant();
    let id = dead(settle, &merchant);
    let printed = settle.run(&["delivery", "list", "--json"]).json();
    assert_eq!(keys(&printed), ["deliveries"]);
    let row = &printed["deliveries"][0];
    let settlement = row["settlement_id"].as_str().expect("an id");
    let expected = json!({
        "merchant_id": merchant,
        "delivery_id": id,
        "settlement_id": settlement,
        "event_type": "settlement.completed",
        "status": "dead",
        "attempts": 1,
        "created_at": "2020-01-01T00:00:00.000000+00:00",
        "delivered_at": Value::Null,
        "next_attempt_at": "2020-01-01T00:00:00.000000+00:00",
        "response_status": 503,
        "last_error": "answered with status 503",
        "url": URL,
    });
    assert_eq!(row, &expected);
}

fn the_table_is_for_people(settle: &Settle) {
    let merchant = settle.merchant();
    let make = |status, created_at: &str| delivery(settle, &merchant, status, created_at, URL);
    let dead = make(DeliveryStatus::Dead, "2026-01-01T10:00:00Z");
    let done = make(DeliveryStatus::Delivered, "2026-01-02T10:00:00Z");
    let waits = make(DeliveryStatus::Pending, "2026-01-03T10:00:00Z");
    let ran = settle.run(&["delivery", "list"]);
    let cells: Vec<Vec<&str>> = ran.ok().lines().map(|line| line.split("  ").collect()).collect();
    let cells: Vec<Vec<&str>> = cells
        .into_iter()
        .map(|row| row.into_iter().map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    let head = "DELIVERY_ID MERCHANT_ID STATUS ATTEMPTS CREATED_AT NEXT_OR_DELIVERED RESPONSE LAST_ERROR URL";
    assert_eq!(cells[0], head.split(' ').collect::<Vec<_>>());
    let (first, second, third) = ("2026-01-03T10:00:00Z", "2026-01-02T10:00:00Z", "2026-01-01T10:00:00Z");
    assert_eq!(cells[1], [&waits, &merchant, "pending", "0", first, first, "-", "-", URL]);
    assert_eq!(cells[2], [&done, &merchant, "delivered", "1", second, second, "204", "-", URL]);
    let error = "answered with status 503";
    assert_eq!(cells[3], [&dead, &merchant, "dead", "1", third, "-", "503", error, URL]);
    assert_eq!((cells.len(), ran.stderr.as_str()), (4, ""));
}

fn each_filter_narrows(settle: &Settle) {
    let (one, two) = (settle.merchant(), settle.merchant());
    let old = delivery(settle, &one, DeliveryStatus::Dead, OLD, URL);
    let middle = delivery(settle, &two, DeliveryStatus::Pending, "2026-01-02T10:00:00Z", OTHER_URL);
    let young = delivery(settle, &one, DeliveryStatus::Delivered, YOUNG, OTHER_URL);
    let (old, middle, young) = (old.as_str(), middle.as_str(), young.as_str());
    for (options, expected) in [
        (&[][..], &[young, middle, old][..]),
        (&["--merchant", &one], &[young, old]),
        (&["--merchant", &two], &[middle]),
        (&["--status", "dead"], &[old]),
        (&["--status", "pending"], &[middle]),
        (&["--status", "delivered"], &[young]),
        (&["--since", "2026-01-02T10:00:00Z"], &[young, middle]),
        (&["--since", "2026-01-02T07:00:00.000001-03:00"], &[young]),
        (&["--since", "2h"], &[young]),
        (&["--url", OTHER_URL], &[young, middle]),
        (&["--url", "https://merchant."], &[old]),
        (&["--url", "merchant"], &[]),
    ] {
        assert_eq!(listed(settle, options), expected, "{options:?}");
    }
}

fn filters_narrow_together(settle: &Settle) {
    let (one, two) = (settle.merchant(), settle.merchant());
    let wanted = delivery(settle, &one, DeliveryStatus::Dead, YOUNG, URL);
    delivery(settle, &two, DeliveryStatus::Dead, YOUNG, URL);
    delivery(settle, &one, DeliveryStatus::Pending, YOUNG, URL);
    delivery(settle, &one, DeliveryStatus::Dead, OLD, URL);
    delivery(settle, &one, DeliveryStatus::Dead, YOUNG, OTHER_URL);
    let options = ["--merchant", &one, "--status", "dead", "--since", "7d", "--url", URL];
    assert_eq!(listed(settle, &options), [wanted]);
}

fn the_limit_is_kept_and_told(settle: &Settle) {
    let (one, two) = (settle.merchant(), settle.merchant());
    let made = [dead(settle, &one), dead(settle, &two), dead(settle, &one)];
    let ran = settle.run(&["delivery", "list", "--limit", "2"]);
    assert_eq!(ran.ok().lines().count(), 3, "{ran:?}");
    assert!(ran.stderr.contains("--limit"), "{ran:?}");
    assert_eq!(listed(settle, &["--limit", "2"]), [made[2].as_str(), &made[1]]);
    let ran = settle.run(&["delivery", "list", "--limit", "3"]);
    assert_eq!((ran.ok().lines().count(), ran.stderr.as_str()), (4, ""));
}

fn arguments_that_are_refused(settle: &Settle) {
    settle.run(&["migrate"]).ok();
    for (option, value) in [
        ("--since", "yesterday"),
        ("--since", "2026-01-02"),
        ("--status", "lost"),
        ("--limit", "0"),
        ("--limit", "10001"),
        ("--merchant", "acme"),
    ] {
        let ran = settle.run(&["delivery", "list", option, value]);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains(option) && ran.stderr.contains(value), "{ran:?}");
    }
    let unknown = "0190d3c4-7c00-7000-8000-0000000000ab";
    for command in ["list", "redeliver"] {
        let ran = settle.run(&["delivery", command, "--merchant", unknown]);
        assert!(ran.failed().contains(unknown), "{ran:?}");
    }
}
