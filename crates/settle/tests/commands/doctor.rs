//! `settle doctor`: its findings and its exit code.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use settle_testing::binary::{Ran, Settle, keys};

use crate::BINARY;

on_both_stores! {
    a_fresh_set_up_passes_with_a_word_on_migrations,
    a_ready_set_up_passes,
    an_exposed_master_key_fails,
    development_settings_are_a_warning,
}

/// A name server that knows no name: so the verdict does not depend on the network.
fn name_server() -> String {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it has an address").to_string();
    std::thread::spawn(move || {
        let mut packet = [0; 4_096];
        while let Ok((length, client)) = socket.recv_from(&mut packet) {
            // The question, turned into an answer: recursion available, no such name.
            packet[2] |= 0x80;
            packet[3] = 0x83;
            if socket.send_to(&packet[..length], client).is_err() {
                return;
            }
        }
    });
    address
}

fn examine(settle: &mut Settle) -> Ran {
    settle.set("SETTLE_WEBHOOK__NAMESERVERS", &name_server());
    settle.run(&["doctor", "--json"])
}

/// The verdict on one check.
#[track_caller]
fn verdict<'a>(findings: &'a Value, check: &str) -> (&'a str, &'a str) {
    let findings = findings.as_array().expect("findings");
    let finding = findings.iter().find(|finding| finding["check"] == check);
    let finding = finding.unwrap_or_else(|| panic!("{check} was not checked: {findings:#?}"));
    assert_eq!(keys(finding), ["check", "finding", "verdict"]);
    (finding["verdict"].as_str().unwrap(), finding["finding"].as_str().unwrap())
}

fn findings(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|fault| panic!("{fault}: {ran:?}"))
}

fn a_fresh_set_up_passes_with_a_word_on_migrations(settle: &mut Settle) {
    let ran = examine(settle);
    let findings = findings(&ran);
    assert_eq!(ran.code, Some(0), "{findings:#?}");
    let (schema, words) = verdict(&findings, "schema");
    assert!(schema == "warning" && words.contains("settle migrate"), "{words}");
    assert!(!settle.data().exists(), "a check makes nothing");
}

fn a_ready_set_up_passes(settle: &mut Settle) {
    settle.run(&["migrate"]).ok();
    let ran = examine(settle);
    let findings = findings(&ran);
    for check in ["settings", "master key", "database", "schema", "name servers"] {
        assert_eq!(verdict(&findings, check).0, "ok", "{check}");
    }
    assert_eq!(ran.code, Some(0));
    assert!(settle.run(&["doctor"]).ok().contains("CHECK"));
}

fn an_exposed_master_key_fails(settle: &mut Settle) {
    settle.merchant();
    let path = settle.data().join("master.key");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = examine(settle);
    assert_eq!(ran.code, Some(1));
    let findings = findings(&ran);
    let (master_key, words) = verdict(&findings, "master key");
    assert!(master_key == "failed" && words.contains("chmod 600"), "{words}");
}

fn development_settings_are_a_warning(settle: &mut Settle) {
    settle.set("SETTLE_WEBHOOK__ALLOW_HTTP", "true");
    let ran = examine(settle);
    assert_eq!((verdict(&findings(&ran), "settings").0, ran.code), ("warning", Some(0)));
}

#[test]
fn name_servers_that_are_away_are_a_warning() {
    let settle = Settle::sqlite(BINARY).with("SETTLE_WEBHOOK__NAMESERVERS", "127.0.0.1:9");
    let ran = settle.run(&["doctor", "--json"]);
    let findings = findings(&ran);
    let (name_servers, words) = verdict(&findings, "name servers");
    assert!(name_servers == "warning" && words.contains("webhook.nameservers"), "{words}");
    assert_eq!(ran.code, Some(0), "a warning is no failure");
}

#[test]
fn a_database_that_is_away_fails_and_its_password_is_not_shown() {
    let url = "postgres://settle:hunter2@127.0.0.1:9/settle";
    let ran = examine(&mut Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", url));
    assert_eq!(ran.code, Some(1));
    let findings = findings(&ran);
    let (database, words) = verdict(&findings, "database");
    assert!(database == "failed" && words.contains("127.0.0.1:9"), "{words}");
    assert!(!format!("{ran:?}").contains("hunter2"), "{ran:?}");
}

#[test]
fn an_unknown_kind_of_database_fails() {
    let url = "mysql://127.0.0.1/settle";
    let ran = examine(&mut Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", url));
    assert_eq!((ran.code, verdict(&findings(&ran), "database").0), (Some(1), "failed"));
}
