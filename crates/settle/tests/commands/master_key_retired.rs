//! `settle master-key new | status | reseal`: a leaked master key is replaced, and nothing needs it any more.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use settle_domain::vault::KeyRing;
use settle_testing::binary::{Settle, block_on, text};
use settle_testing::serving::{Serving, ask, get};

on_both_stores! {
    a_leaked_master_key_is_retired,
    a_key_that_is_used_is_sealed_anew,
    what_needs_a_missing_master_key_keeps_the_service_down,
    more_than_one_page_is_sealed_anew,
    new_prints_a_key_and_changes_nothing,
    new_writes_a_file_for_its_owner_alone,
    new_puts_a_key_in_front_of_the_ring_in_the_data_folder,
}

const OLD: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222222222222222222222222222";
const OPERATOR_PATH: &str = "/operator/v1/settlements";

fn id(key: &str) -> String {
    KeyRing::parse(key).unwrap().newest().to_string()
}

fn both() -> String {
    format!("{NEW},{OLD}")
}

/// What needs this master key: secrets, API keys, operators.
fn needs(settle: &Settle, key: &str) -> Value {
    let status = settle.run(&["master-key", "status", "--json"]).json();
    let found = status.as_array().unwrap().iter().find(|row| row["key"] == id(key)).cloned();
    let row = found.unwrap_or_else(|| panic!("{key} is not in {status}"));
    json!([row["webhook_secrets"], row["api_keys"], row["operators"]])
}

/// A merchant with a secret, its key, and an operator's token.
fn set_up(settle: &mut Settle) -> (String, String) {
    settle.set("SETTLE_MASTER_KEY", OLD);
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let token = settle.run(&["operator", "create", "ada", "-q"]).ok().trim().to_owned();
    let (serving, api, _) = Serving::ready(settle);
    let body = r#"{"webhook_url":"https://93.184.215.14/hook","webhook_secret":"hush"}"#;
    assert_eq!(ask(api, "PUT", "/v1/webhook", &key, body).status, 200);
    serving.stop();
    (key, token)
}

fn a_leaked_master_key_is_retired(settle: &mut Settle) {
    let (key, token) = set_up(settle);
    settle.set("SETTLE_MASTER_KEY", &both());
    assert_eq!(needs(settle, OLD), json!([1, 1, 1]));
    assert_eq!(needs(settle, NEW), json!([0, 0, 0]));
    let status = settle.run(&["master-key", "status"]);
    assert!(status.ok().contains("settle master-key reseal"), "{status:?}");

    let resealed = settle.run(&["master-key", "reseal", "--json"]).json();
    let counts = [&resealed["webhook_secrets"], &resealed["api_keys"], &resealed["operators"]];
    assert_eq!(counts, [1, 1, 1], "{resealed}");
    let again = settle.run(&["master-key", "reseal", "--json"]).json();
    assert_eq!([&again["webhook_secrets"], &again["api_keys"]], [0, 0], "{again}");
    assert_eq!((needs(settle, OLD), needs(settle, NEW)), (json!([0, 0, 0]), json!([1, 1, 1])));
    let status = settle.run(&["master-key", "status"]);
    assert!(status.ok().contains(&format!("Nothing needs {}", id(OLD))), "{status:?}");
    for printed in [&status.stdout, &status.stderr] {
        assert!(!printed.contains(OLD) && !printed.contains(NEW), "{printed}");
    }

    settle.set("SETTLE_MASTER_KEY", NEW);
    let (serving, api, operator) = Serving::ready(settle);
    let shown = get(api, "/v1/webhook", &key);
    assert_eq!((shown.status, shown.json()["webhook_secret_set"].as_bool()), (200, Some(true)));
    // An empty list is refused, but not for its token.
    assert_eq!(ask(operator, "POST", OPERATOR_PATH, &token, "[]").status, 422);
    serving.stop();
}

fn a_key_that_is_used_is_sealed_anew(settle: &mut Settle) {
    let (key, token) = set_up(settle);
    settle.set("SETTLE_MASTER_KEY", &both());
    let (serving, api, operator) = Serving::ready(settle);
    assert_eq!(get(api, "/v1/webhook", &key).status, 200);
    assert_eq!(ask(operator, "POST", OPERATOR_PATH, &token, "[]").status, 422);
    serving.stop();
    assert_eq!((needs(settle, OLD), needs(settle, NEW)), (json!([1, 0, 0]), json!([0, 1, 1])));
}

