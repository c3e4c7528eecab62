//! The runner: what it claims, whose turn it is, how it hands a shard over, and how it stops.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{KeeperId, MerchantId, PaymentId};
use settle_domain::payment::{PaymentOrder, StateName};
use settle_engine::runner::{Engine, SHUTDOWN_TIMEOUT};
use settle_provider::wire::OperationKind as Asked;
use settle_shards::keeper::{Keeper, Standing};
use settle_shards::leases::{ShardLeases, StoreLeases};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Duty, Leases, Presence, SHARDS, Shard, ShardLease, Store, StoreResult};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::desk::{Desk, Lie};
use crate::world::World;

/// More merchants than one claim asks for.
const MANY_MERCHANTS: usize = 150;
/// More payments than a merchant has in hand at once.
const MANY_PAYMENTS: usize = 150;
/// How many that are.
const IN_HAND_OF_ONE: u32 = 128;
/// Calls to one provider at once.
const CALLS_AT_ONCE: u32 = 64;
const LEASE: Duration = Duration::from_mins(1);

settle_testing::on_both_stores! {
    what_was_due_before_the_engine_came_is_settled,
    what_comes_later_is_settled_when_the_engine_is_woken,
    what_is_in_hand_is_not_claimed_again,
    more_merchants_than_one_claim_asks_for_all_get_their_turn,
    a_merchant_with_much_to_do_does_not_keep_another_waiting,
    more_payments_than_a_merchant_has_in_hand_are_all_settled,
    a_shard_is_given_back_when_its_payments_have_come_to_a_rest,
    an_engine_that_stops_lets_what_it_has_in_hand_end,
    what_a_dead_engine_had_in_hand_is_looked_up_by_the_next,
    an_engine_that_can_never_claim_says_so_until_it_can,
}

/// An engine that runs, with the keeper of its shards.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    engine: JoinHandle<()>,
    keeper: JoinHandle<()>,
    standing: watch::Receiver<Standing>,
}

impl Running {
    pub(crate) fn start(world: &World) -> Running {
        Running::under(world, Arc::new(StoreLeases(world.store.share(), Duty::Engine)))
    }

    fn under(world: &World, leases: Arc<dyn ShardLeases>) -> Running {
        Running::stopping_within(SHUTDOWN_TIMEOUT, world, leases)
    }

    fn stopping_within(shutdown_timeout: Duration, world: &World, leases: Arc<dyn ShardLeases>) -> Running {
        let mut keeper = Keeper::new(leases, fixtures::unique_keeper_id(), LEASE);
        let (tenancy, standing) = (keeper.tenant(), keeper.standing());
        let engine = Engine { means: world.means.clone(), wake: world.wake.clone(), shutdown_timeout };
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        Running {
            stop,
            engine: tokio::spawn(engine.run(tenancy, stopped)),
            keeper: tokio::spawn(keeper.run()),
            standing,
        }
    }

    /// Lets what is in hand end, and gives the shards back.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.engine.await.unwrap();
        self.keeper.await.unwrap();
    }

    /// The process dies between two of its steps.
    pub(crate) async fn kill(self) {
        self.engine.abort();
        self.keeper.abort();
        let _ = (self.engine.await, self.keeper.await);
    }
}

impl World {
    async fn receive_of(&self, merchant: MerchantId, reference: &str) -> PaymentId {
        let order = PaymentOrder { merchant_id: merchant, ..self.order(reference, "USDC") };
        self.receive(order).await.unwrap()
    }

    async fn state_of(&self, merchant: MerchantId, payment: PaymentId) -> StateName {
        self.store.payment_find(merchant, payment).await.unwrap().unwrap().standing.state
    }
}

pub(crate) fn has_paid(number: usize) -> impl Fn(&Desk) -> bool {
    move |desk| desk.executed(Asked::Payout).len() >= number
}

async fn what_was_due_before_the_engine_came_is_settled(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let payment = world.paying(&[]).await;
    let running = Running::start(&world);
    world.desk.until(has_paid(1)).await;
    running.stop().await;
    world.assert_completed_once(payment).await;
}

async fn what_comes_later_is_settled_when_the_engine_is_woken(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let first = world.paying(&[]).await;
    let running = Running::start(&world);
    world.desk.until(has_paid(1)).await;
    let second = world.receive(world.order("second", "USDC")).await.unwrap();
    world.desk.until(has_paid(2)).await;
    running.stop().await;
    for payment in [first, second] {
        assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
    }
    assert_eq!(world.settled().await, 2);
}

async fn what_is_in_hand_is_not_claimed_again(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let kept = world.paying(&[]).await;
    world.desk.keep_back(Some(Asked::Payout));
    let running = Running::start(&world);
    world.desk.until(has_paid(1)).await;
    // A claim of the same merchant finds the second payment while the first is still in hand and due.
    let second = world.receive(world.order("second", "USDC")).await.unwrap();
    world.desk.until(has_paid(2)).await;
    assert_eq!((world.desk.sends(), world.desk.quotes(), world.desk.look_ups()), (4, 2, 0));
    world.desk.keep_back(None);
    running.stop().await;
    for payment in [kept, second] {
        let row = world.row(payment).await;
        assert_eq!((row.standing.state, row.version), (StateName::Completed, 4), "nobody else touched it");
    }
    assert_eq!((world.desk.sends(), world.desk.look_ups()), (4, 0), "each was sent once and never looked up");
}

