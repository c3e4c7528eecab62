//! No files left: an attempt that we could not make. A program of its own, because it changes a limit
//! of its process.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use settle_domain::event::EventType;
use settle_domain::ids::DeliveryId;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::guard::stub::StubResolver;
use settle_notify::guard::{Guard, GuardPolicy};
use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, AttemptFault, SendError, Sender, Transport};

/// Few, so that they are soon used up.
const FILES_MAX: u64 = 128;

fn notification() -> Notification {
    let secret = WebhookSecret::parse("whsec".to_owned()).unwrap();
    let at = Timestamp::from_micros(1_767_225_600_000_000);
    Notification::sign(&secret, DeliveryId::NIL, EventType::SettlementCompleted, b"{}".to_vec(), at)
}

#[tokio::test]
async fn without_files_no_attempt_is_made_and_with_files_again_it_is() {
    let limit = Rlimit { current: Some(FILES_MAX), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    // Nobody listens there: an attempt that is made is refused.
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let policy = GuardPolicy {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        allow_http: true,
        ..GuardPolicy::default()
    };
    let guard = Guard::new(policy, Arc::new(StubResolver::new()));
    let sender = Sender::new(guard, Duration::from_secs(30), b"").unwrap();
    let url = format!("http://{free}/");
    let files: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert_eq!(sender.attempt(&url, notification()).await, Err(SendError::Resources));
    drop(files);
    let refused = AttemptFault::Connect(std::io::ErrorKind::ConnectionRefused);
    let attempt = Attempt { response_status: None, fault: Some(refused) };
    assert_eq!(sender.attempt(&url, notification()).await, Ok(attempt));
}
