//! Recording for many callers at once: they share a transaction, and none pays for another.
//!
//! These tests run on one thread: whatever is asked for in one `join!` is waiting when the recorder looks.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in a test a panic is the message")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use settle_domain::delivery::Delivery;
use settle_domain::ids::{MerchantId, SettlementId};
use settle_domain::seams::{Clock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_outbox::Outbox;
use settle_outbox::recorder::{RecordError, Recorded, Recorder};
use settle_outbox::wake::{HANDED_OVER_MAX, Wake};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Ask, BATCH_MAX, CALL_TIMEOUT, Claimed, DueTime, NewSettlement, Store};
use settle_store_sqlite::SqliteStore;
use settle_store_sqlite::testing::scratch_url;
use settle_testing::virtual_time::pass;

settle_testing::on_both_stores! {
    callers_at_the_same_time_share_a_transaction,
    a_group_is_not_larger_than_a_batch,
    a_conflict_is_its_callers_alone,
    an_unknown_merchant_is_its_callers_alone,
    every_fault_of_a_caller_is_named,
    the_same_settlement_from_two_callers_is_recorded_and_notified_once,
    two_callers_with_two_contents_the_first_one_wins,
    only_merchants_with_an_endpoint_are_notified_and_woken,
    of_a_large_batch_the_merchants_alone_are_woken,
    what_was_there_is_not_notified_again,
    a_caller_that_goes_away_is_not_waited_for,
    a_store_that_is_away_is_told_to_everyone,
}

/// How much longer than the recorder somebody else waits for the same store.
const AHEAD: Duration = Duration::from_secs(1);
/// Longer than the recorder's limit on a transaction, and shorter than what the store lets it wait.
const LATE: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(3));

/// A clock that is read once in each transaction, and shows another time to each.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

struct Recording {
    recorder: Recorder,
    wake: Wake,
    store: ScratchStore,
}

impl Recording {
    async fn start(scratch: ScratchStore) -> Recording {
        let store = scratch.migrated().await;
        let wake = Wake::default();
        Recording { recorder: recorder(store.share(), wake.clone()), wake, store }
    }

    /// A merchant with an endpoint.
    async fn merchant(&self) -> MerchantId {
        let merchant = fixtures::merchant(&*self.store).await;
        fixtures::put_endpoint(&*self.store, merchant, &fixtures::endpoint(b"sealed")).await;
        merchant
    }

    async fn record(
        &self,
        settlements: impl IntoIterator<Item = NewSettlement>,
    ) -> Result<Recorded, RecordError> {
        self.recorder.record(settlements.into_iter().collect()).await
    }

    async fn settlements(&self, merchant: MerchantId) -> u64 {
        fixtures::settlements(&*self.store, merchant, 1, 0).await.total
    }

    async fn deliveries(&self, merchant: MerchantId) -> Vec<Delivery> {
        fixtures::deliveries(&*self.store, merchant, None).await.rows
    }

    /// The transactions in which a merchant's notifications were enqueued, newest first.
    async fn transactions(&self, merchant: MerchantId) -> Vec<Timestamp> {
        let mut times: Vec<Timestamp> =
            self.deliveries(merchant).await.iter().map(|delivery| delivery.created_at).collect();
        times.dedup();
        times
    }
}

fn recorder(store: Arc<dyn Store>, wake: Wake) -> Recorder {
    let clock = Arc::new(Ticking(AtomicI64::new(1_767_225_600_000_000)));
    let entropy = Arc::new(SeededEntropy::new(20_260_201));
    Recorder::start(Outbox::of_service(store, wake, clock, entropy))
}

fn new(merchant: MerchantId) -> NewSettlement {
    fixtures::settlement(merchant, SettlementId(fixtures::unique_uuid()), fixtures::at(1))
}

/// The same settlement with other content.
fn changed(settlement: &NewSettlement) -> NewSettlement {
    fixtures::settlement(settlement.merchant_id, settlement.settlement_id, fixtures::at(2))
}

