//! Three nodes share the work. One stands still past its lease: the others take over what it held. One is
//! killed: its shards are taken at once.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use crate::load::Load;
use crate::nodes::{self, Node, come_back, stand_still, wait_for_record, wait_for_takeover};
use crate::scene::{IN_FLIGHT, Scene};

const NODES: usize = 3;
/// So many that each node has some of them in its shards.
const MERCHANTS: usize = 32;

#[test]
fn three_nodes() {
    let scene = nodes::scene(MERCHANTS);
    let mut nodes: [Node; NODES] = nodes::start(&scene);
    // The first merchant is kept for what is held.
    let load = Load::start(&scene.hub, &scene.token, &scene.merchants[1..], NODES);
    for node in &mut nodes {
        node.has_logged("shards are served");
        scene.hub.retry("each node has delivered something", || (node.delivered() > 0).then_some(()));
    }
    let shared = nodes.each_ref().map(Node::delivered);

    let late = stand_still(&scene, &nodes);
    let stood_still = Instant::now();
    nodes.swap(0, late);
    let [mut late, other, last] = nodes;
    wait_for_takeover(&scene);
    let taken_over = stood_still.elapsed();
    come_back(&scene, &mut late);
    scene.receiver.release();
    wait_for_record(&scene, &last);

    let served_again = kill(&scene, other, &[&late, &last]);
    load.stop();
    scene.check(last.api);
    // Whatever it had to record is recorded when it has stopped.
    late.serving.stop();
    wait_for_record(&scene, &last);
    last.serving.stop();

    let book = scene.hub.book();
    let repeated: usize = book.repeated_after().values().sum();
    println!(
        "three nodes: attempts {shared:?}, {} acknowledged, {} arrivals, {repeated} of them repeated; \
         what a node held is taken over {taken_over:?} after it stood still, what another held \
         {served_again:?} after it was killed",
        book.acknowledged, book.arrivals,
    );
    assert!(repeated <= 2 * IN_FLIGHT, "more than two nodes had in flight");
}

/// Kills a node under load; gives the time until each merchant was served again.
fn kill(scene: &Scene, node: Node, survivors: &[&Node]) -> Duration {
    let first = scene.hub.change(|book| {
        book.operators = survivors.iter().map(|node| node.operator).collect();
        book.posted
    });
    let killed = Instant::now();
    node.serving.signal("KILL");
    assert_eq!(node.serving.stopped().0, None);
    let loaded = u64::try_from(scene.merchants.len() - 1).expect("few merchants");
    scene.hub.wait("each merchant is served", |book| {
        let later = book.settlements.keys().filter(|number| **number >= first);
        later.map(|number| number % loaded).collect::<HashSet<u64>>().len() == scene.merchants.len() - 1
    });
    killed.elapsed()
}
