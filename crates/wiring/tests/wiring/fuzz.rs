//! The settings on whatever may stand in a file or in the environment: nothing panics, what is refused is
//! refused with the name of its key or line, and no refusal repeats a secret.
//!
//! The corpora are `tests/data/fuzz_values.txt` and `tests/data/fuzz_files.txt`, a JSON string a line, so
//! that any character can stand in it. A value is given to every key, and read as a duration and as the URL
//! of alerts. Add the text of a bug before you mend it.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use proptest::prelude::*;
use settle_notify::alerts::AlertUrl;
use settle_wiring::config::{self, ConfigError, Loaded, parse_duration};
use url::Url;

const VALUES: &str = include_str!("../data/fuzz_values.txt");
const FILES: &str = include_str!("../data/fuzz_files.txt");
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
/// A value that no error may repeat where a secret is expected.
const SECRET_URL: &str = "postgres://u:s3cr3t-that-nobody-may-see@h:99999/d";
/// Pieces of values and of files.
const PIECES: &[&str] = &[
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
    "sqlite://",
    "https://",
    "@",
    ":",
    "%",
    "\u{0}",
    "é",
];

fn lines(corpus: &str) -> Vec<String> {
    corpus.lines().map(|line| serde_json::from_str(line).expect("a JSON string a line")).collect()
}

/// A text of the corpus with pieces put in the place of some of its characters, pieces in any order, or any
/// text at all.
fn near(corpus: &str, pieces: &[&'static str]) -> impl Strategy<Value = String> + use<> {
    let piece = prop::sample::select(pieces.to_vec());
    let changes = prop::collection::vec((any::<prop::sample::Index>(), 0..3_usize, piece.clone()), 0..3);
    let near = (prop::sample::select(lines(corpus)), changes).prop_map(|(text, changes)| {
        let mut characters: Vec<char> = text.chars().collect();
        for (place, replaced, piece) in changes {
            let start = place.index(characters.len() + 1);
            let end = characters.len().min(start + replaced);
            characters.splice(start..end, piece.chars());
        }
        characters.into_iter().collect::<String>()
    });
    let soup = prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat());
    prop_oneof![4 => near, 2 => soup, 1 => any::<String>()]
}

fn any_value() -> impl Strategy<Value = String> {
    near(VALUES, &[PIECES, &[SECRET_URL]].concat())
}

/// What is secret stands where a secret belongs: any other value is repeated in the error about it.
fn any_file() -> impl Strategy<Value = String> {
    near(FILES, PIECES)
}

fn loaded_with(key: &str, value: &str) -> Result<Loaded, ConfigError> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    config::load(Some(file.path()), &vec![(format!("SETTLE_{key}"), value.to_owned())])
}

/// Whether a setting has a value that it can have.
fn read_setting(key: &str, value: &str) -> bool {
    let loaded = loaded_with(key, value);
    if key == "ALERTS__URL" {
        let is_url = value.is_empty() || value.parse::<AlertUrl>().is_ok();
        assert_eq!(loaded.is_ok(), is_url, "{value:?}");
    }
    let Err(fault) = loaded else { return true };
    let text = fault.to_string();
    let is_secret = ["DATABASE_URL", "MASTER_KEY", "ALERTS__URL"].contains(&key);
    assert!(!is_secret || !text.contains(SECRET), "{text}");
    let (variable, key) = (key.to_lowercase(), key.to_lowercase().replace("__", "."));
    assert!(text.to_lowercase().contains(&variable) || text.contains(&key), "{key}: {text}");
    false
}

/// Whether a file has settings. What is wrong with one is said without what stands in it.
fn read_file(text: &str) -> bool {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("it is written");
    let Err(fault) = config::load(Some(file.path()), &Vec::new()) else { return true };
    assert!(!fault.to_string().contains(SECRET), "{fault}");
    false
}

/// Whether alerts can be posted there. Nothing of the URL is shown but its host, which is where a URL parser
/// finds it.
fn read_alert_url(text: &str) -> bool {
    let Ok(url) = text.parse::<AlertUrl>() else { return false };
    let parsed = Url::parse(text).expect("what was read is a URL");
    assert!(["http", "https"].contains(&parsed.scheme()), "{text:?}");
    let host = parsed.host_str().expect("a host");
    assert_eq!(format!("{url:?}"), format!("AlertUrl({host}, …)"), "{text:?}");
    true
}

/// Otherwise every value would be refused, and nothing tested.
#[test]
fn every_key_is_a_setting() {
    for key in KEYS.into_iter().filter(|key| *key != "WEBHOOK") {
        let loaded = loaded_with(key, "nonsense");
        assert!(!matches!(loaded, Err(ConfigError::UnknownKey { .. })), "{loaded:?}");
        assert!(loaded.is_err() || loaded.is_ok_and(|loaded| loaded.warnings.is_empty()), "{key}");
    }
}

#[test]
fn the_corpora() {
    let values = lines(VALUES);
    for key in KEYS.into_iter().filter(|key| *key != "WEBHOOK") {
        let read = values.iter().filter(|value| read_setting(key, value)).count();
        assert!(read >= 1, "{key} is given nothing that it can be");
    }
    let durations = values.iter().filter(|text| parse_duration(text).is_ok()).count();
    let urls = values.iter().filter(|text| read_alert_url(text)).count();
    let files = lines(FILES).iter().filter(|text| read_file(text)).count();
    assert!(durations >= 3 && urls >= 3 && files >= 3, "{durations} durations, {urls} URLs, {files} files");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn any_environment_is_read_or_refused(key in prop::sample::select(KEYS.to_vec()), value in any_value()) {
        read_setting(key, &value);
    }

    #[test]
    fn any_file_is_read_or_refused(text in any_file()) {
        read_file(&text);
    }

    #[test]
    fn any_duration_is_read_or_refused(text in any_value()) {
        if let Ok(duration) = parse_duration(&text) {
            prop_assert!(!duration.is_zero());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_url_is_one_of_alerts_or_refused(text in any_value()) {
        read_alert_url(&text);
    }
}
