//! What the service keeps from others: its files, its memory, and the operator's terminal from what it shows.

use std::io::ErrorKind::{InvalidInput, PermissionDenied};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use settle_domain::alert::AlertKind;
use settle_domain::ids::MerchantId;
use settle_store::Occurrence;
use settle_store::conformance::alerts::{death, raise};
use settle_testing::binary::{Settle, block_on};
use settle_testing::serving::Serving;
use settle_wiring::system::SystemEntropy;

use crate::BINARY;
use crate::listening::from_now;

/// A group that is not root's.
const OTHER_GROUP: u32 = 65_534;
/// What somebody else says: it names the window, ends the line, and makes a line of its own.
const SAID: &str = "\u{1b}]0;owned\u{7}\r\nforged";

/// Files beside the database, and the database itself.
fn modes(settle: &Settle) -> Vec<(String, u32)> {
    let entries = std::fs::read_dir(settle.data()).expect("the data folder");
    let mode = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.expect("a file");
        let mode = entry.metadata().expect("its mode").permissions().mode() & 0o777;
        (entry.file_name().to_string_lossy().into_owned(), mode)
    };
    entries.map(mode).collect()
}

#[test]
fn every_file_is_its_owners_alone() {
    let settle = Settle::sqlite(BINARY);
    let (serving, _, _) = Serving::ready(&settle);
    let modes = modes(&settle);
    // The lock of who sends comes a moment later; the store tests its mode.
    for name in ["settle.db", "settle.db-migrate", "master.key"] {
        assert!(modes.iter().any(|(found, _)| found == name), "{name} is not in {modes:?}");
    }
    assert!(modes.iter().all(|(_, mode)| mode.trailing_zeros() >= 6), "{modes:?}");
    serving.stop();
}

#[test]
fn files_with_loose_modes_are_mended_with_a_warning() {
    let settle = Settle::sqlite(BINARY);
    settle.merchant();
    let names = ["settle.db", "settle.db-migrate", "settle.db-dispatch"];
    for name in names {
        let path = settle.data().join(name);
        std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o664)).unwrap();
    }
    let ran = settle.run(&["merchant", "list"]);
    ran.ok();
    for name in names {
        assert!(ran.stderr.contains(name) && ran.stderr.contains("664"), "{name}: {ran:?}");
    }
    assert!(modes(&settle).iter().all(|(_, mode)| mode.trailing_zeros() >= 6), "{:?}", modes(&settle));
    assert_eq!(settle.run(&["merchant", "list"]).stderr, "", "there is nothing left to mend");
}

/// Settings are the operator's own: the service says so and starts.
#[test]
fn a_secret_in_settings_that_everybody_can_read_is_a_warning() {
    let settle = Settle::sqlite(BINARY);
    let key = "5e".repeat(32);
    let bank = "[providers.bank]\nurl = \"http://127.0.0.1:9\"\nsecret = \"hush\"\n";
    let path = settle.write("settle.toml", &format!("master_key = \"{key}\"\n{bank}"));
    let set_mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    let words =
        "settle.toml holds master_key, providers.bank.secret and everybody can read it: run chmod o-rwx";
    set_mode(0o644);
    let ran = settle.run(&["config", "show"]);
    ran.ok();
    assert!(ran.stderr.contains(words) && !ran.stderr.contains(&key), "{ran:?}");
    let found = settle.run(&["doctor", "--json"]);
    assert!(found.stdout.contains(words) && !found.stdout.contains(&key), "{found:?}");
    // A file of root's is given to the user who runs settle by its group.
    set_mode(0o640);
    assert_eq!(settle.run(&["config", "show"]).stderr, "");
    assert!(!settle.run(&["doctor", "--json"]).stdout.contains("settle.toml"));
    settle.write("settle.toml", "[webhook]\nmax_attempts = 3\n");
    set_mode(0o644);
    assert_eq!(settle.run(&["config", "show"]).stderr, "", "there is no secret in it");
}

#[test]
fn a_file_of_a_secret_that_everybody_can_read_is_a_warning() {
    let settle = Settle::sqlite(BINARY);
    let key = "5e".repeat(32);
    let path = settle.write("ring", &key);
    let settle = settle.with("SETTLE_MASTER_KEY_FILE", path.to_str().unwrap());
    let set_mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    set_mode(0o644);
    let ran = settle.run(&["config", "show"]);
    ran.ok();
    let words = "ring holds master_key and everybody can read it: run chmod o-rwx";
    assert!(ran.stderr.contains(words) && !ran.stderr.contains(&key), "{ran:?}");
    set_mode(0o600);
    assert_eq!(settle.run(&["config", "show"]).stderr, "");
}

