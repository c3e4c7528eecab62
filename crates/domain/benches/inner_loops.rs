//! The work that the service does without I/O for every settlement or every attempt.
//! Start it with `cargo bench -p settle-domain`.

#![expect(clippy::unwrap_used, reason = "what is written here can be read")]

use std::fmt::Write;

use divan::{Bencher, black_box};
use settle_domain::event::EventType;
use settle_domain::ids::SettlementId;
use settle_domain::quote::{FixedSide, QuoteInput, quote};
use settle_domain::settlement::Settlement;
use settle_domain::signature::sign;
use settle_domain::time::Timestamp;

/// The bytes of a usual notification.
const BODY_BYTES: usize = 600;

fn main() {
    divan::main();
}

fn settlement() -> Settlement {
    let at: Timestamp = "2026-01-31T09:30:00Z".parse().unwrap();
    Settlement {
        settlement_id: SettlementId::NIL,
        completed_at: Some(at),
        occurred_at: at,
        payin_reference: "E2026013109300001".to_owned(),
        payout_reference: Some(
            "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b".to_owned(),
        ),
        destination_reference: "wallet-treasury".to_owned(),
        incoming_currency: "BRL".to_owned(),
        incoming_amount: "1000.00".parse().unwrap(),
        outgoing_currency: "USDC".to_owned(),
        outgoing_amount: Some("181.149631".parse().unwrap()),
        conversion_rate: "5.43".parse().unwrap(),
        fixed_side: FixedSide::Incoming,
        fee_percentage: "1.5".parse().unwrap(),
        fee_percentage_amount: Some("2.762431".parse().unwrap()),
        fee_fixed: "0.250000".parse().unwrap(),
    }
}

#[divan::bench]
fn sign_a_body(bencher: Bencher) {
    let (at, body) = (Timestamp::from_micros(1_769_851_800_000_000), vec![b'x'; BODY_BYTES]);
    bencher.bench(|| sign(black_box(b"a secret of some length"), at, black_box(&body)));
}

#[divan::bench]
fn print_a_time(bencher: Bencher) {
    let mut text = String::with_capacity(64);
    bencher.bench_local(|| {
        text.clear();
        write!(text, "{}", black_box(Timestamp::from_micros(1_769_851_800_123_456)))
    });
}

#[divan::bench]
fn read_a_time() -> Timestamp {
    black_box("2026-01-31T09:30:00.123456+00:00").parse().unwrap()
}

#[divan::bench]
fn render_a_record(bencher: Bencher) {
    let settlement = settlement();
    bencher.bench(|| black_box(&settlement).record());
}

#[divan::bench]
fn render_a_notification(bencher: Bencher) {
    let record = settlement().record();
    bencher.bench(|| black_box(&record).notification(EventType::SettlementCompleted));
}

#[divan::bench(args = [FixedSide::Incoming, FixedSide::Outgoing])]
fn quote_one_side(bencher: Bencher, fixed_side: FixedSide) {
    let input = QuoteInput {
        fixed_side,
        amount: "1000.00".parse().unwrap(),
        incoming_decimals: 2,
        outgoing_decimals: 6,
        conversion_rate: "5.43".parse().unwrap(),
        fee_percentage: "1.5".parse().unwrap(),
        fee_fixed: "0.25".parse().unwrap(),
    };
    bencher.bench(|| quote(black_box(&input)));
}
