//! Rows that this version cannot read: the payment rests and is told of once, and everybody else's go on.

use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use settle_domain::alert::AlertKind;
use settle_domain::ids::PaymentId;
use settle_domain::seams::{Clock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;
use settle_store::{DueTime, Occurrence, PaymentFilter};
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
    a_payment_of_another_version_hides_no_other,
    an_alert_of_another_version_keeps_no_other_back,
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

/// Operators, gauges and alerts see all others, in pages of any length.
async fn a_payment_of_another_version_hides_no_other(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    world.receive_many(world.merchant, 5).await;
    let ids = async |limit| {
        let found = world.store.payment_search(&PaymentFilter::default(), None, limit).await.unwrap();
        found.into_iter().map(|row| row.payment_id).collect::<Vec<_>>()
    };
    let all = ids(9).await;
    assert_eq!(all.len(), 5);
    for damage in [
        "UPDATE payments SET state = 'weighed' WHERE payin_reference = (
            SELECT payin_reference FROM payments ORDER BY merchant_id, payment_id LIMIT 1)",
        "UPDATE payments SET reason = 'weighed' WHERE payin_reference = (
            SELECT payin_reference FROM payments ORDER BY merchant_id, payment_id LIMIT 1 OFFSET 1)",
        "UPDATE payments SET blocked = 'weighed' WHERE payin_reference = (
            SELECT payin_reference FROM payments ORDER BY merchant_id, payment_id LIMIT 1 OFFSET 2)",
    ] {
        world.store.execute(damage).await;
    }
    assert_eq!(ids(9).await, all[3..]);
    assert_eq!(ids(2).await, all[3..], "a page is full if there is more");
    assert_eq!(ids(1).await, all[3..4]);
    let counts = world.store.payment_counts().await.unwrap();
    assert_eq!(counts.iter().map(|count| count.number).collect::<Vec<_>>(), [4]);
    let start = (Timestamp::MIN, PaymentId::NIL);
    let late = async |limit| {
        let allowed = Duration::from_secs(1);
        let late = world.store.payment_late(Timestamp::MAX, start, allowed, limit).await.unwrap();
        late.into_iter().map(|late| late.payment_id).collect::<Vec<_>>()
    };
    let mut found = late(9).await;
    assert_eq!(late(3).await, found, "a page is full if there is more");
    assert_eq!(late(1).await, found[..1]);
    found.sort();
    let mut readable = vec![all[1], all[3], all[4]];
    readable.sort();
    assert_eq!(found, readable, "a reason is not asked for");
}

async fn an_alert_of_another_version_keeps_no_other_back(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let now = world.clock.now();
    let mut tx = world.store.begin().await.unwrap();
    let occurrences = ["one", "two"].map(|subject| Occurrence {
        merchant_id: None,
        kind: AlertKind::ProviderOutOfGas,
        subject: subject.to_owned(),
        id: None,
        text: String::new(),
    });
    tx.alert_tell_many(None, &occurrences, now, Duration::ZERO, &SeededEntropy::new(1)).await.unwrap();
    tx.commit().await.unwrap();
    world.store.execute("UPDATE alerts SET kind = 'weighed' WHERE subject = 'one'").await;
    let mut tx = world.store.begin().await.unwrap();
    let hold_until = now.plus(Duration::from_mins(1));
    let taken = tx.alert_take(DueTime::by(now), hold_until, 9).await.unwrap();
    assert_eq!(taken.iter().map(|alert| alert.subject.as_str()).collect::<Vec<_>>(), ["two"]);
    assert_eq!(tx.alert_take(DueTime::by(now), hold_until, 9).await.unwrap(), [], "both are held");
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