#[test]
fn the_service_leaves_no_core_dump() {
    let settle = Settle::sqlite(BINARY);
    let (serving, _, _) = Serving::ready(&settle);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", serving.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(words, ["0", "0"], "{core}");
    serving.stop();
}

/// Where core dumps go to a program, the limit does not hold, and a debugger needs none. The kernel shows who
/// is kept out by giving such a process's files to root, whoever runs it.
#[test]
fn the_memory_of_the_service_is_for_root_alone() {
    let settle = Settle::sqlite(BINARY);
    let mut command = settle.command(&["serve"]);
    command.env("SETTLE_API__LISTEN", "127.0.0.1:0").env("SETTLE_OPERATOR__LISTEN", "127.0.0.1:0");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    if rustix::process::geteuid().is_root() {
        // The files of root's process are root's anyway; those of its group are not.
        command.gid(OTHER_GROUP);
    }
    let mut child = match command.spawn() {
        // Where root may not change its group, nothing tells such a process from another.
        Err(refused) if [PermissionDenied, InvalidInput].contains(&refused.kind()) => {
            return eprintln!("LEFT OUT: {refused}");
        }
        spawned => spawned.unwrap(),
    };
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    // By its first line it has done what it does before everything else.
    let read = stderr.read_line(&mut line);
    let file = std::fs::metadata(format!("/proc/{}/limits", child.id()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(read.unwrap() > 0, "it says that it listens");
    let file = file.unwrap();
    assert_eq!((file.uid(), file.gid()), (0, 0), "{line}");
}

#[test]
fn the_service_takes_memory_in_small_pages() {
    let settle = Settle::sqlite(BINARY);
    let (serving, _, _) = Serving::ready(&settle);
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.id())).unwrap();
    assert!(status.lines().any(|line| line == "THP_enabled:\t0"), "{status}");
    serving.stop();
}

/// What a file says comes back in an error; a terminal must not obey it.
#[test]
fn an_error_shows_what_a_file_says_and_commands_no_terminal() {
    let settle = Settle::sqlite(BINARY);
    settle.write("settle.toml", "log.level = \"\\u001b]0;owned\\u0007\\u009b2J\"\n");
    let ran = settle.run(&["merchant", "list"]);
    let shown = ran.failed();
    assert!(shown.contains("owned"), "{shown:?}");
    assert!(shown.chars().all(|character| character == '\n' || !character.is_control()), "{shown:?}");
}

/// A service whose log has this format, when it has told of a delivery that died with such words, and of
/// something else in such words.
fn logged(format: &str) -> Vec<String> {
    let settle = Settle::sqlite(BINARY).with("SETTLE_LOG__FORMAT", format);
    let merchant: MerchantId = settle.merchant().parse().unwrap();
    let told = Occurrence {
        merchant_id: None,
        kind: AlertKind::BooksDisagree,
        subject: SAID.to_owned(),
        id: None,
        text: "the books \u{1b}[2J\u{7f}\u{9b}2J disagree".to_owned(),
    };
    block_on(async {
        let store = settle.store();
        raise(&*store, &[death(merchant, "https://merchant.example/hook", SAID)], from_now(0)).await;
        let mut tx = store.begin().await.unwrap();
        tx.alert_tell_many(None, &[told], from_now(0), Duration::ZERO, &SystemEntropy).await.unwrap();
        tx.commit().await.unwrap();
    });
    let mut serving = Serving::start(&settle, &[]);
    serving.wait_for_once("deliveries are dead");
    serving.wait_for_once(" disagree");
    serving.stop()
}

#[test]
fn the_log_shows_what_others_say_and_commands_no_terminal() {
    let logged = logged("text");
    let shows = |shown: &str| logged.iter().any(|line| line.contains(shown));
    assert!(shows(r#"last_error="\u{1b}]0;owned\u{7}\r\nforged""#), "{logged:#?}");
    assert!(shows(r#"subject="\u{1b}]0;owned\u{7}\r\nforged""#), "{logged:#?}");
    assert!(shows(r"the books \x1b[2J\x7f\u{9b}2J disagree"), "{logged:#?}");
    for line in &logged {
        assert!(!line.contains(char::is_control) && !line.starts_with("forged"), "{line:?}");
    }
}

#[test]
fn the_log_for_machines_has_what_others_say_on_one_line() {
    let logged = logged("json");
    let said = |field: &str| {
        let says = |line: &String| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|fault| panic!("{fault}: {line:?}"));
            line[field] == SAID
        };
        logged.iter().any(says)
    };
    assert!(said("last_error") && said("subject"), "{logged:#?}");
    assert!(logged.iter().all(|line| !line.contains(['\u{1b}', '\u{7}', '\r'])), "{logged:#?}");
}
