//! Imports of more settlements than one transaction records, on both stores: all or nothing, whoever dies.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is the message"
)]

use std::sync::Arc;

use settle_domain::ids::{MerchantId, SettlementId};
use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_outbox::Outbox;
use settle_outbox::imports::finisher::{ABANDONED_AFTER, Finisher, Turn};
use settle_outbox::imports::{Staging, Step, Steps};
use settle_outbox::recorder::{RecordError, Recorder};
use settle_outbox::wake::Wake;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{IMPORT_STEP_ROWS, ImportState, NewSettlement, StoreError};

/// Rows of one step.
const STEP_ROWS: usize = IMPORT_STEP_ROWS as usize;

settle_testing::on_both_stores! {
    an_import_is_recorded_and_notified_in_steps,
    without_notifications_nobody_is_notified,
    what_was_not_accepted_is_discarded,
    what_was_accepted_is_recorded,
    what_was_discarded_is_deleted,
    what_is_done_is_forgotten,
    two_finishers_record_each_settlement_once,
    an_import_that_is_alive_is_left_alone,
    a_clock_that_was_ahead_keeps_nothing,
    an_import_that_was_taken_for_abandoned_is_not_accepted,
    a_caller_in_conflict_with_an_import_is_refused_alone,
    what_is_reserved_cannot_be_committed,
    the_finisher_runs_until_it_is_stopped,
}

struct World {
    store: ScratchStore,
    clock: Arc<ManualClock>,
    wake: Wake,
    outbox: Outbox,
}

impl World {
    async fn new(scratch: ScratchStore) -> World {
        let store = scratch.migrated().await;
        let (wake, clock) = (Wake::default(), Arc::new(ManualClock::at(fixtures::at(0))));
        let entropy = Arc::new(SeededEntropy::new(20_260_301));
        let outbox = Outbox::of_service(store.share(), wake.clone(), clock.clone(), entropy);
        World { store, clock, wake, outbox }
    }

    /// A merchant with an endpoint, and one without.
    async fn merchants(&self) -> [MerchantId; 2] {
        let with = fixtures::merchant(&*self.store).await;
        fixtures::put_endpoint(&*self.store, with, &fixtures::endpoint(b"sealed")).await;
        [with, fixtures::merchant(&*self.store).await]
    }

    /// An import that has staged as many new settlements of each merchant.
    async fn staging(&self, notifies: bool, merchants: &[MerchantId], number: usize) -> Staging {
        let mut staging = Staging::begin(self.outbox.clone(), notifies).await.unwrap().expect("few");
        for merchant in merchants {
            let rows: Vec<NewSettlement> = (0..number).map(|_| new(*merchant)).collect();
            for part in rows.chunks(STEP_ROWS) {
                assert_eq!(staging.stage(part).await.unwrap().expect("it is alive").staged, part.len());
            }
        }
        staging
    }

    async fn accepted(&self, merchants: &[MerchantId], number: usize) -> Steps {
        self.staging(true, merchants, number).await.accept().await.unwrap().expect("all is there")
    }

    /// Settlements and notifications of a merchant.
    async fn totals(&self, merchant: MerchantId) -> (u64, u64) {
        let settlements = fixtures::settlements(&*self.store, merchant, 1, 0).await.total;
        (settlements, fixtures::deliveries(&*self.store, merchant, None).await.total)
    }

    /// Whoever works on an import has died, and the time has passed after which others notice.
    fn all_are_abandoned(&self) {
        self.clock.set(fixtures::at(1).plus(ABANDONED_AFTER));
    }

    async fn finish(&self) {
        Finisher::new(self.outbox.clone()).finish().await.unwrap();
        assert_eq!(self.store.import_list().await.unwrap(), [], "all have ended");
    }
}

fn new(merchant: MerchantId) -> NewSettlement {
    fixtures::settlement(merchant, SettlementId(fixtures::unique_uuid()), fixtures::at(1))
}

fn number(rows: usize) -> u64 {
    rows.try_into().unwrap()
}

