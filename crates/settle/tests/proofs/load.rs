//! The load: threads that post batches of settlements until they are acknowledged.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::json;
use settle_testing::serving::PATIENCE;

use crate::tally::SharedTally;

/// Settlements in one batch.
const BATCH: u64 = 20;
/// Settlements posted but not yet arrived, at most: enough that there is always something to send, few enough
/// that a proof stays short.
const OUTSTANDING_MAX: u64 = 400;

/// The threads that post.
pub struct Load {
    tally: Arc<SharedTally>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts this many threads, which post to the operators in the tally.
    pub fn start(tally: &Arc<SharedTally>, token: &str, merchants: &[String], threads: usize) -> Load {
        tally.change(|tally| tally.loading = true);
        let merchants: Arc<[String]> = merchants.into();
        let start = |thread| {
            let (tally, token, merchants) = (tally.clone(), token.to_owned(), merchants.clone());
            std::thread::spawn(move || post_batches(&tally, &token, &merchants, thread))
        };
        Load { tally: tally.clone(), threads: (0..threads).map(start).collect() }
    }

    /// Stops the load once the batches under way are acknowledged.
    pub fn stop(self) {
        self.tally.change(|tally| tally.loading = false);
        for thread in self.threads {
            thread.join().expect("every batch was acknowledged");
        }
    }
}

fn post_batches(tally: &SharedTally, token: &str, merchants: &[String], thread: usize) {
    loop {
        tally.wait("there is room for another batch", |tally| {
            let arrived = u64::try_from(tally.settlements.len()).expect("not that many");
            !tally.loading || tally.posted - arrived < OUTSTANDING_MAX
        });
        let first = tally.change(|tally| {
            let first = tally.posted;
            tally.posted += if tally.loading { BATCH } else { 0 };
            tally.loading.then_some(first)
        });
        let Some(first) = first else { return };
        let settlement = |number: u64| {
            let merchants_number = u64::try_from(merchants.len()).expect("few merchants");
            let merchant = usize::try_from(number % merchants_number).expect("few merchants");
            settlement(&merchants[merchant], number)
        };
        let batch: Vec<_> = (first..first + BATCH).map(settlement).collect();
        post(tally, token, &json!(batch).to_string(), thread);
        tally.change(|tally| tally.acknowledged += BATCH);
    }
}

/// Posts a batch until it is acknowledged. If there are several operators, each attempt goes to the next.
pub fn post(tally: &SharedTally, token: &str, batch: &str, thread: usize) {
    let mut turn = thread;
    tally.retry("a batch is acknowledged", || {
        let operators = tally.read().operators.clone();
        let operator = operators.get(turn % operators.len().max(1))?;
        turn += 1;
        match try_post(*operator, token, batch).ok()? {
            200 => Some(()),
            // The database cannot be reached.
            500.. => None,
            status => panic!("a batch was answered with {status}"),
        }
    });
}

/// Posts a batch once. Returns the status, or an error if the service dies before the whole answer has
/// arrived.
fn try_post(operator: SocketAddr, token: &str, batch: &str) -> io::Result<u16> {
    try_ask(operator, "POST", "/operator/v1/settlements", token, batch).map(|(status, _)| status)
}

/// Asks an operator's listener once. Returns the status and the body, or an error if the service dies before
/// the whole answer has arrived.
pub fn try_ask(
    operator: SocketAddr,
    method: &str,
    path: &str,
    token: &str,
    body: &str,
) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&operator, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: settle\r\nconnection: close\r\n\
         authorization: Bearer {token}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len(),
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let is_whole = length.is_some_and(|length| length.parse() == Ok(body.len()));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).filter(|_| is_whole);
    Ok((status.ok_or(io::ErrorKind::UnexpectedEof)?, body.to_owned()))
}

/// A completed settlement; its id carries its number.
pub fn settlement(merchant: &str, number: u64) -> serde_json::Value {
    json!({
        "merchant_id": merchant,
        "settlement_id": format!("0190d3c4-7c00-7000-8000-{number:012x}"),
        "completed_at": "2026-01-31T12:31:02.120000+00:00",
        "occurred_at": "2026-01-31T12:30:55.000000+00:00",
        "payin_reference": format!("payin-{number}"),
        "payout_reference": null,
        "destination_reference": "wallet-main",
        "incoming_currency": "BRL",
        "incoming_amount": "1000.00",
        "outgoing_currency": "USDC",
        "outgoing_amount": "181.149631",
        "conversion_rate": "5.43",
        "fixed_side": "incoming",
        "fee_percentage": "1.5",
        "fee_percentage_amount": "2.762431",
        "fee_fixed": "0.250000",
    })
}

/// The number of a settlement.
pub fn number_of(settlement_id: &str) -> u64 {
    let digits = settlement_id.rsplit('-').next().unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or(u64::MAX)
}