fn what_needs_a_missing_master_key_keeps_the_service_down(settle: &mut Settle) {
    set_up(settle);
    settle.set("SETTLE_MASTER_KEY", &both());
    settle.run(&["merchant", "create", "B"]).ok();
    settle.set("SETTLE_MASTER_KEY", NEW);
    let served = settle.run(&["serve"]);
    let words = served.failed();
    let sentence = format!(
        "the master key {} is not in the ring, and 1 webhook secret, 1 API key and 1 operator's token \
         need it: put it back (",
        id(OLD)
    );
    assert!(words.contains(&sentence) && words.contains("settle master-key reseal"), "{words}");
    // Tests that run side by side must not take a port from each other.
    settle.set("SETTLE_API__LISTEN", "127.0.0.1:0");
    settle.set("SETTLE_OPERATOR__LISTEN", "127.0.0.1:0");
    let doctor = settle.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.stdout.contains("FAILED") && doctor.stdout.contains(&id(OLD)), "{doctor:?}");
    assert!(settle.run(&["master-key", "status"]).ok().contains("NOT IN THE RING"));
    let ran = settle.run(&["master-key", "reseal", "--json"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("3 rows were not sealed anew"), "{ran:?}");
    let resealed: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&resealed["unknown_master_key"], &resealed["api_keys"]), (&json!(3), &json!(0)));

    let mut serving = Serving::start(settle, &["--without-lost-keys"]);
    serving.wait_for("serving without what needs a lost master key");
    serving.wait_for("the merchant API listens");
    serving.stop();
}

fn more_than_one_page_is_sealed_anew(settle: &mut Settle) {
    const KEYS: usize = 201;
    settle.set("SETTLE_MASTER_KEY", OLD);
    let merchant = settle.merchant().parse().unwrap();
    let ring = KeyRing::parse(OLD).unwrap();
    block_on(async {
        let store = settle.store();
        for _ in 0..KEYS {
            let (clock, entropy) = (settle_wiring::system::SystemClock, settle_wiring::system::SystemEntropy);
            settle_accounts::keys::create(&*store, &ring, &clock, &entropy, merchant, None).await.unwrap();
        }
        store.close().await;
    });
    settle.set("SETTLE_MASTER_KEY", &both());
    let resealed = settle.run(&["master-key", "reseal", "--json"]).json();
    assert_eq!(resealed["api_keys"], KEYS);
    assert_eq!((needs(settle, OLD), needs(settle, NEW)), (json!([0, 0, 0]), json!([0, KEYS, 0])));
}

fn new_prints_a_key_and_changes_nothing(settle: &Settle) {
    let made = settle.run(&["master-key", "new"]);
    let key = made.ok().trim().to_owned();
    assert_eq!(key.len(), 64);
    assert!(made.stderr.contains(&id(&key)) && made.stderr.contains("new,old"), "{made:?}");
    assert!(!made.stderr.contains(&key));
    assert_ne!(settle.run(&["master-key", "new"]).ok().trim(), key);
    assert!(!settle.data().join("master.key").exists());
}

fn new_writes_a_file_for_its_owner_alone(settle: &Settle) {
    let path = settle.write("there", "before");
    let refused = settle.run(&["master-key", "new", "--output", text(&path)]);
    assert!(refused.failed().contains("there"), "{refused:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before");
    let path = path.with_file_name("new.key");
    let made = settle.run(&["master-key", "new", "--output", text(&path)]);
    assert_eq!(made.ok(), "");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let key = std::fs::read_to_string(&path).unwrap();
    assert!(made.stderr.contains(&id(&key)) && !made.stderr.contains(&key), "{made:?}");
}

fn new_puts_a_key_in_front_of_the_ring_in_the_data_folder(settle: &mut Settle) {
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let path = settle.data().join("master.key");
    let old = std::fs::read_to_string(&path).unwrap();
    settle.run(&["master-key", "new", "--install"]).ok();
    let ring = std::fs::read_to_string(&path).unwrap();
    assert!(ring.ends_with(&format!(",{old}")) && ring.len() == 129, "the new key comes first");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    settle.run(&["master-key", "reseal"]).ok();
    std::fs::write(&path, &ring[..64]).unwrap();
    let (serving, api, _) = Serving::ready(settle);
    assert_eq!(get(api, "/v1/settlements", &key).status, 200);
    serving.stop();
    settle.set("SETTLE_MASTER_KEY", &ring[..64]);
    let refused = settle.run(&["master-key", "new", "--install"]);
    assert!(refused.failed().contains("master_key is set"), "{refused:?}");
}
