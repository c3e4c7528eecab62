//! The conformance kit, tried on a sandbox and on sandboxes that are broken on purpose.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_provider::check::{Report, Terms, TermsFault, Verdict, examine};
use settle_provider::client::{ClientSettings, Endpoint};
use settle_provider::signing::ProviderSecret;
use settle_sandbox::{Broken, Sandbox, SandboxSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

fn secret() -> ProviderSecret {
    ProviderSecret::parse("hush".to_owned()).expect("a secret")
}

/// What the kit finds at a sandbox, and where that is.
async fn examined(
    change: impl FnOnce(Sandbox) -> Sandbox,
    terms: Terms,
) -> (Result<Report, TermsFault>, SocketAddr) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000)));
    let entropy = SeededEntropy::new(7);
    let settings = SandboxSettings { data: None, secret: secret() };
    let sandbox = Sandbox::open(settings, clock.clone(), &entropy).expect("a sandbox");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let endpoint = Endpoint::parse(&format!("http://{address}"));
    tokio::spawn(change(sandbox).serve(listener, std::future::pending()));
    let settings = ClientSettings {
        endpoint: endpoint.expect("a URL"),
        secret: secret(),
        timeout: Duration::from_secs(30),
        extra_roots_pem: Vec::new(),
    };
    (examine(settings, terms, clock, &entropy).await, address)
}

async fn report(change: impl FnOnce(Sandbox) -> Sandbox) -> Report {
    examined(change, Terms::Sandbox).await.0.expect("a sandbox")
}

fn failed(report: &Report) -> Vec<&'static str> {
    let failed = report.checks.iter().filter(|check| check.verdict == Verdict::Failed);
    failed.map(|check| check.check).collect()
}

#[tokio::test]
async fn the_sandbox_passes_every_check() {
    let report = report(|sandbox| sandbox).await;
    assert!(report.is_good(), "{report:#?}");
    assert_eq!(report.checks.len(), 13);
    assert!(report.checks.iter().all(|check| check.verdict == Verdict::Ok), "{report:#?}");
}

/// The check that must notice each fault.
fn noticed_by(broken: Broken) -> &'static str {
    match broken {
        Broken::ExecutesTwice | Broken::ForgetsKeys => "the same operation again is executed once",
        Broken::AcceptsOtherBodies => "another body under a known key is a conflict",
        Broken::LookUpLies => "look-ups tell the truth during a slow call",
        Broken::VoidDoesNotHold => "a void holds against a late request",
        Broken::AcceptsForgedSignatures => "a forged signature is turned away",
        Broken::AcceptsOldSignatures => "an old signature is turned away",
        Broken::RoundsAmounts => "amounts come back exactly",
        Broken::AnswersUnsigned => "capabilities are signed and complete",
        Broken::ListsNothing => "the list of changes has what was done",
    }
}

#[tokio::test]
async fn every_fault_is_noticed_by_its_check() {
    for broken in Broken::ALL {
        let report = report(|sandbox| sandbox.broken(broken)).await;
        assert!(failed(&report).contains(&noticed_by(broken)), "{broken:?}: {report:#?}");
    }
}

#[tokio::test]
async fn real_money_moves_only_when_it_is_asked_to_and_once() {
    let (refused, address) = examined(Sandbox::pretending_to_be_real, Terms::Sandbox).await;
    assert_eq!((refused, executions(address).await), (Err(TermsFault::NotASandbox), Vec::new()));

    let (destination, amount) = ("wallet".to_owned(), "1.5".parse().expect("a decimal"));
    let terms = Terms::Live { destination, amount, asset: Some("USDC".to_owned()) };
    let (report, address) = examined(Sandbox::pretending_to_be_real, terms).await;
    let report = report.expect("it may");
    assert!(report.is_good() && !report.sandbox, "{report:#?}");
    assert_eq!(report.checks.iter().filter(|check| check.verdict == Verdict::Skipped).count(), 3);
    let moved = executions(address).await;
    assert_eq!(moved.len(), 1, "{moved:?}");
    let execution = &moved[0];
    assert_eq!((&execution["amount"], &execution["reference"]), (&"1.500000".into(), &"wallet".into()));
    assert_eq!(execution["times"], 1);
}

/// What a sandbox has really executed.
async fn executions(address: SocketAddr) -> Vec<serde_json::Value> {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let request = "GET /sandbox/executions HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    let page: serde_json::Value = serde_json::from_str(body).expect("JSON");
    page["executions"].as_array().expect("a list").clone()
}
