//! `settle serve --dev`: a test suite starts from nothing, and a real installation is not weakened.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use settle_testing::binary::{Settle, keys};
use settle_testing::serving::{Answer, Signal, ask, get, send_signal};
use tempfile::TempDir;

use crate::BINARY;
use crate::import::line;
use crate::listening::{Lines, Listening, SECRET};

/// A running `settle serve --dev`, killed at the end of the test unless it has stopped before.
struct Dev {
    child: Child,
    stdout: Lines,
    stderr: Lines,
    access: Value,
    /// The folder in which it makes its temporary folder.
    folder: TempDir,
}

impl Dev {
    /// Starts it with nothing but these variables, and reads the line.
    fn start(variables: &[(&str, &str)]) -> Dev {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Settle::sqlite(BINARY).command(&["serve", "--dev"]);
        command.env_clear().env("TMPDIR", folder.path()).envs(variables.iter().copied());
        command.current_dir(folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        let access = serde_json::from_str(&stdout.next()).unwrap();
        Dev { child, stdout, stderr, access, folder }
    }

    fn text(&self, field: &str) -> &str {
        self.access[field].as_str().unwrap_or_else(|| panic!("{field}: {}", self.access))
    }

    fn address(&self, field: &str) -> SocketAddr {
        self.text(field).strip_prefix("http://").unwrap().parse().unwrap()
    }

    fn merchant_asks(&self, method: &str, path: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(self.address("api_url"), method, path, self.text("api_key"), &body)
    }

    /// Stops it; returns the log.
    fn stop(mut self) -> String {
        send_signal(&self.child, Signal::TERM);
        self.stdout.finish();
        self.stderr.finish();
        let log = self.stderr.read.join("\n");
        assert_eq!(self.child.wait().unwrap().code(), Some(0), "{log}");
        assert_eq!(self.stdout.read.len(), 1, "one line and no more: {:?}", self.stdout.read);
        assert_eq!(std::fs::read_dir(self.folder.path()).unwrap().count(), 0, "nothing is left");
        log
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_test_suite_starts_from_nothing() {
    let dev = Dev::start(&[]);
    assert_eq!(
        keys(&dev.access),
        ["api_key", "api_url", "merchant_id", "operator_token", "operator_url"],
        "the names that test suites rely on"
    );
    assert_eq!(dev.merchant_asks("GET", "/v1/settlements", &Value::Null).json()["total"], 0);
    let mut listening = Listening::start(&[]);
    let url = format!("http://localhost:{}/hook", listening.address.port());
    let webhook = json!({ "webhook_url": url, "webhook_secret": SECRET });
    let put = dev.merchant_asks("PUT", "/v1/webhook", &webhook);
    assert_eq!(put.status, 200, "{put:?}");
    let settlement = line(Some(dev.text("merchant_id")), 7, json!({}));
    let (operator, token) = (dev.address("operator_url"), dev.text("operator_token"));
    let posted = ask(operator, "POST", "/operator/v1/settlements", token, &settlement);
    assert_eq!(posted.json(), json!({ "recorded": 1, "unchanged": 0, "notified": 1 }), "{posted:?}");
    let arrived = listening.block().concat();
    assert!(arrived.contains("  NEW ") && arrived.contains("payin-7"), "{arrived}");
    let log = dev.stop();
    assert!(log.contains("THIS SERVICE IS FOR DEVELOPMENT"), "{log}");
    assert!(log.contains("THE ADDRESS GUARD IS OPENED FOR DEVELOPMENT"), "{log}");
}

#[test]
fn the_line_has_the_ports_that_the_system_chose_and_settings_count() {
    let any = "127.0.0.1:0";
    let dev = Dev::start(&[
        ("SETTLE_API__LISTEN", any),
        ("SETTLE_OPERATOR__LISTEN", any),
        ("SETTLE_LOG__LEVEL", "error"),
    ]);
    let (api, operator) = (dev.address("api_url"), dev.address("operator_url"));
    assert!(api.port() != 0 && operator.port() != 0 && api != operator, "{}", dev.access);
    assert_eq!(get(operator, "/readyz", "").status, 200);
    assert_eq!(dev.stop(), "", "the log is as the setting says");
}

#[test]
fn a_data_folder_that_is_given_keeps_the_merchant() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data").display().to_string();
    let variables = [("SETTLE_DATA_DIR", data.as_str())];
    let first = Dev::start(&variables);
    let merchant = first.text("merchant_id").to_owned();
    let first_key = first.text("api_key").to_owned();
    first.stop();
    let again = Dev::start(&variables);
    assert_eq!(again.text("merchant_id"), merchant);
    assert_ne!(again.text("api_key"), first_key);
    assert_eq!(get(again.address("api_url"), "/v1/settlements", &first_key).status, 200, "it still works");
    again.stop();
    std::fs::remove_file(folder.path().join("data/settle.db")).unwrap();
    let anew = Dev::start(&variables);
    assert_ne!(anew.text("merchant_id"), merchant, "the database that knew it is gone");
    assert_eq!(anew.merchant_asks("GET", "/v1/settlements", &Value::Null).status, 200);
    anew.stop();
}

#[test]
fn what_looks_like_a_real_installation_is_refused() {
    let master_key = "5e".repeat(32);
    for (name, value, reason) in [
        ("SETTLE_DATABASE_URL", "postgres://settle:hunter2@db.example/settle", "database_url is set"),
        ("SETTLE_DATABASE_URL", "sqlite:///var/lib/settle/settle.db", "database_url is set"),
        ("SETTLE_MASTER_KEY", master_key.as_str(), "master_key is set"),
        ("SETTLE_API__LISTEN", "0.0.0.0:0", "api.listen is 0.0.0.0:0, which others can reach"),
        ("SETTLE_OPERATOR__LISTEN", "[::]:0", "operator.listen is [::]:0, which others can reach"),
    ] {
        let settle = Settle::sqlite(BINARY).with(name, value);
        let ran = settle.run(&["serve", "--dev"]);
        assert!(ran.failed().contains(reason), "{name}: {ran:?}");
        assert!(ran.stderr.contains("webhook.allow_networks"), "it says what to do: {ran:?}");
        assert!(!ran.stderr.contains("hunter2") && !ran.stderr.contains(&master_key), "{ran:?}");
        assert!(!settle.data().exists(), "nothing is made");
    }
    let settle = Settle::sqlite(BINARY);
    settle.merchant();
    let ran = settle.run(&["serve", "--dev"]);
    assert!(ran.failed().contains("was not made by --dev"), "{ran:?}");
    let ran = settle.run(&["serve", "--dev", "--role", "api"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
}

#[test]
fn a_port_that_is_set_is_that_port_or_none() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let ran = Settle::sqlite(BINARY).with("SETTLE_API__LISTEN", &taken).run(&["serve", "--dev"]);
    assert!(ran.failed().contains(&format!("api.listen: cannot listen on {taken}")), "{ran:?}");
}
