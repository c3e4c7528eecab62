//! The setup of a proof: a store, merchants with webhooks and a receiver, and the check at the end.

use std::net::SocketAddr;
use std::sync::Arc;

use settle_testing::binary::Settle;
use settle_testing::serving::{Serving, ask, get};

use crate::load::Load;
use crate::receiver::{Receiver, secret};
use crate::tally::SharedTally;

/// `webhook.in_flight`: small enough that one repetition too many shows.
pub const IN_FLIGHT: usize = 64;

/// Everything that a proof needs besides the service.
pub struct Setup {
    pub settle: Settle,
    pub receiver: Receiver,
    pub tally: Arc<SharedTally>,
    pub token: String,
    /// The merchants' ids.
    pub merchants: Vec<String>,
    /// The merchants' keys.
    pub keys: Vec<String>,
}

impl Setup {
    /// This many merchants, still without webhooks, in an empty store.
    pub fn new(mut settle: Settle, merchants: usize) -> Setup {
        settle.set("SETTLE_WEBHOOK__ALLOW_HTTP", "true");
        settle.set("SETTLE_WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8");
        settle.set("SETTLE_WEBHOOK__IN_FLIGHT", &IN_FLIGHT.to_string());
        settle.set("SETTLE_API__REQUESTS_PER_SECOND", "0");
        let made = settle.run(&["operator", "create", "Ada", "--json"]).json();
        let token = made["token"].as_str().expect("a token").to_owned();
        let receiver = Receiver::start(merchants);
        let merchants: Vec<String> = (0..merchants).map(|_| settle.merchant()).collect();
        let keys = merchants.iter().map(|merchant| settle.key(merchant).1).collect();
        let tally = receiver.tally.clone();
        Setup { settle, receiver, tally, token, merchants, keys }
    }

    /// Starts the service and lets the load post to it. Returns it, and the address of the merchant API.
    pub fn serve(&self) -> (Serving, SocketAddr) {
        let (serving, api, operator) = Serving::ready(&self.settle);
        self.tally.change(|tally| tally.operators = vec![operator]);
        (serving, api)
    }

    /// Gives each merchant its webhook.
    pub fn register(&self, api: SocketAddr) {
        for (merchant, key) in self.keys.iter().enumerate() {
            let (url, secret) = (self.receiver.url(merchant), secret(merchant));
            let body = serde_json::json!({ "webhook_url": url, "webhook_secret": secret }).to_string();
            let answer = ask(api, "PUT", "/v1/webhook", key, &body);
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    }

    /// Starts the load.
    pub fn load(&self, threads: usize) -> Load {
        Load::start(&self.tally, &self.token, &self.merchants, threads)
    }

    /// Waits until everything acknowledged has arrived and is recorded. Fails if a notification was lost,
    /// died, or was wrong.
    pub fn check(&self, api: SocketAddr) {
        self.tally.wait("everything has arrived", crate::tally::Tally::is_complete);
        let mut delivered = 0;
        for key in &self.keys {
            let what = "the last outcome is recorded";
            self.tally.retry(what, || (total(api, "pending", key) == 0).then_some(()));
            assert_eq!(total(api, "dead", key), 0);
            delivered += total(api, "delivered", key);
        }
        let tally = self.tally.read();
        assert_eq!(tally.faults, Vec::<String>::new());
        assert_eq!(delivered, tally.acknowledged, "what was acknowledged is recorded as delivered");
    }
}

/// How many deliveries have this status.
pub fn total(api: SocketAddr, status: &str, key: &str) -> u64 {
    let page = get(api, &format!("/v1/webhook/deliveries?limit=1&status={status}"), key).json();
    page["total"].as_u64().unwrap_or_else(|| panic!("{page}"))
}
