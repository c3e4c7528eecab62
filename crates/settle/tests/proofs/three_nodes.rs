//! Three nodes share the work. One stands still past its lease: the others take over its deliveries. One is
//! killed: the others take its shards at once.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use settle_testing::serving::Signal;

use crate::load::Load;
use crate::nodes::{self, Node, come_back, stand_still, wait_for_record, wait_for_takeover};
use crate::setup::{IN_FLIGHT, Setup};

const NODES: usize = 3;
/// Enough merchants that each node has some in its shards.
const MERCHANTS: usize = 32;

#[test]
fn three_nodes() {
    let setup = nodes::setup(MERCHANTS);
    let mut nodes: [Node; NODES] = nodes::start(&setup);
    // The first merchant is kept for the deliveries that are held.
    let load = Load::start(&setup.tally, &setup.token, &setup.merchants[1..], NODES);
    for node in &mut nodes {
        node.has_logged("shards are served");
        setup.tally.retry("each node has delivered something", || (node.delivered() > 0).then_some(()));
    }
    let shared = nodes.each_ref().map(Node::delivered);

    let late = stand_still(&setup, &nodes);
    let stood_still = Instant::now();
    nodes.swap(0, late);
    let [mut late, other, last] = nodes;
    wait_for_takeover(&setup);
    let taken_over = stood_still.elapsed();
    come_back(&setup, &mut late);
    setup.receiver.release();
    wait_for_record(&setup, &last);

    let served_again = kill(&setup, other, &[&late, &last]);
    load.stop();
    setup.check(last.api);
    // A node that has stopped has recorded all its outcomes.
    late.serving.stop();
    wait_for_record(&setup, &last);
    last.serving.stop();

    let tally = setup.tally.read();
    let repeated: usize = tally.repeated_after().values().sum();
    println!(
        "three nodes: attempts {shared:?}, {} acknowledged, {} arrivals, {repeated} of them repeated; \
         what a node held is taken over {taken_over:?} after it stood still, what another held \
         {served_again:?} after it was killed",
        tally.acknowledged, tally.arrivals,
    );
    assert!(repeated <= 2 * IN_FLIGHT, "more than two nodes had in flight");
}

/// Kills a node under load; returns the time until each merchant was served again.
fn kill(setup: &Setup, node: Node, survivors: &[&Node]) -> Duration {
    let first = setup.tally.change(|tally| {
        tally.operators = survivors.iter().map(|node| node.operator).collect();
        tally.posted
    });
    let killed = Instant::now();
    node.serving.signal(Signal::KILL);
    assert_eq!(node.serving.stopped().0, None);
    let loaded = u64::try_from(setup.merchants.len() - 1).expect("few merchants");
    setup.tally.wait("each merchant is served", |tally| {
        let later = tally.settlements.keys().filter(|number| **number >= first);
        later.map(|number| number % loaded).collect::<HashSet<u64>>().len() == setup.merchants.len() - 1
    });
    killed.elapsed()
}