async fn more_merchants_than_one_claim_asks_for_all_get_their_turn(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let mut payments = Vec::new();
    for _ in 0..MANY_MERCHANTS {
        let merchant = fixtures::merchant(&*world.store).await;
        world.corridor_of(merchant, "desk", ("BRL", "USDC"), "0").await;
        payments.push((merchant, world.receive_of(merchant, &format!("pix of {merchant}")).await));
    }
    let running = Running::start(&world);
    world.desk.until(has_paid(MANY_MERCHANTS)).await;
    running.stop().await;
    for (merchant, payment) in payments {
        assert_eq!(world.state_of(merchant, payment).await, StateName::Completed);
    }
}

/// The other merchant has another provider: calls to one are bounded as well.
async fn a_merchant_with_much_to_do_does_not_keep_another_waiting(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    for number in 0..MANY_PAYMENTS {
        world.receive(world.order(&format!("pix {number}"), "USDC")).await.unwrap();
    }
    let other = fixtures::merchant(&*world.store).await;
    world.corridor_of(other, "other", ("BRL", "USDC"), "0").await;
    world.desk.keep_back(Some(Asked::Conversion));
    let running = Running::start(&world);
    world.desk.until(|desk| desk.sends() > 0).await;
    let payment = world.receive_of(other, "pix of the other").await;
    world.other_desk.until(has_paid(1)).await;
    world.desk.keep_back(None);
    running.stop().await;
    assert_eq!(world.state_of(other, payment).await, StateName::Completed);
}

async fn more_payments_than_a_merchant_has_in_hand_are_all_settled(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    let mut payments = Vec::new();
    for number in 0..MANY_PAYMENTS {
        payments.push(world.receive(world.order(&format!("pix {number}"), "USDC")).await.unwrap());
    }
    let running = Running::start(&world);
    world.desk.until(has_paid(MANY_PAYMENTS)).await;
    running.stop().await;
    for payment in payments {
        assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
    }
    assert_eq!(world.desk.executed(Asked::Payout).len(), MANY_PAYMENTS, "each once");
    assert_eq!(world.desk.sends(), 2 * MANY_PAYMENTS);
}

/// Leases of the real store, with a share that the test sets.
struct Shares {
    store: Arc<dyn Store>,
    share: watch::Sender<usize>,
    released: watch::Sender<BTreeSet<Shard>>,
}

#[async_trait]
impl ShardLeases for Shares {
    async fn presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        self.store.presence(keeper, Duty::Engine).await
    }

    async fn renew(&self, keeper: KeeperId, lease: Duration) -> StoreResult<Leases> {
        let share = *self.share.borrow();
        let mut leases = StoreLeases(self.store.clone(), Duty::Engine).renew(keeper, lease).await?;
        // What was given back is free again, and nobody else is there to take it.
        leases.held.retain(|lease| !self.released.borrow().contains(&lease.shard));
        Ok(Leases { share, ..leases })
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        StoreLeases(self.store.clone(), Duty::Engine).release(leases).await?;
        self.released.send_modify(|released| released.extend(leases.iter().map(|lease| lease.shard)));
        Ok(())
    }
}

async fn a_shard_is_given_back_when_its_payments_have_come_to_a_rest(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let payment = world.paying(&[]).await;
    let all = usize::try_from(SHARDS).unwrap();
    let shares = Arc::new(Shares {
        store: world.store.share(),
        share: watch::Sender::new(all),
        released: watch::Sender::default(),
    });
    world.desk.keep_back(Some(Asked::Payout));
    let running = Running::under(&world, shares.clone());
    world.desk.until(has_paid(1)).await;
    shares.share.send_replace(0);
    let mut released = shares.released.subscribe();
    let given_back = released.wait_for(|released| !released.is_empty()).await.unwrap().clone();
    assert_eq!(given_back.len(), all - 1, "all but the one with a payment in hand");
    assert!(!given_back.contains(&Shard::of(world.merchant)));
    // What comes now is the next keeper's.
    let later = world.receive(world.order("later", "USDC")).await.unwrap();
    world.desk.keep_back(None);
    released.wait_for(|released| released.len() == all).await.unwrap();
    world.assert_completed_once(payment).await;
    running.stop().await;
    assert_eq!(world.row(later).await.version, 1, "nothing starts in a shard that leaves");
}

async fn an_engine_that_stops_lets_what_it_has_in_hand_end(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let payment = world.paying(&[]).await;
    world.desk.keep_back(Some(Asked::Payout));
    let running = Running::start(&world);
    world.desk.until(has_paid(1)).await;
    let Running { stop, engine, keeper, .. } = running;
    stop.send(()).unwrap();
    world.desk.keep_back(None);
    engine.await.unwrap();
    keeper.await.unwrap();
    world.assert_completed_once(payment).await;
    assert_eq!(world.desk.look_ups(), 0);
}

