//! `settle merchant create | list`.

use serde_json::json;
use settle_testing::binary::{Settle, keys};

on_both_stores! {
    create_prints_the_merchant,
    list_prints_all_merchants,
    names_that_are_refused,
}

fn create_prints_the_merchant(settle: &Settle) {
    let created = settle.run(&["merchant", "create", " Café Ñandú ", "--json"]).json();
    assert_eq!(keys(&created), ["created_at", "merchant_id", "name"]);
    assert_eq!(created["name"], "Café Ñandú");
    let id = created["merchant_id"].as_str().unwrap();
    assert_eq!(uuid::Uuid::try_parse(id).unwrap().get_version_num(), 7);
    assert!(created["created_at"].as_str().unwrap().ends_with("+00:00"), "{created}");

    let ran = settle.run(&["merchant", "create", "Second"]);
    assert!(ran.ok().contains("settle key create "), "says what comes next: {ran:?}");
    let ran = settle.run(&["merchant", "create", "Third", "--quiet"]);
    assert!(uuid::Uuid::try_parse(ran.ok().trim()).is_ok(), "nothing but the id: {ran:?}");
}

fn list_prints_all_merchants(settle: &Settle) {
    settle.run(&["migrate"]).ok();
    assert_eq!(settle.run(&["merchant", "list", "--json"]).json(), json!([]));
    let first = settle.run(&["merchant", "create", "First", "--json"]).json();
    let second = settle.run(&["merchant", "create", "Second", "--json"]).json();
    assert_eq!(settle.run(&["merchant", "list", "--json"]).json(), json!([first, second]));
    let table = settle.run(&["merchant", "list"]);
    let lines: Vec<&str> = table.ok().lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(lines[0].starts_with("MERCHANT_ID") && lines[2].ends_with("Second"), "{lines:#?}");
}

fn names_that_are_refused(settle: &Settle) {
    settle.run(&["migrate"]).ok();
    let long = "x".repeat(201);
    for name in ["", "  ", "a\nb", &long] {
        assert!(settle.run(&["merchant", "create", name]).failed().contains("the name"), "{name:?}");
    }
    assert_eq!(settle.run(&["merchant", "list", "--json"]).json(), json!([]));
}