fn recorded(number: usize) -> Recorded {
    Recorded { recorded: number, unchanged: 0, notified: number }
}

fn unchanged(number: usize) -> Recorded {
    Recorded { recorded: 0, unchanged: number, notified: 0 }
}

async fn callers_at_the_same_time_share_a_transaction(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let (one, other) = (recording.merchant().await, recording.merchant().await);
    let answers = tokio::join!(
        recording.record([new(one)]),
        recording.record([new(one), new(other)]),
        recording.record([]),
        recording.record([new(other)]),
    );
    assert_eq!(answers.0.unwrap(), recorded(1));
    assert_eq!(answers.1.unwrap(), recorded(2));
    assert_eq!(answers.2.unwrap(), recorded(0));
    assert_eq!(answers.3.unwrap(), recorded(1));
    let first = recording.transactions(one).await;
    assert_eq!(first.len(), 1);
    assert_eq!(recording.transactions(other).await, first);
    recording.record([new(one)]).await.unwrap();
    assert_eq!(recording.transactions(one).await.len(), 2, "who comes later has another");
}

async fn a_group_is_not_larger_than_a_batch(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let (bulk, one) = (fixtures::merchant(&*recording.store).await, recording.merchant().await);
    let answers = tokio::join!(
        recording.record((0..BATCH_MAX - 1).map(|_| new(bulk)).chain([new(one)])),
        recording.record([new(one)]),
        recording.record([new(one)]),
    );
    assert_eq!(answers.0.unwrap(), Recorded { recorded: BATCH_MAX, unchanged: 0, notified: 1 });
    assert_eq!((answers.1.unwrap(), answers.2.unwrap()), (recorded(1), recorded(1)));
    assert_eq!(recording.settlements(bulk).await, u64::try_from(BATCH_MAX - 1).unwrap());
    assert_eq!(recording.deliveries(one).await.len(), 3);
    assert_eq!(recording.transactions(one).await.len(), 2, "one full batch, and the others together");
}

async fn a_conflict_is_its_callers_alone(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = recording.merchant().await;
    let known = new(merchant);
    recording.record([known.clone()]).await.unwrap();
    let answers = tokio::join!(
        recording.record([new(merchant)]),
        recording.record([new(merchant), changed(&known)]),
        recording.record([new(merchant), known.clone()]),
    );
    assert_eq!(answers.0.unwrap(), recorded(1));
    let fault = answers.1.unwrap_err();
    let key = (merchant, known.settlement_id);
    assert!(matches!(&fault, RecordError::Conflicts(keys) if *keys == [key]), "{fault}");
    assert_eq!(answers.2.unwrap(), Recorded { recorded: 1, unchanged: 1, notified: 1 });
    assert_eq!(recording.settlements(merchant).await, 3, "nothing of the one at fault");
    assert_eq!(recording.deliveries(merchant).await.len(), 3);
}

async fn an_unknown_merchant_is_its_callers_alone(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let (merchant, nobody) = (recording.merchant().await, MerchantId(fixtures::unique_uuid()));
    let answers = tokio::join!(
        recording.record([new(merchant), new(nobody)]),
        recording.record([new(merchant)]),
        recording.record([new(merchant)]),
    );
    let fault = answers.0.unwrap_err();
    assert!(matches!(&fault, RecordError::UnknownMerchants(ids) if *ids == [nobody]), "{fault}");
    assert_eq!((answers.1.unwrap(), answers.2.unwrap()), (recorded(1), recorded(1)));
    assert_eq!(recording.settlements(merchant).await, 2);
    assert_eq!(recording.deliveries(merchant).await.len(), 2);
}

