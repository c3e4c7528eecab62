//! The master key: made once, kept from other users, replaced with the help of a ring.

use std::os::unix::fs::PermissionsExt;

use settle_domain::ids::MerchantId;
use settle_domain::vault::KeyRing;
use settle_testing::binary::{Settle, block_on};
use settle_testing::serving::{Serving, ask, get};

on_both_stores! {
    it_is_made_once_for_its_owner_alone,
    a_file_that_others_can_read_is_refused,
    a_file_that_holds_no_key_is_refused,
    one_that_is_set_needs_no_file,
    a_ring_keeps_old_keys_and_secrets_working,
    another_one_than_the_database_was_used_with_is_refused,
    one_that_is_missing_is_not_made_anew,
    who_only_reads_makes_none,
}

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";

fn it_is_made_once_for_its_owner_alone(settle: &Settle) {
    settle.merchant();
    let path = settle.data().join("master.key");
    let mode = |path: &std::path::Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&settle.data()), 0o700);
    let database = settle.data().join("settle.db");
    assert!(!database.exists() || mode(&database) == 0o600, "the database is its owner's alone");
    let key = std::fs::read_to_string(&path).unwrap();
    assert_eq!(key.trim().len(), 64);
    settle.merchant();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), key, "made once");
}

fn a_file_that_others_can_read_is_refused(settle: &Settle) {
    settle.merchant();
    let path = settle.data().join("master.key");
    for mode in [0o644, 0o640, 0o604, 0o660] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let ran = settle.run(&["merchant", "list"]);
        assert!(ran.failed().contains("master.key") && ran.stderr.contains("chmod 600"), "{ran:?}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    settle.run(&["merchant", "list"]).ok();
}

fn a_file_that_holds_no_key_is_refused(settle: &Settle) {
    settle.merchant();
    let path = settle.data().join("master.key");
    std::fs::write(&path, "too short").unwrap();
    let ran = settle.run(&["merchant", "list"]);
    assert!(ran.failed().contains("master.key") && !ran.stderr.contains("too short"), "{ran:?}");
}

fn one_that_is_set_needs_no_file(settle: &mut Settle) {
    settle.set("SETTLE_MASTER_KEY", NEW);
    settle.merchant();
    assert!(!settle.data().join("master.key").exists());
    settle.set("SETTLE_MASTER_KEY", "abc");
    let ran = settle.run(&["merchant", "list"]);
    assert!(ran.failed().contains("master_key"), "{ran:?}");
}

fn a_ring_keeps_old_keys_and_secrets_working(settle: &mut Settle) {
    settle.set("SETTLE_MASTER_KEY", OLD);
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let (serving, api, _) = Serving::ready(settle);
    let body = r#"{"webhook_url":"https://93.184.215.14/hook","webhook_secret":"hush"}"#;
    assert_eq!(ask(api, "PUT", "/v1/webhook", &key, body).status, 200);
    serving.stop();

    settle.set("SETTLE_MASTER_KEY", &format!("{NEW},{OLD}"));
    let (serving, api, _) = Serving::ready(settle);
    let shown = get(api, "/v1/webhook", &key);
    assert_eq!((shown.status, shown.json()["webhook_secret_set"].as_bool()), (200, Some(true)));
    assert_eq!(opened(settle, &merchant, &format!("{NEW},{OLD}")).as_deref(), Some("hush"));
    // Secrets and keys made from now on need only the new master key.
    let body = r#"{"webhook_secret":"fresh"}"#;
    assert_eq!(ask(api, "PUT", "/v1/webhook", &key, body).status, 200);
    assert_eq!(opened(settle, &merchant, NEW).as_deref(), Some("fresh"));
    let (_, new_key) = settle.key(&merchant);
    serving.stop();

    settle.set("SETTLE_MASTER_KEY", NEW);
    let (serving, api, _) = Serving::ready(settle);
    assert_eq!(get(api, "/v1/webhook", &new_key).status, 200);
    assert_eq!(get(api, "/v1/webhook", &key).status, 200, "it was sealed anew when it was used");
    serving.stop();
}

/// The merchant's secret, as a ring opens it.
fn opened(settle: &Settle, merchant: &str, ring: &str) -> Option<String> {
    let merchant: MerchantId = merchant.parse().unwrap();
    let endpoint = block_on(async { settle.store().endpoint_find(merchant).await.unwrap() })?;
    let secret = KeyRing::parse(ring).unwrap().open(merchant, &endpoint.secret).ok()?;
    Some(String::from_utf8(secret.as_bytes().to_vec()).unwrap())
}

fn another_one_than_the_database_was_used_with_is_refused(settle: &mut Settle) {
    settle.set("SETTLE_MASTER_KEY", OLD);
    settle.merchant();
    settle.set("SETTLE_MASTER_KEY", NEW);
    assert!(settle.run(&["merchant", "list"]).failed().contains("another master key"));
    let found = settle.run(&["doctor"]).stdout;
    assert!(found.contains("the database has been used with another master key: set the one"), "{found}");
    settle.set("SETTLE_MASTER_KEY", &format!("{NEW},{OLD}"));
    settle.run(&["merchant", "list"]).ok();
    settle.set("SETTLE_MASTER_KEY", NEW);
    assert!(
        settle.run(&["merchant", "list"]).failed().contains("another master key"),
        "a list changes nothing"
    );
    settle.set("SETTLE_MASTER_KEY", &format!("{NEW},{OLD}"));
    settle.merchant();
    settle.set("SETTLE_MASTER_KEY", NEW);
    settle.run(&["merchant", "list"]).ok();
}

/// Whoever looks first, without the key of the service, does not choose the key of the database.
fn who_only_reads_makes_none(settle: &mut Settle) {
    settle.run(&["migrate"]).ok();
    for command in [["merchant", "list"], ["ledger", "check"], ["delivery", "list"]] {
        settle.run(&command).ok();
    }
    assert!(settle.run(&["master-key", "status"]).failed().contains("there is no master key yet"));
    assert!(!settle.data().join("master.key").exists());
    settle.set("SETTLE_MASTER_KEY", NEW);
    settle.run(&["merchant", "list"]).ok();
    settle.set("SETTLE_MASTER_KEY", OLD);
    settle.merchant();
    settle.set("SETTLE_MASTER_KEY", NEW);
    assert!(settle.run(&["merchant", "list"]).failed().contains("another master key"));
}

fn one_that_is_missing_is_not_made_anew(settle: &mut Settle) {
    settle.merchant();
    let path = settle.data().join("master.key");
    std::fs::remove_file(&path).expect("it was made");
    assert!(settle.run(&["merchant", "list"]).failed().contains("a master key that is not here"));
    assert!(!path.exists());
}
