//! `settle operator create | list | revoke`.

use serde_json::{Value, json};
use settle_testing::binary::Settle;

on_both_stores! {
    create_prints_the_token_this_once,
    list_and_revoke,
    a_name_is_taken_once,
}

fn create_prints_the_token_this_once(settle: &Settle) {
    let created = settle.run(&["operator", "create", "alice", "--json"]).json();
    let id = created["operator_id"].as_str().expect("operator_id");
    assert_eq!(uuid::Uuid::try_parse(id).unwrap().get_version_num(), 7);
    let token = created["token"].as_str().expect("token");
    let digits = token.strip_prefix("op_").expect("the prefix");
    assert_eq!(digits.len(), 64);
    for arguments in [&["operator", "list"][..], &["operator", "list", "--json"]] {
        assert!(!settle.run(arguments).ok().contains(token));
    }
    let ran = settle.run(&["operator", "create", "bob", "-q"]);
    assert!(ran.ok().starts_with("op_") && ran.ok().trim().len() == 67, "{ran:?}");
}

fn list_and_revoke(settle: &Settle) {
    settle.run(&["migrate"]).ok();
    assert_eq!(settle.run(&["operator", "list", "--json"]).json(), json!([]));
    let created = settle.run(&["operator", "create", "alice", "--json"]).json();
    let id = created["operator_id"].as_str().unwrap();
    let listed = settle.run(&["operator", "list", "--json"]).json();
    assert_eq!((&listed[0]["operator_id"], &listed[0]["name"]), (&json!(id), &json!("alice")));
    assert_eq!(listed[0]["revoked_at"], Value::Null);
    assert!(settle.run(&["operator", "revoke", id]).ok().contains("is revoked"));
    assert!(settle.run(&["operator", "revoke", id]).ok().contains("was revoked before"));
    assert!(settle.run(&["operator", "list", "--json"]).json()[0]["revoked_at"].is_string());
    let unknown = "0190d3c4-7c00-7000-8000-0000000000ab";
    assert!(settle.run(&["operator", "revoke", unknown]).failed().contains(unknown));
}

fn a_name_is_taken_once(settle: &Settle) {
    settle.run(&["operator", "create", "alice"]).ok();
    let ran = settle.run(&["operator", "create", "alice"]);
    assert!(ran.failed().contains("alice"), "{ran:?}");
    assert_eq!(settle.run(&["operator", "list", "--json"]).json().as_array().unwrap().len(), 1);
}
