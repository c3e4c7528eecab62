//! `settle doctor`: its findings and its exit code.

use std::io::{Seek, SeekFrom, Write};
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use settle_store_postgres::testing::{limited_url, scratch_url};
use settle_testing::binary::{Ran, Settle, block_on, keys};
use settle_testing::serving::Serving;

use crate::BINARY;

on_both_stores! {
    a_fresh_set_up_passes_with_a_word_on_migrations,
    a_ready_set_up_passes,
    an_exposed_master_key_fails,
    development_settings_are_a_warning,
    a_master_key_that_is_gone_fails_with_the_remedy,
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

/// Tests that run side by side must not take a port from each other.
fn any_ports(settle: &mut Settle) {
    for listener in ["API", "OPERATOR"] {
        settle.set(&format!("SETTLE_{listener}__LISTEN"), "127.0.0.1:0");
    }
}

fn examine(settle: &mut Settle) -> Ran {
    settle.set("SETTLE_WEBHOOK__NAMESERVERS", &name_server());
    any_ports(settle);
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
    let checks = ["settings", "data folder", "master key", "database", "schema", "name servers"];
    for check in checks.into_iter().chain(["api.listen", "operator.listen"]) {
        assert_eq!(verdict(&findings, check).0, "ok", "{check}");
    }
    assert_eq!(ran.code, Some(0));
    assert!(settle.run(&["doctor"]).ok().contains("CHECK"), "as a table");
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

/// Nothing says beside it that the first command makes one.
fn a_master_key_that_is_gone_fails_with_the_remedy(settle: &mut Settle) {
    settle.merchant();
    std::fs::remove_file(settle.data().join("master.key")).unwrap();
    let ran = examine(settle);
    let findings = findings(&ran);
    let (master_key, words) = verdict(&findings, "master key");
    assert!(master_key == "failed" && words.contains("bring master.key back"), "{words}");
    assert_eq!(ran.code, Some(1));
}

fn development_settings_are_a_warning(settle: &mut Settle) {
    settle.set("SETTLE_WEBHOOK__ALLOW_HTTP", "true");
    let ran = examine(settle);
    assert_eq!((verdict(&findings(&ran), "settings").0, ran.code), ("warning", Some(0)));
}

#[test]
fn name_servers_that_are_away_are_a_warning() {
    let mut settle = Settle::sqlite(BINARY).with("SETTLE_WEBHOOK__NAMESERVERS", "127.0.0.1:9");
    any_ports(&mut settle);
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

/// Whoever is root has the right to write there, and cannot.
#[test]
fn a_folder_that_cannot_be_made_fails() {
    let mut settle = Settle::sqlite(BINARY).with("SETTLE_DATA_DIR", "/proc/settle");
    let ran = examine(&mut settle);
    let findings = findings(&ran);
    let (folder, words) = verdict(&findings, "data folder");
    assert!(folder == "failed" && words.contains("data_dir"), "{words}");
    assert_eq!(ran.code, Some(1));
}

#[test]
fn what_the_settings_name_must_be_there() {
    let mut settle = Settle::sqlite(BINARY).with("SETTLE_WEBHOOK__EXTRA_ROOTS", "/nowhere/roots.pem");
    let file = settle.write("file", "");
    settle.set("SETTLE_DATA_DIR", &file.join("data").display().to_string());
    let ran = examine(&mut settle);
    let findings = findings(&ran);
    let (certificates, words) = verdict(&findings, "certificates");
    assert!(certificates == "failed" && words.contains("webhook.extra_roots"), "{words}");
    let (folder, words) = verdict(&findings, "data folder");
    assert!(folder == "failed" && words.contains("data_dir"), "{words}");
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_provider_that_serve_refuses_fails_with_the_same_words() {
    for (url, secret, setting) in [
        ("notaurl", "hush", "providers.bank.url: "),
        ("ftp://bank.example", "hush", "providers.bank.url: "),
        ("https://bank.example", "", "providers.bank.secret: "),
    ] {
        let mut settle = Settle::sqlite(BINARY)
            .with("SETTLE_PROVIDERS__BANK__URL", url)
            .with("SETTLE_PROVIDERS__BANK__SECRET", secret);
        let ran = examine(&mut settle);
        let findings = findings(&ran);
        let (providers, words) = verdict(&findings, "providers");
        assert!(providers == "failed" && words.starts_with(setting), "{words}");
        assert_eq!(ran.code, Some(1));
        let served = settle.run(&["serve"]);
        assert!(served.code == Some(1) && served.stderr.contains(words), "{words}: {served:?}");
    }
    let mut settle = Settle::sqlite(BINARY)
        .with("SETTLE_PROVIDERS__BANK__URL", "https://bank.example")
        .with("SETTLE_PROVIDERS__BANK__SECRET", "hush");
    let ran = examine(&mut settle);
    assert_eq!(verdict(&findings(&ran), "providers"), ("ok", "bank: the settings can be used"));
}

#[test]
fn listeners_that_want_one_address_fail() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let everywhere = format!("0.0.0.0:{}", free.port());
    for (api, operator) in [
        (free.to_string(), free.to_string()),
        (everywhere.clone(), free.to_string()),
        (free.to_string(), everywhere),
    ] {
        let settle = Settle::sqlite(BINARY)
            .with("SETTLE_WEBHOOK__NAMESERVERS", &name_server())
            .with("SETTLE_API__LISTEN", &api)
            .with("SETTLE_OPERATOR__LISTEN", &operator);
        let ran = settle.run(&["doctor", "--json"]);
        let findings = findings(&ran);
        let (listener, words) = verdict(&findings, "operator.listen");
        assert!(listener == "failed" && words.contains("collides with api.listen"), "{words}");
        assert_eq!(ran.code, Some(1));
    }
}

#[test]
fn the_master_keys_are_counted_and_named_in_words() {
    let (one, other) = ("11".repeat(32), "22".repeat(32));
    let rings = [(one.clone(), "the ring has 1 key: "), (format!("{one},{other}"), "the ring has 2 keys: ")];
    for (ring, words) in rings {
        let ran = examine(&mut Settle::sqlite(BINARY).with("SETTLE_MASTER_KEY", &ring));
        let findings = findings(&ran);
        let (master_key, found) = verdict(&findings, "master key");
        assert!(master_key == "ok" && found.starts_with(words) && !found.contains(&one), "{found}");
    }
}

#[test]
fn certificates_that_are_none_fail() {
    let mut settle = Settle::sqlite(BINARY);
    let private = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    for content in ["", "no certificate\n", private, "\u{feff}-----BEGIN CERTIFICATE-----\n"] {
        let file = settle.write("roots.pem", content).display().to_string();
        settle.set("SETTLE_WEBHOOK__EXTRA_ROOTS", &file);
        let words = format!("webhook.extra_roots: {file} has no certificate");
        let ran = examine(&mut settle);
        let findings = findings(&ran);
        let (certificates, found) = verdict(&findings, "certificates");
        assert!(certificates == "failed" && found.starts_with(&words), "{found}");
        assert_eq!(ran.code, Some(1));
        let served = settle.run(&["serve"]);
        assert!(served.failed().contains(&words), "{served:?}");
    }
}

#[test]
fn a_port_that_another_program_has_fails_and_one_that_settle_has_is_fine() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut settle = Settle::sqlite(BINARY).with("SETTLE_WEBHOOK__NAMESERVERS", &name_server());
    let (serving, api, _) = Serving::ready(&settle);
    settle.set("SETTLE_API__LISTEN", &api.to_string());
    settle.set("SETTLE_OPERATOR__LISTEN", &other.local_addr().unwrap().to_string());
    // It has the port, and says nothing.
    let ran = settle.run(&["doctor", "--json"]);
    let findings = findings(&ran);
    let (own, words) = verdict(&findings, "api.listen");
    assert!(own == "ok" && words.contains("a running settle"), "{words}");
    let (taken, words) = verdict(&findings, "operator.listen");
    assert!(taken == "failed" && words.contains("set operator.listen"), "{words}");
    assert_eq!(ran.code, Some(1));
    serving.stop();
}

#[test]
fn a_schema_of_a_later_version_fails() {
    let mut settle = Settle::sqlite(BINARY);
    settle.run(&["migrate"]).ok();
    // The number of steps that the file has taken stands in its head.
    let mut file = std::fs::File::options().write(true).open(settle.data().join("settle.db")).unwrap();
    file.seek(SeekFrom::Start(60)).and_then(|_| file.write_all(&999u32.to_be_bytes())).unwrap();
    drop(file);
    let ran = examine(&mut settle);
    let findings = findings(&ran);
    let (schema, words) = verdict(&findings, "schema");
    assert!(schema == "failed" && words.contains("later version"), "{words}");
    assert!(settle.run(&["merchant", "list"]).failed().contains("later version"));
}

/// Whoever asks what is wrong changes nothing.
#[test]
fn files_that_others_can_read_are_a_warning_and_stay_so() {
    let mut settle = Settle::sqlite(BINARY);
    settle.merchant();
    let path = settle.data().join("settle.db");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = examine(&mut settle);
    let findings = findings(&ran);
    let (files, words) = verdict(&findings, "files");
    assert!(files == "warning" && words.contains("settle.db: settle serve takes"), "{words}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o644);
}

#[test]
fn an_address_that_the_machine_does_not_have_is_told_from_one_that_is_taken() {
    let mut settle = Settle::sqlite(BINARY);
    any_ports(&mut settle);
    let settle = settle.with("SETTLE_API__LISTEN", "192.0.2.1:8080");
    let findings = findings(&settle.run(&["doctor", "--json"]));
    let (listen, words) = verdict(&findings, "api.listen");
    assert!(listen == "failed" && words.contains("does not have that address: set api.listen"), "{words}");
    let ran = settle.run(&["serve"]);
    assert!(ran.stderr.contains("does not have that address: set api.listen"), "{ran:?}");
}

#[test]
fn a_database_that_refuses_is_named_with_the_cause() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("postgres://settle:hunter2@127.0.0.1:{free}/settle");
    let settle = Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", &url);
    for command in ["serve", "migrate"] {
        let ran = settle.run(&[command]);
        let words = format!("database_url: postgres://settle:…@127.0.0.1:{free}/settle cannot be used");
        assert!(ran.stderr.contains(&words) && ran.stderr.contains("refused"), "{command}: {ran:?}");
        assert!(!ran.stderr.contains("hunter2"), "{ran:?}");
    }
}

#[test]
fn a_file_that_is_no_database_is_named() {
    let settle = Settle::sqlite(BINARY);
    let path = settle.write("notes.db", &"these are notes, not a database\n".repeat(100));
    let settle = settle.with("SETTLE_DATABASE_URL", &format!("sqlite://{}", path.display()));
    let ran = settle.run(&["serve"]);
    assert!(ran.stderr.contains("database_url: ") && ran.stderr.contains("notes.db"), "{ran:?}");
    assert!(ran.stderr.contains("not a database"), "{ran:?}");
}

/// A standby, or a session that only reads: the service could not start, or answer a single write.
#[test]
fn a_database_that_takes_no_writes_fails() {
    let url = block_on(scratch_url());
    let mut settle = Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", &url);
    settle.run(&["migrate"]).ok();
    let sign = if url.contains('?') { '&' } else { '?' };
    let read_only = format!("{url}{sign}options=-c%20default_transaction_read_only=on");
    settle.set("SETTLE_DATABASE_URL", &read_only);
    let ran = examine(&mut settle);
    let findings = findings(&ran);
    assert_eq!(ran.code, Some(1), "{findings:#?}");
    let (writing, words) = verdict(&findings, "writing");
    assert!(writing == "failed" && words.contains("nothing can be written"), "{words}");
}

/// The service would refuse to start, also where there is no file yet.
#[test]
fn a_schema_that_nobody_migrates_fails() {
    for url in [Some(block_on(scratch_url())), None] {
        let mut settle = Settle::sqlite(BINARY).with("SETTLE_DATABASE__MIGRATE", "false");
        if let Some(url) = &url {
            settle.set("SETTLE_DATABASE_URL", url);
        }
        let ran = examine(&mut settle);
        let findings = findings(&ran);
        let (schema, words) = verdict(&findings, "schema");
        assert!(
            schema == "failed" && words.ends_with("database.migrate is false: run settle migrate"),
            "{words}"
        );
        assert_eq!(ran.code, Some(1));
    }
}

/// It may not even read which version the schema has.
#[test]
fn a_role_that_may_read_nothing_is_told_what_it_lacks() {
    let url = block_on(scratch_url());
    let mut settle = Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", &url);
    settle.run(&["migrate"]).ok();
    settle.set("SETTLE_DATABASE_URL", &block_on(limited_url(&url)).0);
    let ran = examine(&mut settle);
    let findings = findings(&ran);
    assert_eq!(ran.code, Some(1), "{findings:#?}");
    let (rights, words) = verdict(&findings, "rights");
    assert_eq!(rights, "failed");
    assert!(words.contains("database_grant_missing: as the owner of the tables run GRANT SELECT"), "{words}");
}