async fn an_import_is_recorded_and_notified_in_steps(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [with, without] = world.merchants().await;
    let rows = STEP_ROWS;
    let mut steps = world.accepted(&[with, without], rows).await;
    assert_eq!((world.totals(with).await, world.totals(without).await), ((0, 0), (0, 0)));
    let Step::Taken(first) = steps.step().await.unwrap() else { panic!("rows are there") };
    assert_eq!((first.waiting, first.recorded, first.notified), (number(rows), number(rows), number(rows)));
    assert_eq!(first.state, ImportState::Accepted);
    assert_eq!(
        (world.totals(with).await, world.totals(without).await),
        ((first.waiting, first.waiting), (0, 0))
    );
    let woken = world.wake.woken().await;
    assert_eq!(woken.merchants.len() + woken.committed.len().min(1), 1, "its dispatcher is told at once");
    let mut left = Vec::new();
    let ended = steps.take_all(|rows| left.push(rows)).await.unwrap().expect("nobody else works on it");
    assert_eq!(
        (ended.state, ended.recorded, ended.notified),
        (ImportState::Done, 2 * first.waiting, first.waiting)
    );
    assert_eq!(left, [0]);
    assert_eq!(world.totals(without).await, (first.waiting, 0));
    assert_eq!(world.store.import_list().await.unwrap(), []);
}

async fn without_notifications_nobody_is_notified(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [with, _] = world.merchants().await;
    let staging = world.staging(false, &[with], STEP_ROWS + 1).await;
    let mut steps = staging.accept().await.unwrap().unwrap();
    assert_eq!(steps.take_all(|_| ()).await.unwrap().map(|import| import.notified), Some(0));
    assert_eq!(world.totals(with).await, (number(STEP_ROWS + 1), 0));
}

async fn what_was_not_accepted_is_discarded(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let merchants = world.merchants().await;
    drop(world.staging(true, &merchants, STEP_ROWS + 1).await);
    world.all_are_abandoned();
    world.finish().await;
    assert_eq!((world.totals(merchants[0]).await, world.totals(merchants[1]).await), ((0, 0), (0, 0)));
}

/// Wherever it dies after it was accepted, everything is recorded, and notified once.
async fn what_was_accepted_is_recorded(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let merchants = world.merchants().await;
    let rows = STEP_ROWS;
    for steps_before in 0..=3 {
        let mut steps = world.accepted(&merchants, rows).await;
        for _ in 0..steps_before {
            steps.step().await.unwrap();
        }
        drop(steps);
        world.all_are_abandoned();
        world.finish().await;
        world.clock.set(fixtures::at(0));
        let all = number(rows * (steps_before + 1));
        assert_eq!(
            (world.totals(merchants[0]).await, world.totals(merchants[1]).await),
            ((all, all), (all, 0))
        );
    }
}

async fn what_was_discarded_is_deleted(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let merchants = world.merchants().await;
    let mut steps = world.staging(true, &merchants, STEP_ROWS).await.discard().await.unwrap();
    assert!(matches!(steps.step().await.unwrap(), Step::Taken(import) if import.recorded == 0));
    drop(steps);
    world.all_are_abandoned();
    world.finish().await;
    assert_eq!((world.totals(merchants[0]).await, world.totals(merchants[1]).await), ((0, 0), (0, 0)));
    let again = world.staging(true, &merchants, 1).await.discard().await.unwrap().take_all(|_| ()).await;
    assert_eq!(again.unwrap().map(|import| import.state), Some(ImportState::Discarded));
    assert_eq!(world.store.import_list().await.unwrap(), []);
}

async fn what_is_done_is_forgotten(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [merchant, _] = world.merchants().await;
    let mut steps = world.accepted(&[merchant], 1).await;
    steps.step().await.unwrap();
    assert_eq!(world.store.import_list().await.unwrap()[0].state, ImportState::Done, "for who asks");
    world.all_are_abandoned();
    world.finish().await;
    assert_eq!(world.totals(merchant).await, (1, 1));
}

async fn two_finishers_record_each_settlement_once(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let merchants = world.merchants().await;
    let mut steps = world.accepted(&merchants, 2 * STEP_ROWS).await;
    world.all_are_abandoned();
    let mut finishers = [Finisher::new(world.outbox.clone()), Finisher::new(world.outbox.clone())];
    assert_eq!(finishers[0].turn().await.unwrap(), Turn::Stepped);
    assert_eq!(finishers[1].turn().await.unwrap(), Turn::Idle, "the first has adopted it");
    // Whoever began it lives after all.
    let [first, _] = &mut finishers;
    let (finished, began) = tokio::join!(first.finish(), steps.take_all(|_| ()));
    finished.unwrap();
    began.unwrap();
    let all = number(2 * STEP_ROWS);
    assert_eq!((world.totals(merchants[0]).await, world.totals(merchants[1]).await), ((all, all), (all, 0)));
    assert_eq!(world.store.import_list().await.unwrap(), []);
}

