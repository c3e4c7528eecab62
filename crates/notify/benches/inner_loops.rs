//! The work before every attempt: `cargo bench -p settle-notify`.

#![expect(clippy::unwrap_used, reason = "what is written here can be read")]

use std::sync::Arc;

use divan::{Bencher, black_box};
use futures::FutureExt;
use settle_domain::event::EventType;
use settle_domain::ids::DeliveryId;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::guard::stub::StubResolver;
use settle_notify::guard::{Guard, GuardPolicy};
use settle_notify::notification::Notification;

/// The length of a usual notification.
const BODY_BYTES: usize = 600;
/// A URL with an address that the guard allows.
const LITERAL: &str = "https://93.184.215.14/settlements/hook?shop=7";
const NAMED: &str = "https://hooks.example.com/settlements/hook?shop=7";

fn main() {
    divan::main();
}

#[divan::bench]
fn sign_a_notification(bencher: Bencher) {
    let secret = WebhookSecret::parse("a secret of some length".to_owned()).unwrap();
    let delivery: DeliveryId = "0190d3c4-7c00-7000-8000-000000000001".parse().unwrap();
    let at = Timestamp::from_micros(1_769_851_800_000_000);
    bencher.with_inputs(|| vec![b'x'; BODY_BYTES]).bench_values(|body| {
        Notification::sign(black_box(&secret), delivery, EventType::SettlementCompleted, body, at)
    });
}

fn guard() -> Guard {
    Guard::new(GuardPolicy::default(), Arc::new(StubResolver::default()))
}

/// The whole verdict, which is ready at once: an address needs no name server.
#[divan::bench]
fn judge_an_address(bencher: Bencher) {
    let guard = guard();
    bencher.bench(|| guard.judge(black_box(LITERAL)).now_or_never().unwrap());
}

/// The part of the verdict that is needed for every attempt; the rest is needed for every connection.
#[divan::bench]
fn judge_the_text_of_a_url(bencher: Bencher) {
    let guard = guard();
    bencher.bench(|| guard.uri(black_box(NAMED)));
}
