//! Rows that this version cannot read: the payment rests and is told of once, and everybody else's go on.

use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;
use settle_testing::log::Log;
use settle_testing::virtual_time::pass;

use crate::desk::Lie;
use crate::runner::{Running, has_paid};
use crate::world::World;

/// A little longer than a payment that cannot be read is left alone.
const REST: Duration = Duration::from_secs(602);

settle_testing::on_both_stores! {
    what_the_engine_cannot_read_of_a_payment_stops_no_other,
    a_state_of_another_version_stops_no_other,
    an_operation_of_another_version_stops_no_other,
    a_corridor_that_cannot_be_read_stops_no_other_merchant,
}

/// What an operator sees of the engine.
struct Watched {
    errors: Log,
    recorder: PrometheusRecorder,
}

impl Watched {
    fn new() -> Watched {
        let errors = Log::of(tracing::Level::ERROR, "");
        Watched { errors, recorder: PrometheusBuilder::new().build_recorder() }
    }

    /// How many were logged since the last call.
    fn errors(&self) -> usize {
        self.errors.taken().len()
    }

    fn unreadable(&self) -> Option<String> {
        let text = self.recorder.handle().render();
        let found = text.lines().find_map(|line| line.strip_prefix("settle_payments_unreadable "));
        found.map(str::to_owned)
    }
}

/// Each is claimed by a claim that would find the damaged one as well.
async fn assert_others_go_on(world: &World) {
    let watched = Watched::new();
    let _measuring = metrics::set_default_local_recorder(&watched.recorder);
    let running = Running::start(world);
    for number in 1..=3 {
        world.receive(world.order(&format!("pix {number}"), "USDC")).await.unwrap();
        world.desk.until(has_paid(number)).await;
    }
    running.stop().await;
    assert_eq!(world.settled().await, 3);
    assert_eq!((watched.errors(), watched.unreadable().as_deref()), (1, Some("1")));
}

async fn what_the_engine_cannot_read_of_a_payment_stops_no_other(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let damaged = world.paying(&[]).await;
    world.store.execute(r#"UPDATE payments SET progress = '{"steps": "many"}'"#).await;
    assert_others_go_on(&world).await;
    assert_eq!(world.row(damaged).await.version, 1, "nobody touched it");
}

async fn a_state_of_another_version_stops_no_other(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    world.paying(&[]).await;
    world.store.execute("UPDATE payments SET state = 'weighed'").await;
    assert_others_go_on(&world).await;
}

/// Two payouts whose answers were lost: one is looked up although what was asked for the other is damaged.
async fn an_operation_of_another_version_stops_no_other(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let first = world.paying(&[Lie::Lost, Lie::Lost]).await;
    let second = world.receive(world.order("second", "USDC")).await.unwrap();
    let running = Running::start(&world);
    world.desk.until(has_paid(2)).await;
    running.stop().await;
    let damage = "UPDATE operations SET status = 'weighed' WHERE operation_id =
        (SELECT operation_id FROM operations WHERE kind = 'payout' ORDER BY operation_id LIMIT 1)";
    world.store.execute(damage).await;
    let due = [world.row(first).await, world.row(second).await].map(|row| row.standing.due_at.unwrap());
    world.clock.set(due.into_iter().max().unwrap());
    let watched = Watched::new();
    let _measuring = metrics::set_default_local_recorder(&watched.recorder);
    let running = Running::start(&world);
    world.desk.until(|desk| desk.look_ups() > 0).await;
    running.stop().await;
    assert_eq!(world.settled().await, 1);
    assert_eq!((watched.errors(), watched.unreadable().as_deref()), (1, Some("1")));
}

/// Whose terms cannot be read has no provider before its first quote.
async fn a_corridor_that_cannot_be_read_stops_no_other_merchant(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    world.paying(&[]).await;
    world.store.execute("UPDATE corridors SET provider = 'Not A Name!'").await;
    let other = settle_store::conformance::fixtures::merchant(&*world.store).await;
    world.corridor_of(other, "other", ("BRL", "USDC"), "0").await;
    world.receive_many(other, 3).await;
    let running = Running::start(&world);
    world.other_desk.until(has_paid(3)).await;
    running.stop().await;
    assert_eq!(world.desk.executed(Asked::Payout).len(), 0);
}

/// It is told of once, however often it is read again.
#[tokio::test(start_paused = true)]
async fn a_payment_that_was_mended_is_taken_up_after_its_rest() {
    let world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    let watched = Watched::new();
    let _measuring = metrics::set_default_local_recorder(&watched.recorder);
    world.paying(&[]).await;
    world.store.execute(r#"UPDATE payments SET progress = '{"steps": "many"}'"#).await;
    let running = Running::start(&world);
    pass(2 * REST).await;
    assert_eq!((watched.errors(), watched.unreadable().as_deref()), (1, Some("1")));
    world.store.execute(r#"UPDATE payments SET progress = '{"steps": 1}'"#).await;
    pass(REST).await;
    running.stop().await;
    assert_eq!(world.settled().await, 1);
    assert_eq!((watched.errors(), watched.unreadable().as_deref()), (0, Some("0")));
}
