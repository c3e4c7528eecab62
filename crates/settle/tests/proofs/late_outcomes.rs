//! A node stands still past its lease, and comes back while another node makes its attempts. Its late
//! outcomes change nothing, because it has lost its shards.

use crate::nodes::{self, HELD, Node, come_back, rows, stand_still, wait_for_record, wait_for_takeover};

#[test]
fn late_outcomes() {
    let setup = nodes::setup(1);
    let mut nodes: [Node; 2] = nodes::start(&setup);
    let late = stand_still(&setup, &nodes);
    nodes.swap(0, late);
    let [mut late, other] = nodes;
    wait_for_takeover(&setup);
    come_back(&setup, &mut late);
    setup.tally.retry("it has tried to record what it saw", || (late.in_flight() == 0).then_some(()));
    let pending = rows(&setup, &other);
    assert!(pending.iter().all(|row| row["status"] == "pending" && row["attempts"] == 0), "{pending:#?}");
    setup.receiver.release();
    let recorded = wait_for_record(&setup, &other);
    late.serving.stop();
    assert_eq!(rows(&setup, &other), recorded);
    setup.check(other.api);
    other.serving.stop();
    println!("late outcomes: {HELD} of a node that stood still, none of them recorded");
}