async fn an_import_that_is_alive_is_left_alone(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [merchant, _] = world.merchants().await;
    let mut staging = world.staging(true, &[merchant], 1).await;
    let mut finisher = Finisher::new(world.outbox.clone());
    for times in 1..4 {
        world.clock.set(fixtures::at(0).plus(ABANDONED_AFTER * times));
        assert_eq!(finisher.turn().await.unwrap(), Turn::Idle);
        staging.stage(&[new(merchant)]).await.unwrap().expect("nobody has discarded it");
    }
    staging.accept().await.unwrap().expect("all is there").take_all(|_| ()).await.unwrap();
    assert_eq!(world.totals(merchant).await, (4, 4));
}

async fn a_clock_that_was_ahead_keeps_nothing(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [merchant, _] = world.merchants().await;
    world.clock.set(Timestamp::MAX);
    drop(world.accepted(&[merchant], 1).await);
    world.clock.set(fixtures::at(0));
    world.finish().await;
    assert_eq!(world.totals(merchant).await.0, 1);
}

async fn an_import_that_was_taken_for_abandoned_is_not_accepted(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [merchant, _] = world.merchants().await;
    let mut staging = world.staging(true, &[merchant], 1).await;
    world.all_are_abandoned();
    let mut finisher = Finisher::new(world.outbox.clone());
    assert_eq!(finisher.turn().await.unwrap(), Turn::Stepped);
    assert_eq!(staging.stage(&[new(merchant)]).await.unwrap(), None);
    finisher.finish().await.unwrap();
    assert_eq!(staging.stage(&[new(merchant)]).await.unwrap(), None, "it is gone");
    assert!(staging.accept().await.unwrap().is_none());
    assert_eq!(world.totals(merchant).await, (0, 0));
}

/// Others of its group are recorded. Once the import is accepted, the refusal is for good.
async fn a_caller_in_conflict_with_an_import_is_refused_alone(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [merchant, _] = world.merchants().await;
    let mut staging = world.staging(true, &[], 0).await;
    let staged = new(merchant);
    staging.stage(std::slice::from_ref(&staged)).await.unwrap().unwrap();
    let against = fixtures::settlement(merchant, staged.settlement_id, fixtures::at(2));
    let recorder = Recorder::start(world.outbox.clone());
    let answers = tokio::join!(
        recorder.record(vec![new(merchant), against.clone()]),
        recorder.record(vec![new(merchant)])
    );
    let key = (merchant, staged.settlement_id);
    assert!(matches!(&answers.0, Err(RecordError::Reserved(keys)) if *keys == [key]), "{:?}", answers.0);
    assert_eq!(answers.1.unwrap().recorded, 1);
    let _steps = staging.accept().await.unwrap().unwrap();
    let refused = recorder.record(vec![against]).await;
    assert!(matches!(&refused, Err(RecordError::Conflicts(keys)) if *keys == [key]), "{refused:?}");
    assert_eq!(recorder.record(vec![staged]).await.unwrap().notified, 1, "the same content is fine");
}

/// Also by those who look at conflicts alone.
async fn what_is_reserved_cannot_be_committed(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [merchant, _] = world.merchants().await;
    let mut staging = world.staging(true, &[], 0).await;
    let staged = new(merchant);
    staging.stage(std::slice::from_ref(&staged)).await.unwrap().unwrap();
    let against = fixtures::settlement(merchant, staged.settlement_id, fixtures::at(2));
    let mut work = world.outbox.begin().await.unwrap();
    let lock = work.merchant_lock(&[merchant]).await.unwrap();
    let completed = work.complete(&lock, &[against]).await.unwrap();
    assert_eq!((completed.conflicting, completed.reserved), (vec![], vec![(merchant, staged.settlement_id)]));
    assert!(matches!(work.commit().await, Err(StoreError::Unavailable(_))));
    staging.accept().await.unwrap().unwrap().take_all(|_| ()).await.unwrap();
    assert_eq!(world.totals(merchant).await, (1, 1), "what was staged");
}

async fn the_finisher_runs_until_it_is_stopped(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let [merchant, _] = world.merchants().await;
    drop(world.accepted(&[merchant], STEP_ROWS + 1).await);
    world.all_are_abandoned();
    let all_recorded = async {
        while !world.store.import_list().await.unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    Finisher::new(world.outbox.clone()).run(all_recorded).await;
    assert_eq!(world.totals(merchant).await.0, number(STEP_ROWS + 1));
}
