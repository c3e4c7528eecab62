//! `settle delivery redeliver`: what is refused, and that nothing is half done.

use settle_domain::delivery::DeliveryStatus;
use settle_testing::binary::Settle;

use super::{URL, YOUNG, dead, delivery, merchant, totals};

const UNKNOWN: &str = "0190d3c4-7c00-7000-8000-0000000000ab";

on_both_stores! {
    only_dead_ones_and_all_or_none,
    arguments_that_are_refused,
}

fn only_dead_ones_and_all_or_none(settle: &Settle) {
    let merchant = merchant(settle);
    let good = dead(settle, &merchant);
    let [waits, done] = [DeliveryStatus::Pending, DeliveryStatus::Delivered]
        .map(|status| delivery(settle, &merchant, status, YOUNG, URL));
    let before = settle.run(&["delivery", "list", "--json"]).json();
    for (bad, reason) in [
        (waits.as_str(), format!("delivery {waits} is pending")),
        (&done, format!("delivery {done} is delivered")),
        (UNKNOWN, format!("there is no delivery {UNKNOWN}")),
    ] {
        for options in [&[][..], &["--json"], &["--dry-run"]] {
            let arguments = [&["delivery", "redeliver", &good, bad], options].concat();
            let ran = settle.run(&arguments);
            assert!(ran.failed().contains("nothing was requeued") && ran.stderr.contains(&reason), "{ran:?}");
            assert!(!ran.stderr.contains(&good), "{ran:?}");
        }
    }
    let ran = settle.run(&["delivery", "redeliver", &waits, &done, UNKNOWN]);
    assert!([&waits, &done, UNKNOWN].iter().all(|id| ran.failed().contains(id)), "a line each: {ran:?}");
    assert_eq!(settle.run(&["delivery", "list", "--json"]).json(), before);
    assert_eq!(totals(settle, &merchant), [1, 1, 1, 3]);
}

fn arguments_that_are_refused(settle: &Settle) {
    let merchant = merchant(settle);
    let id = dead(settle, &merchant);
    for options in [
        &[][..],
        &["--dry-run"],
        &[&id, "--all"],
        &[&id, "--merchant", &merchant],
        &[&id, "--since", "2h"],
        &[&id, "--url", URL],
        &["--all", "--merchant", &merchant],
        &["--since", "tomorrow"],
        &["--url", ""],
        &["not-an-id"],
    ] {
        let ran = settle.run(&[&["delivery", "redeliver"], options].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    }
    let ran = settle.run(&["delivery", "redeliver"]);
    assert!(ran.stderr.contains("DELIVERY_ID") && ran.stderr.contains("--all"), "says the ways: {ran:?}");
    assert_eq!(totals(settle, &merchant), [0, 0, 1, 1]);
}
