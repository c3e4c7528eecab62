//! What the service keeps from others: its files, its memory, and the operator's terminal from what it shows.

use std::os::unix::fs::PermissionsExt;

use settle_testing::binary::Settle;
use settle_testing::serving::Serving;

use crate::BINARY;

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
fn the_service_leaves_no_core_dump() {
    let settle = Settle::sqlite(BINARY);
    let (serving, _, _) = Serving::ready(&settle);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", serving.id())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    let words: Vec<&str> = core.split_whitespace().skip(4).take(2).collect();
    assert_eq!(words, ["0", "0"], "{core}");
    serving.stop();
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
