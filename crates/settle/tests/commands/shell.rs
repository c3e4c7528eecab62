//! What a shell has of the command: completions, manual pages, the version, pipes that close.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use serde_json::Value;
use settle_testing::binary::{Settle, text};
use settle_testing::serving::{Signal, get, send_signal};

use crate::BINARY;

#[test]
fn every_shell_gets_completions() {
    let settle = Settle::sqlite(BINARY);
    for shell in ["bash", "zsh", "fish"] {
        let ran = settle.run(&["completions", shell]);
        assert!(ran.ok().contains("redeliver") && ran.stdout.contains("doctor"), "{shell}: {ran:?}");
    }
}

#[test]
fn every_command_gets_a_manual_page() {
    let settle = Settle::sqlite(BINARY);
    let folder = settle.data().join("man");
    settle.run(&["man", text(&folder)]).ok();
    for page in ["settle.1", "settle-serve.1", "settle-delivery-redeliver.1"] {
        let page =
            std::fs::read_to_string(folder.join(page)).unwrap_or_else(|fault| panic!("{page}: {fault}"));
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    let file = settle.write("file", "");
    let refused = settle.run(&["man", text(&file)]);
    assert!(refused.failed().contains(text(&file)), "{refused:?}");
}

#[test]
fn the_version_says_the_commit() {
    let ran = Settle::sqlite(BINARY).run(&["--version"]);
    let version = concat!("settle ", env!("CARGO_PKG_VERSION"));
    let rest = ran.ok().trim().strip_prefix(version).unwrap_or_else(|| panic!("{ran:?}"));
    let is_commit = |text: &str| {
        let commit = text.strip_prefix(" (").and_then(|text| text.strip_suffix(')'));
        commit
            .is_some_and(|commit| commit.len() >= 10 && commit.chars().all(|digit| digit.is_ascii_hexdigit()))
    };
    // A source archive has no commit.
    assert!(rest.is_empty() || is_commit(rest), "{rest:?}");
}

/// As `settle merchant list | head -1` where `head` has ended already.
#[test]
fn no_listing_fails_because_nobody_reads_it() {
    let settle = Settle::sqlite(BINARY);
    let merchant = settle.merchant();
    let file = settle.write("import.jsonl", "");
    for arguments in [
        &["merchant", "list"][..],
        &["merchant", "list", "--json"],
        &["merchant", "create", "Second"],
        &["key", "list", &merchant],
        &["operator", "list"],
        &["delivery", "list"],
        &["delivery", "list", "--json"],
        &["delivery", "redeliver", "--all", "--dry-run"],
        &["settlement", "import", text(&file)],
        &["master-key", "status"],
        &["config", "show"],
        &["config", "defaults"],
        &["doctor"],
        &["completions", "fish"],
        &["--help"],
        &["--version"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = settle.command(arguments).stdin(Stdio::null()).stdout(writer).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let settle = Settle::sqlite(BINARY);
    let mut command = settle.command(&["openapi"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    // More than a pipe holds is written, so the command meets the closed end.
    let mut first = [0; 1];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("the first byte");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As `settle serve 2>&1 | head -1`.
#[test]
fn a_log_that_nobody_reads_ends_nothing() {
    let settle = Settle::sqlite(BINARY);
    let mut command = settle.command(&["serve"]);
    command.env("SETTLE_API__LISTEN", "127.0.0.1:0").env("SETTLE_OPERATOR__LISTEN", "127.0.0.1:0");
    let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it runs");
    let log = BufReader::new(child.stderr.take().expect("a pipe"));
    let mut running = Running(child);
    // The listener of the operators is the last that listens.
    let last = log.lines().map(|line| line.expect("UTF-8")).find(|line| line.contains("operator's listener"));
    let last: Value = serde_json::from_str(&last.expect("it listens")).expect("a line is JSON");
    let address: SocketAddr = last["address"].as_str().expect("an address").parse().expect("an address");
    assert_eq!(get(address, "/nothing", "").status, 404, "logged, or not, and answered");
    assert_eq!(get(address, "/healthz", "").status, 200);
    send_signal(&running.0, Signal::TERM);
    assert_eq!(running.0.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_failure_that_nobody_reads_is_an_exit_code() {
    let settle = Settle::sqlite(BINARY);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = settle.command(&["merchant", "list"]);
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status().expect("it runs");
    assert_eq!(status.code(), Some(1), "there is no database");
}