async fn every_fault_of_a_caller_is_named(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = recording.merchant().await;
    let strangers = [MerchantId(fixtures::unique_uuid()), MerchantId(fixtures::unique_uuid())];
    let fault = recording.record(strangers.map(new)).await.unwrap_err();
    assert!(matches!(&fault, RecordError::UnknownMerchants(ids) if *ids == strangers), "{fault}");
    let known = [new(merchant), new(merchant)];
    recording.record(known.clone()).await.unwrap();
    let fault = recording.record(known.each_ref().map(changed)).await.unwrap_err();
    let RecordError::Conflicts(mut keys) = fault else { panic!("{fault}") };
    keys.sort_unstable();
    assert_eq!(keys, known.map(|known| (merchant, known.settlement_id)));
}

async fn the_same_settlement_from_two_callers_is_recorded_and_notified_once(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = recording.merchant().await;
    let settlement = new(merchant);
    let answers = tokio::join!(
        recording.record([settlement.clone()]),
        recording.record([settlement.clone()]),
        recording.record([settlement.clone(), settlement.clone()]),
    );
    assert_eq!(answers.0.unwrap(), recorded(1));
    assert_eq!(answers.1.unwrap(), unchanged(1));
    assert_eq!(answers.2.unwrap(), unchanged(2));
    assert_eq!(recording.settlements(merchant).await, 1);
    assert_eq!(recording.deliveries(merchant).await.len(), 1);
}

async fn two_callers_with_two_contents_the_first_one_wins(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = recording.merchant().await;
    let settlement = new(merchant);
    let answers =
        tokio::join!(recording.record([settlement.clone()]), recording.record([changed(&settlement)]));
    assert_eq!(answers.0.unwrap(), recorded(1));
    assert!(matches!(answers.1, Err(RecordError::Conflicts(_))), "{:?}", answers.1);
    assert_eq!(recording.record([settlement]).await.unwrap(), unchanged(1));
    assert_eq!(recording.deliveries(merchant).await.len(), 1);
}

async fn only_merchants_with_an_endpoint_are_notified_and_woken(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let (with, without) = (recording.merchant().await, fixtures::merchant(&*recording.store).await);
    let (settlement, other) = (new(with), new(without));
    let done = recording.record([settlement.clone(), other]).await.unwrap();
    assert_eq!(done, Recorded { recorded: 2, unchanged: 0, notified: 1 });
    let deliveries = recording.deliveries(with).await;
    assert_eq!(deliveries.len(), 1);
    assert_eq!(deliveries[0].settlement_id, settlement.settlement_id);
    assert_eq!(deliveries[0].url, fixtures::endpoint(b"").url);
    assert_eq!((recording.settlements(without).await, recording.deliveries(without).await), (1, Vec::new()));
    let woken = tokio::time::timeout(Duration::ZERO, recording.wake.woken()).await.unwrap();
    assert_eq!(woken.merchants, BTreeSet::new());
    let ask = [Ask { merchant_id: with, number: 2 }];
    let claimed =
        recording.store.queue_claim(&ask, &[], DueTime::by(deliveries[0].created_at)).await.unwrap().found;
    let handed_over: Vec<Claimed> = woken.committed.into_iter().map(|one| one.claimed).collect();
    assert_eq!(handed_over, claimed, "what is handed over is what a claim would give");
}

async fn of_a_large_batch_the_merchants_alone_are_woken(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = recording.merchant().await;
    let settlements: Vec<NewSettlement> = (0..=HANDED_OVER_MAX).map(|_| new(merchant)).collect();
    assert_eq!(recording.record(settlements).await.unwrap(), recorded(HANDED_OVER_MAX + 1));
    let woken = tokio::time::timeout(Duration::ZERO, recording.wake.woken()).await.unwrap();
    assert_eq!((woken.merchants, woken.committed), (BTreeSet::from([merchant]), Vec::new()));
    // What is handed over before the dispatcher looks has a bound as well.
    for _ in 0..3 {
        let settlements = (0..HANDED_OVER_MAX / 2).map(|_| new(merchant)).collect::<Vec<_>>();
        recording.record(settlements).await.unwrap();
    }
    let woken = tokio::time::timeout(Duration::ZERO, recording.wake.woken()).await.unwrap();
    assert_eq!((woken.merchants, woken.committed.len()), (BTreeSet::from([merchant]), HANDED_OVER_MAX));
}

