//! `settle key create | list | revoke`.

use serde_json::{Value, json};
use settle_testing::binary::{Settle, keys};

on_both_stores! {
    create_prints_the_key_this_once,
    list_shows_the_last_four_characters_alone,
    revoke_says_what_it_did,
    an_unknown_merchant_is_refused,
    a_malformed_id_is_a_usage_error,
    the_key_is_not_in_the_data_folder,
}

fn create_prints_the_key_this_once(settle: &Settle) {
    let merchant = settle.merchant();
    let created = settle.run(&["key", "create", &merchant, "--label", "till 7", "--json"]).json();
    assert_eq!(keys(&created), ["api_key", "created_at", "key_id", "label", "merchant_id"]);
    assert_eq!((&created["merchant_id"], &created["label"]), (&json!(merchant), &json!("till 7")));
    let digits = created["api_key"].as_str().unwrap().strip_prefix("sk_").expect("the prefix");
    assert_eq!(digits.len(), 64);
    assert!(digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));

    let unlabelled = settle.run(&["key", "create", &merchant, "--json"]).json();
    assert_eq!(unlabelled["label"], Value::Null);
    assert_ne!(unlabelled["api_key"], created["api_key"]);
    let ran = settle.run(&["key", "create", &merchant, "--quiet"]);
    assert!(ran.ok().starts_with("sk_") && ran.ok().trim().len() == 67, "{ran:?}");
}

fn list_shows_the_last_four_characters_alone(settle: &Settle) {
    let merchant = settle.merchant();
    let (key_id, key) = settle.key(&merchant);
    let ran = settle.run(&["key", "list", &merchant, "--json"]);
    let listed = ran.json();
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let expected = ["created_at", "key_id", "label", "last_four", "merchant_id", "revoked_at"];
    assert_eq!(keys(&listed[0]), expected);
    assert_eq!((&listed[0]["key_id"], &listed[0]["revoked_at"]), (&json!(key_id), &Value::Null));
    assert_eq!(listed[0]["last_four"], key[key.len() - 4..]);
    for ran in [ran, settle.run(&["key", "list", &merchant])] {
        assert!(!ran.ok().contains(&key), "{ran:?}");
    }
    let other = settle.merchant();
    assert_eq!(settle.run(&["key", "list", &other, "--json"]).json(), json!([]));
}

fn revoke_says_what_it_did(settle: &Settle) {
    let merchant = settle.merchant();
    let (key_id, _) = settle.key(&merchant);
    assert!(settle.run(&["key", "revoke", &key_id]).ok().contains("is revoked"));
    assert!(settle.run(&["key", "revoke", &key_id]).ok().contains("was revoked before"));
    let listed = settle.run(&["key", "list", &merchant, "--json"]).json();
    assert!(listed[0]["revoked_at"].is_string(), "{listed}");
    let unknown = "0190d3c4-7c00-7000-8000-0000000000ab";
    assert!(settle.run(&["key", "revoke", unknown]).failed().contains(unknown));
}

fn an_unknown_merchant_is_refused(settle: &Settle) {
    let unknown = "0190d3c4-7c00-7000-8000-0000000000ab";
    let ran = settle.run(&["key", "create", unknown, "--json"]);
    assert!(ran.failed().contains(&format!("there is no merchant {unknown}")), "{ran:?}");
}

fn a_malformed_id_is_a_usage_error(settle: &Settle) {
    let ran = settle.run(&["key", "create", "7"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("not a uuid"), "{ran:?}");
}

fn the_key_is_not_in_the_data_folder(settle: &Settle) {
    let (_, key) = settle.key(&settle.merchant());
    let digits = &key[3..];
    for entry in std::fs::read_dir(settle.data()).expect("the data folder") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        assert!(!bytes.windows(digits.len()).any(|window| window == digits.as_bytes()));
    }
}