/// A payment is due, and what a claim reads is not there: nobody would be served by who calls itself serving.
async fn an_engine_that_can_never_claim_says_so_until_it_can(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let payment = world.paying(&[]).await;
    world.store.execute("ALTER TABLE payments RENAME TO elsewhere").await;
    let mut running = Running::start(&world);
    running.standing.wait_for(|standing| matches!(standing, Standing::Failing(_))).await.unwrap();
    world.store.execute("ALTER TABLE elsewhere RENAME TO payments").await;
    running.standing.wait_for(|standing| *standing == Standing::Present).await.unwrap();
    world.desk.until(has_paid(1)).await;
    running.stop().await;
    world.assert_completed_once(payment).await;
}

async fn what_a_dead_engine_had_in_hand_is_looked_up_by_the_next(scratch: ScratchStore) {
    let world = World::unserved(scratch).await;
    let payment = world.paying(&[]).await;
    world.desk.keep_back(Some(Asked::Payout));
    let running = Running::start(&world);
    world.desk.until(has_paid(1)).await;
    running.kill().await;
    world.desk.keep_back(None);
    assert_eq!(world.row(payment).await.standing.state, StateName::PayingOut);
    // The next engine finds a send that it did not make, calls it unknown, and looks it up when that is due.
    let running = Running::start(&world);
    let mut row = world.row(payment).await;
    while row.version < 4 {
        world.wake.merchants([world.merchant]);
        tokio::task::yield_now().await;
        row = world.row(payment).await;
    }
    world.clock.set(row.standing.due_at.unwrap());
    world.desk.until(|desk| desk.look_ups() > 0).await;
    running.stop().await;
    world.assert_completed_once(payment).await;
    assert_eq!(world.desk.sends(), 2, "nothing was sent again");
}

/// Under a paused clock the look every second costs a second of virtual time, and a hint costs none.
#[tokio::test(start_paused = true)]
async fn a_hint_is_taken_at_once() {
    let world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    world.paying(&[]).await;
    let running = Running::start(&world);
    world.desk.until(has_paid(1)).await;
    let received_at = Instant::now();
    world.receive(world.order("second", "USDC")).await.unwrap();
    world.desk.until(has_paid(2)).await;
    assert_eq!(received_at.elapsed(), Duration::ZERO);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_claimed_without_waiting_for_the_next_look() {
    let world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    world.corridor("BRL", "USDC", "0").await;
    for number in 0..MANY_PAYMENTS {
        world.receive(world.order(&format!("pix {number}"), "USDC")).await.unwrap();
    }
    let started_at = Instant::now();
    let running = Running::start(&world);
    world.desk.until(has_paid(MANY_PAYMENTS)).await;
    assert_eq!(started_at.elapsed(), Duration::ZERO);
    running.stop().await;
}

/// The provider keeps back every answer, so whatever is claimed stays in hand.
#[tokio::test(start_paused = true)]
async fn a_merchant_has_a_bounded_number_of_payments_in_hand() {
    let world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    world.corridor("BRL", "USDC", "0").await;
    for number in 0..MANY_PAYMENTS {
        world.receive(world.order(&format!("pix {number}"), "USDC")).await.unwrap();
    }
    let other = fixtures::merchant(&*world.store).await;
    world.corridor_of(other, "other", ("BRL", "USDC"), "0").await;
    world.desk.keep_back(Some(Asked::Conversion));
    let running = Running::start(&world);
    world.desk.until(|desk| desk.quotes() >= CALLS_AT_ONCE).await;
    // Claims go on meanwhile: the other merchant's payment is claimed and settled.
    world.receive_of(other, "pix of the other").await;
    world.other_desk.until(has_paid(1)).await;
    assert!(world.desk.quotes() <= IN_HAND_OF_ONE, "{}", world.desk.quotes());
    running.kill().await;
}

/// Nobody tells the engine: its next look finds it.
#[tokio::test(start_paused = true)]
async fn what_nobody_signalled_is_found_by_a_look() {
    let mut world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    world.paying(&[]).await;
    world.wake = settle_engine::wake::EngineWake::default();
    let running = Running::start(&world);
    world.desk.until(has_paid(1)).await;
    let second = world.receive(world.order("second", "USDC")).await.unwrap();
    world.desk.until(has_paid(2)).await;
    running.stop().await;
    assert_eq!(world.row(second).await.standing.state, StateName::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_ends_does_not_hold_up_a_stop() {
    let short = Duration::from_secs(5);
    for (allowed, taken) in [(Duration::from_hours(1), SHUTDOWN_TIMEOUT), (short, short)] {
        let world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
        let payment = world.paying(&[Lie::Lost]).await;
        world.desk.keep_back(Some(Asked::Payout));
        let leases = Arc::new(StoreLeases(world.store.share(), Duty::Engine));
        let running = Running::stopping_within(allowed, &world, leases);
        world.desk.until(has_paid(1)).await;
        let told_at = Instant::now();
        running.stop().await;
        assert_eq!(told_at.elapsed(), taken);
        assert_eq!(world.row(payment).await.standing.state, StateName::PayingOut, "the next one looks it up");
    }
}
