//! `settle sandbox` and `settle provider check`: two processes, of which one may be killed.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;
use settle_domain::seams::Clock;
use settle_domain::signature;
use settle_testing::binary::{Settle, text};
use settle_testing::serving::{Answer, answer, get, send};
use settle_wiring::system::SystemClock;

use crate::BINARY;
use crate::listening::Lines;

/// A running sandbox, killed at the end of the test or before.
pub struct Running {
    child: Child,
    pub address: SocketAddr,
}

impl Running {
    pub fn start(settle: &Settle, arguments: &[&str]) -> Running {
        let given: Vec<&str> =
            ["sandbox", "--listen", "127.0.0.1:0"].iter().chain(arguments).copied().collect();
        let mut command = settle.command(&given);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        let mut stderr = Lines::of(child.stderr.take().expect("it was asked for"));
        let line = stderr.next();
        let address = line.strip_prefix("Listening on http://").and_then(|rest| rest.split(',').next());
        let address = address.unwrap_or_else(|| panic!("{line}")).parse().expect("an address");
        Running { child, address }
    }

    fn pay_out(&self, number: u8, destination: &str) -> Answer {
        let body = format!(
            r#"{{"operation_id":"{}","asset":"USDC","amount":"1.500000","destination_reference":"{destination}"}}"#,
            id(number)
        );
        answer(self.signed("POST", "/payouts", &body))
    }

    fn signed(&self, method: &str, path: &str, body: &str) -> std::net::TcpStream {
        let now = SystemClock.now();
        let signature = signature::sign(b"hush", now, body.as_bytes());
        let timestamp = now.as_seconds().to_string();
        let headers = [("service-timestamp", timestamp.as_str()), ("service-signature", signature.as_str())];
        send(self.address, method, path, &headers, body)
    }

    fn capabilities(&self) -> Value {
        answer(self.signed("GET", "/capabilities", "")).json()
    }

    pub fn executions(&self) -> Value {
        get(self.address, "/sandbox/executions", "").json()
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn id(number: u8) -> String {
    format!("0190d3c4-7c00-8000-8000-0000000000{number:02x}")
}

fn with_file(settle: &Settle, file: &Path) -> Running {
    Running::start(settle, &["--secret", "hush", "--data", text(file)])
}

#[test]
fn what_was_executed_survives_kill_nine() {
    let settle = Settle::sqlite(BINARY);
    let file = settle.data().join("bank.jsonl");
    let mut first = with_file(&settle, &file);
    assert_eq!(first.pay_out(1, "wallet").status, 200);
    // Executed and not answered: it must be there as well.
    let hanging = first.signed(
        "POST",
        "/payouts",
        &format!(
            r#"{{"operation_id":"{}","asset":"USDC","amount":"2.000000","destination_reference":"sandbox:timeout"}}"#,
            id(2)
        ),
    );
    while first.executions()["executions"].as_array().map(Vec::len) != Some(2) {}
    let (instance, executed) = (first.capabilities()["instance"].clone(), first.executions());
    first.kill();
    drop(hanging);
    let second = with_file(&settle, &file);
    assert_eq!(
        (second.capabilities()["instance"].clone(), second.executions()),
        (instance.clone(), executed)
    );
    assert_eq!(second.pay_out(1, "wallet").status, 200);
    assert_eq!(second.executions()["executions"][0]["times"], 1);
    let other = with_file(&settle, &settle.data().join("other.jsonl"));
    assert_ne!(other.capabilities()["instance"], instance);
    let ran = settle.run(&["sandbox", "--listen", "127.0.0.1:0", "--data", text(&file)]);
    assert!(ran.failed().contains("another sandbox uses it"), "{ran:?}");
}

#[test]
fn the_sandbox_conforms_and_the_report_says_so() {
    let settle = Settle::sqlite(BINARY);
    let sandbox = Running::start(&settle, &["--secret", "hush"]);
    let url = format!("http://{}", sandbox.address);
    let ran = settle.run(&["provider", "check", &url, "--secret", "hush"]);
    assert!(ran.ok().ends_with("It conforms.\n"), "{ran:?}");
    assert!(ran.stdout.contains("ok  a void holds against a late request"), "{ran:?}");
    let report = settle.run(&["provider", "check", &url, "--secret", "hush", "--json"]).json();
    assert_eq!((&report["conforms"], &report["sandbox"]), (&true.into(), &true.into()));
    assert!(!settle.data().exists(), "neither needs a file");
}

#[test]
fn a_provider_that_does_not_conform_is_an_exit_code() {
    let settle = Settle::sqlite(BINARY);
    let sandbox = Running::start(&settle, &["--secret", "hush"]);
    let url = format!("http://{}", sandbox.address);
    let ran = settle.run(&["provider", "check", &url, "--secret", "wrong"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("FAILED  capabilities are signed"), "{ran:?}");
    assert!(ran.stdout.ends_with("It does NOT conform.\n"), "{ran:?}");
}

#[test]
fn bad_arguments_are_refused_without_repeating_the_secret() {
    let settle = Settle::sqlite(BINARY);
    let ran = settle.run(&["provider", "check", "ftp://bank", "--secret", "hush"]);
    assert!(ran.failed().contains("is not a URL such as"), "{ran:?}");
    let ran = settle.run(&["provider", "check", "http://127.0.0.1:9", "--live"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let ran = settle.run(&["provider", "check", "http://127.0.0.1:9", "--amount", "1"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    let ran = settle.run(&["sandbox", "--secret", "hush\u{7f}"]);
    assert!(ran.failed().contains("1 to 256 bytes") && !ran.stderr.contains("hush"), "{ran:?}");
}
