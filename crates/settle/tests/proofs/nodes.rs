//! Nodes that share a PostgreSQL, one of which stands still.

use std::net::SocketAddr;

use serde_json::{Value, json};
use settle_testing::binary::Settle;
use settle_testing::serving::{Serving, Signal, get};

use crate::BINARY;
use crate::load::{post, settlement};
use crate::peers::has_connection;
use crate::setup::Setup;

/// Notifications that are in flight when the node stops.
pub const HELD: u64 = 5;
const MASTER_KEY: &str = "8a1f5c0e3b7d92644d6e0f1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e";
/// Enough time to stop a node before its attempts end, and the shortest lease that this timeout allows.
const TIMEOUT: &str = "8s";
const LEASE: &str = "13s";

/// This many merchants on a PostgreSQL that the nodes share; nothing is sent yet.
pub fn setup(merchants: usize) -> Setup {
    let settle = Settle::postgres(BINARY)
        .with("SETTLE_MASTER_KEY", MASTER_KEY)
        .with("SETTLE_WEBHOOK__TIMEOUT", TIMEOUT)
        .with("SETTLE_WEBHOOK__LEASE", LEASE);
    Setup::new(settle, merchants)
}

/// Starts the nodes, gives the merchants their webhooks, and lets the load post to all nodes.
pub fn start<const NODES: usize>(setup: &Setup) -> [Node; NODES] {
    let nodes = std::array::from_fn(|_| Node::start(&setup.settle));
    setup.register(nodes[0].api);
    setup.tally.change(|tally| tally.operators = nodes.iter().map(|node| node.operator).collect());
    nodes
}

/// A node.
pub struct Node {
    pub serving: Serving,
    pub api: SocketAddr,
    pub operator: SocketAddr,
}

impl Node {
    pub fn start(settle: &Settle) -> Node {
        let (serving, api, operator) = Serving::ready(settle);
        Node { serving, api, operator }
    }

    /// How many of its attempts have succeeded.
    pub fn delivered(&self) -> u64 {
        self.metric("settle_delivery_attempts_total{outcome=\"delivered\"}")
    }

    /// How many deliveries it has in flight.
    pub fn in_flight(&self) -> u64 {
        self.metric("settle_deliveries_in_flight")
    }

    fn metric(&self, name: &str) -> u64 {
        let metrics = get(self.operator, "/metrics", "").body;
        let number = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        number.map_or(0, |number| number.parse().expect("a number"))
    }

    /// Waits until its log has a line with the text.
    pub fn has_logged(&mut self, text: &str) {
        self.serving.wait_for_once(text);
    }
}

/// Stops the node that has notifications of the first merchant in flight; returns its position.
pub fn stand_still(setup: &Setup, nodes: &[Node]) -> usize {
    let first = setup.tally.change(|tally| {
        let first = tally.posted;
        tally.posted += HELD;
        tally.to_hold.extend(first..tally.posted);
        first
    });
    let batch: Vec<Value> =
        (first..first + HELD).map(|number| settlement(&setup.merchants[0], number)).collect();
    post(&setup.tally, &setup.token, &json!(batch).to_string(), 0);
    setup.tally.wait("what is to be held has arrived", |tally| tally.held.len() == batch.len());
    let peers: Vec<SocketAddr> = setup.tally.read().held.iter().map(|(_, peer)| *peer).collect();
    let to = setup.receiver.address;
    let has = |node: &Node, peer: SocketAddr| has_connection(node.serving.id(), peer, to);
    let late = nodes.iter().position(|node| has(node, peers[0])).expect("one of them has sent it");
    nodes[late].serving.signal(Signal::STOP);
    setup.tally.change(|tally| tally.acknowledged += HELD);
    assert!(peers.iter().all(|peer| has(&nodes[late], *peer)), "a merchant has one node");
    let repeated = setup.tally.read().repeated_after();
    assert!(repeated.is_empty(), "shards that change hands in order repeat nothing: {repeated:?}");
    late
}

/// Waits until another node has sent what the stopped node had in flight.
pub fn wait_for_takeover(setup: &Setup) {
    let held = usize::try_from(HELD).expect("few");
    setup.tally.wait("what the node held has arrived from another", |tally| tally.held.len() == 2 * held);
}

/// Continues the stopped node and answers its attempts, and waits until it has seen the answers. It is too
/// late: another node makes these attempts now, and only that node's outcomes count.
pub fn come_back(setup: &Setup, late: &mut Node) {
    let held: Vec<String> = setup.tally.read().held.iter().map(|(delivery, _)| delivery.clone()).collect();
    setup.receiver.release_first();
    late.serving.signal(Signal::CONT);
    for delivery in &held {
        late.has_logged(delivery);
    }
}

/// The deliveries that were held, as the API shows them.
pub fn rows(setup: &Setup, node: &Node) -> Vec<Value> {
    let page = get(node.api, "/v1/webhook/deliveries?limit=200", &setup.keys[0]).json();
    let rows = page["deliveries"].as_array().expect("a list").clone();
    assert_eq!(u64::try_from(rows.len()), Ok(HELD));
    rows
}

/// Waits until the held deliveries are recorded as delivered by the attempt that counts; returns them as the
/// API shows them.
pub fn wait_for_record(setup: &Setup, node: &Node) -> Vec<Value> {
    let delivered = |row: &Value| row["status"] == "delivered";
    let rows = setup.tally.retry("another node has recorded what was held", || {
        Some(rows(setup, node)).filter(|rows| rows.iter().all(delivered))
    });
    assert!(rows.iter().all(|row| row["attempts"] == 1 && row["response_status"] == 200), "{rows:#?}");
    rows
}
