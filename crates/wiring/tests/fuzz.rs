//! The settings on whatever may stand in a file or in the environment: nothing panics, what is refused is
//! refused with the name of its key or line, and no refusal repeats a secret.

use proptest::prelude::*;
use settle_wiring::config::{self, ConfigError, parse_duration};

/// Settings of every kind, and the name of a section.
const KEYS: [&str; 12] = [
    "API__LISTEN",
    "API__REQUESTS_PER_SECOND",
    "API__TRUSTED_PROXIES",
    "DATABASE_URL",
    "MASTER_KEY",
    "LOG__LEVEL",
    "WEBHOOK__ALLOW_NETWORKS",
    "WEBHOOK__RETRY_FIRST",
    "WEBHOOK__MAX_ATTEMPTS",
    "WEBHOOK__NAMESERVERS",
    "ALERTS__URL",
    "WEBHOOK",
];
const SECRET: &str = "s3cr3t-that-nobody-may-see";

fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
        "[api]\n",
        "[webhook]\n",
        "listen",
        "log",
        "=",
        "\"",
        "'",
        "\n",
        ".",
        ",",
        "[",
        "]",
        "{",
        "}",
        "#",
        "1",
        "0",
        "-1",
        "18446744073709551616",
        "s",
        "ms",
        "h",
        "1e400",
        "inf",
        "true",
        "127.0.0.1:0",
        "10.0.0.0/8",
        "::1",
        "postgres://u:s3cr3t-that-nobody-may-see@h:99999/d",
        "sqlite://",
        "https://",
        "\u{0}",
        "é",
    ];
    let soup = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..10);
    prop_oneof![3 => soup.prop_map(|pieces| pieces.concat()), 1 => any::<String>()]
}

/// Otherwise every value would be refused, and nothing tested.
#[test]
fn every_key_is_a_setting() {
    for key in KEYS.into_iter().filter(|key| *key != "WEBHOOK") {
        let environment = vec![(format!("SETTLE_{key}"), "nonsense".to_owned())];
        let file = tempfile::NamedTempFile::new().unwrap();
        let loaded = config::load(Some(file.path()), &environment);
        assert!(!matches!(loaded, Err(ConfigError::UnknownKey { .. })), "{loaded:?}");
        assert!(loaded.is_err() || loaded.is_ok_and(|loaded| loaded.warnings.is_empty()), "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_environment_is_read_or_refused(key in prop::sample::select(KEYS.to_vec()), value in any_text()) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let environment = vec![(format!("SETTLE_{key}"), value)];
        if let Err(fault) = config::load(Some(file.path()), &environment) {
            let text = fault.to_string();
            let is_secret = ["DATABASE_URL", "MASTER_KEY", "ALERTS__URL"].contains(&key);
            prop_assert!(!is_secret || !text.contains(SECRET), "{}", text);
            prop_assert!(text.to_lowercase().contains(&key.to_lowercase()) || text.contains(&key.to_lowercase().replace("__", ".")), "{}: {}", key, text);
        }
    }

    #[test]
    fn any_file_is_read_or_refused(text in any_text()) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &text).unwrap();
        if let Err(fault) = config::load(Some(file.path()), &Vec::new()) {
            prop_assert!(!fault.to_string().contains(SECRET), "{}", fault);
        }
    }

    #[test]
    fn any_duration_is_read_or_refused(text in any_text()) {
        let _ = parse_duration(&text);
    }
}
