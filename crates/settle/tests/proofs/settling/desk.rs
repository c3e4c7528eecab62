//! The operators: one posts payments in batches until they are acknowledged, another refunds what failed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use settle_testing::serving::ask;

use super::orders::{Order, PAIRS};
use crate::load::try_ask;
use crate::setup::Setup;
use crate::tally::SharedTally;

/// Payments in one batch.
const BATCH: u64 = 12;
/// Payments that must complete and whose notification has not arrived yet, at most.
const OUTSTANDING_MAX: usize = 150;
/// Payments on a page.
const PAGE: usize = 200;

/// Gives every merchant its corridors.
pub fn agree(setup: &Setup) {
    let operator = setup.tally.read().operators[0];
    let terms = json!({
        "fee_percentage": "1.5",
        "fee_fixed": "0",
        "provider": "sandbox",
        "spread": "0.8",
        "partner": "Bia",
        "commission": "30",
    });
    for merchant in &setup.merchants {
        for (incoming, outgoing, _) in PAIRS {
            let path = format!("/operator/v1/merchants/{merchant}/corridors/{incoming}/{outgoing}");
            let answer = ask(operator, "PUT", &path, &setup.token, &terms.to_string());
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }
}

/// The payments that were acknowledged: their ids, by number.
pub type Posted = BTreeMap<u64, String>;

/// Two threads that work until the desk is closed.
pub struct Desk {
    is_open: Arc<AtomicBool>,
    posting: JoinHandle<Posted>,
    refunding: JoinHandle<()>,
}

impl Desk {
    pub fn open(setup: &Setup) -> Desk {
        let is_open = Arc::new(AtomicBool::new(true));
        let caller = Caller {
            tally: setup.tally.clone(),
            token: setup.token.clone(),
            merchants: setup.merchants.clone(),
            is_open: is_open.clone(),
        };
        let refunding = caller.clone();
        Desk {
            is_open,
            posting: std::thread::spawn(move || caller.post_batches()),
            refunding: std::thread::spawn(move || {
                while refunding.is_open.load(Ordering::Relaxed) {
                    refunding.refund_failed();
                    refunding.tally.pace();
                }
            }),
        }
    }

    /// Lets the batch under way be acknowledged. Returns everything that was.
    pub fn close(self) -> Posted {
        self.is_open.store(false, Ordering::Relaxed);
        self.refunding.join().expect("refunds are answered");
        self.posting.join().expect("every batch was acknowledged")
    }
}

/// Waits until every payment is completed or refunded: what the provider refuses is refunded, and nothing
/// else needs anybody.
pub fn wait_for_rest(setup: &Setup) {
    let caller = Caller {
        tally: setup.tally.clone(),
        token: setup.token.clone(),
        merchants: setup.merchants.clone(),
        is_open: Arc::default(),
    };
    setup.tally.retry("every payment is completed or refunded", || {
        caller.refund_failed();
        // Without a state: whatever is neither completed nor refunded.
        let page = caller.ask("GET", "/operator/v1/payments?limit=5", "")?;
        page["payments"].as_array().expect("a list").is_empty().then_some(())
    });
}

/// All payments in a state.
pub fn payments(setup: &Setup, state: &str) -> Vec<Value> {
    let operator = setup.tally.read().operators[0];
    let (mut payments, mut after) = (Vec::new(), String::new());
    loop {
        let path = format!("/operator/v1/payments?state={state}&limit={PAGE}{after}");
        let page = ask(operator, "GET", &path, &setup.token, "").json();
        payments.extend(page["payments"].as_array().expect("a list").iter().cloned());
        match page["next_after"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return payments,
        }
    }
}

#[derive(Clone)]
struct Caller {
    tally: Arc<SharedTally>,
    token: String,
    merchants: Vec<String>,
    is_open: Arc<AtomicBool>,
}

impl Caller {
    fn post_batches(self) -> Posted {
        let mut posted = Posted::new();
        let (mut next, mut must_arrive) = (0, 0);
        loop {
            self.tally.retry("there is room for another batch", || {
                let has_room = must_arrive < self.tally.read().settlements.len() + OUTSTANDING_MAX;
                (has_room || !self.is_open.load(Ordering::Relaxed)).then_some(())
            });
            if !self.is_open.load(Ordering::Relaxed) {
                return posted;
            }
            let orders: Vec<Order> =
                (next..next + BATCH).map(|number| Order::of(number, self.merchants.len())).collect();
            let body: Vec<Value> = orders.iter().map(|order| order.posted(&self.merchants)).collect();
            let body = json!(body).to_string();
            let answer = self
                .tally
                .retry("a batch is acknowledged", || self.ask("POST", "/operator/v1/payments", &body));
            for (number, payment) in (next..).zip(answer["payments"].as_array().expect("a list")) {
                posted.insert(number, payment["payment_id"].as_str().expect("an id").to_owned());
            }
            next += BATCH;
            must_arrive += orders.iter().filter(|order| !order.is_refused()).count();
        }
    }

    /// Refunds what has failed, as far as the service answers.
    fn refund_failed(&self) {
        let Some(page) = self.ask("GET", "/operator/v1/payments?state=failed&limit=50", "") else { return };
        for payment in page["payments"].as_array().expect("a list") {
            let text = |field: &str| payment[field].as_str().expect("a text");
            let (merchant, id) = (text("merchant_id"), text("payment_id"));
            let path = format!("/operator/v1/merchants/{merchant}/payments/{id}/refund");
            let body = json!({ "version": payment["version"], "evidence": "the provider refused it" });
            // Where the answer is lost, the payment is listed again or not: either tells what became of it.
            self.ask("POST", &path, &body.to_string());
        }
    }

    /// Asks once. `None` if the service is away or the payment has changed meanwhile.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<Value> {
        let operator = *self.tally.read().operators.first()?;
        let (status, answer) = try_ask(operator, method, path, &self.token, body).ok()?;
        match status {
            200 => Some(serde_json::from_str(&answer).expect("JSON")),
            409 | 500.. => None,
            status => panic!("{path} was answered with {status}: {answer}"),
        }
    }
}