async fn what_was_there_is_not_notified_again(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = fixtures::merchant(&*recording.store).await;
    let settlement = new(merchant);
    recording.record([settlement.clone()]).await.unwrap();
    // It completed while there was no endpoint: one that is set later hears nothing of it.
    fixtures::put_endpoint(&*recording.store, merchant, &fixtures::endpoint(b"sealed")).await;
    assert_eq!(recording.record([settlement]).await.unwrap(), unchanged(1));
    assert_eq!(recording.deliveries(merchant).await, []);
    assert!(tokio::time::timeout(Duration::ZERO, recording.wake.woken()).await.is_err());
}

async fn a_caller_that_goes_away_is_not_waited_for(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = recording.merchant().await;
    tokio::select! {
        biased;
        answer = recording.record([new(merchant)]) => panic!("asked once, it has {answer:?}"),
        // It has asked, and goes.
        () = std::future::ready(()) => {}
    }
    assert_eq!(recording.record([new(merchant)]).await.unwrap(), recorded(1));
    assert_eq!(recording.settlements(merchant).await, 2, "what was asked for is done");
}

async fn a_store_that_is_away_is_told_to_everyone(scratch: ScratchStore) {
    let recording = Recording::start(scratch).await;
    let merchant = recording.merchant().await;
    recording.store.close().await;
    let answers = tokio::join!(recording.record([new(merchant)]), recording.record([new(merchant)]));
    for answer in [answers.0, answers.1] {
        assert!(matches!(answer, Err(RecordError::Store(_))), "{answer:?}");
    }
}

/// On SQLite a transaction waits for the other one: whoever locks a merchant there locks the file.
#[tokio::test]
async fn a_merchant_that_is_locked_holds_up_its_callers_alone() {
    let recording = Recording::start(settle_store_postgres::testing::scratch().await).await;
    let (locked, free) = (recording.merchant().await, recording.merchant().await);
    let mut holder = recording.store.begin().await.unwrap();
    holder.merchant_lock(&[locked]).await.unwrap();
    let held_up = recording.record([new(locked)]);
    tokio::pin!(held_up);
    tokio::select! {
        biased;
        answer = &mut held_up => panic!("its merchant is locked, it has {answer:?}"),
        answer = async { tokio::join!(recording.record([new(free)]), recording.record([new(free)])) } => {
            assert_eq!((answer.0.unwrap(), answer.1.unwrap()), (recorded(1), recorded(1)));
        }
    }
    drop(holder);
    assert_eq!(held_up.await.unwrap(), recorded(1), "it waited aside");
}

/// Another process takes the file and keeps it. Each wait in the store has a limit, but whoever comes after
/// somebody else of this process has two of them before him.
#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_is_given_up_in_time() {
    let (url, _folder) = scratch_url();
    let open = || -> Arc<dyn Store> { Arc::new(SqliteStore::new(&url).unwrap()) };
    let (store, elsewhere) = (open(), open());
    store.migrate().await.unwrap();
    let merchant = fixtures::merchant(&*store).await;
    let recorder = recorder(store.clone(), Wake::default());
    let holder = elsewhere.begin().await.unwrap();
    tokio::spawn(async move { store.begin().await.map(drop) });
    pass(AHEAD).await;
    let answer = tokio::time::timeout(LATE, recorder.record(vec![new(merchant)])).await.unwrap();
    assert!(matches!(answer, Err(RecordError::Store(_))), "{answer:?}");
    drop(holder);
    assert_eq!(recorder.record(vec![new(merchant)]).await.unwrap().recorded, 1, "it goes on");
}
