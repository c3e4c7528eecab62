//! A node stands still past its lease and comes back while another makes its attempts: what it finds out then
//! changes nothing, because the shards are not its own any more.

use crate::nodes::{self, HELD, Node, come_back, rows, stand_still, wait_for_record, wait_for_takeover};

#[test]
fn late_outcomes() {
    let scene = nodes::scene(1);
    let mut nodes: [Node; 2] = nodes::start(&scene);
    let late = stand_still(&scene, &nodes);
    nodes.swap(0, late);
    let [mut late, other] = nodes;
    wait_for_takeover(&scene);
    come_back(&scene, &mut late);
    scene.hub.retry("it has tried to record what it saw", || (late.in_flight() == 0).then_some(()));
    let pending = rows(&scene, &other);
    assert!(pending.iter().all(|row| row["status"] == "pending" && row["attempts"] == 0), "{pending:#?}");
    scene.receiver.release();
    let recorded = wait_for_record(&scene, &other);
    late.serving.stop();
    assert_eq!(rows(&scene, &other), recorded);
    scene.check(other.api);
    other.serving.stop();
    println!("late outcomes: {HELD} of a node that stood still, none of them recorded");
}
