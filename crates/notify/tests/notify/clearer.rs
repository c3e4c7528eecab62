//! The clearer ends what cleared endpoints have left, on both stores: in steps, and each delivery once.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use settle_domain::delivery::DeliveryStatus;
use settle_domain::ids::MerchantId;
use settle_notify::clearer::{Clearer, Turn};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{BATCH_MAX, ClearingStep, ClearingsLeft, NewDelivery, Store};

settle_testing::on_both_stores! {
    many_deliveries_end_in_steps,
    merchants_take_turns,
    two_nodes_end_each_delivery_once,
    a_merchant_that_is_locked_is_left_alone,
    what_the_clearer_of_another_life_left_is_ended,
    it_runs_until_it_is_stopped,
}

/// Deliveries of one step.
fn one_step(store: &dyn Store) -> u64 {
    store.clearing_step_rows().into()
}

/// A merchant that has cleared its endpoint while so many deliveries waited.
async fn cleared(store: &dyn Store, number: u64) -> MerchantId {
    let merchant = fixtures::merchant(store).await;
    fixtures::put_endpoint(store, merchant, &fixtures::endpoint(b"s")).await;
    let new: Vec<NewDelivery> =
        (0..number).map(|second| fixtures::delivery(merchant, fixtures::at(second % 97))).collect();
    for batch in new.chunks(BATCH_MAX) {
        fixtures::enqueue(store, batch).await;
    }
    let rows = store.clearing_step_rows();
    let step = fixtures::clear_endpoint_but(store, merchant, fixtures::at(50), rows).await;
    let ended = number.min(rows.into());
    assert_eq!(step, ClearingStep { ended, left: number - ended });
    merchant
}

/// How many of a merchant's deliveries are pending, and how many dead.
async fn totals(store: &dyn Store, merchant: MerchantId) -> (u64, u64) {
    let pending = fixtures::deliveries(store, merchant, Some(DeliveryStatus::Pending)).await.total;
    (pending, fixtures::deliveries(store, merchant, Some(DeliveryStatus::Dead)).await.total)
}

/// Every turn until nothing is left.
async fn steps(clearer: &mut Clearer) -> Vec<ClearingStep> {
    let mut steps = Vec::new();
    loop {
        match clearer.turn().await.unwrap() {
            Turn::Stepped(step) => steps.push(step),
            Turn::Locked => panic!("nobody else works"),
            Turn::Idle => return steps,
        }
    }
}

async fn many_deliveries_end_in_steps(scratch: ScratchStore) {
    let store = scratch.migrated().await;
    let size = one_step(&*store);
    let merchant = cleared(&*store, 3 * size + 1).await;
    assert_eq!(totals(&*store, merchant).await, (2 * size + 1, size));
    let taken = steps(&mut Clearer::new(store.share())).await;
    let left = [size + 1, 1, 0];
    assert_eq!(taken.iter().map(|step| step.left).collect::<Vec<_>>(), left);
    assert!(taken.iter().all(|step| step.ended <= size), "{taken:?}");
    assert_eq!(totals(&*store, merchant).await, (0, 3 * size + 1));
    assert_eq!(store.clearing_left(10).await.unwrap(), ClearingsLeft::default());
}

async fn merchants_take_turns(scratch: ScratchStore) {
    let store = scratch.migrated().await;
    let size = one_step(&*store);
    let large = cleared(&*store, 4 * size).await;
    let small = cleared(&*store, size + 1).await;
    let mut clearer = Clearer::new(store.share());
    for _ in 0..2 {
        assert!(matches!(clearer.turn().await.unwrap(), Turn::Stepped(_)));
    }
    assert_eq!(totals(&*store, small).await, (0, size + 1), "it does not wait for the large one");
    assert_eq!(totals(&*store, large).await, (2 * size, 2 * size));
    steps(&mut clearer).await;
    assert_eq!(totals(&*store, large).await, (0, 4 * size));
}

async fn two_nodes_end_each_delivery_once(scratch: ScratchStore) {
    let store = scratch.migrated().await;
    let size = one_step(&*store);
    let merchant = cleared(&*store, 6 * size).await;
    let node = async || {
        let mut clearer = Clearer::new(store.share());
        let mut ended = 0;
        loop {
            match clearer.turn().await.unwrap() {
                Turn::Stepped(step) => ended += step.ended,
                Turn::Locked => tokio::task::yield_now().await,
                Turn::Idle => return ended,
            }
        }
    };
    let (one, two) = tokio::join!(node(), node());
    assert_eq!(one + two, 5 * size);
    assert_eq!(totals(&*store, merchant).await, (0, 6 * size));
}

async fn a_merchant_that_is_locked_is_left_alone(scratch: ScratchStore) {
    let store = scratch.migrated().await;
    let size = one_step(&*store);
    let merchant = cleared(&*store, size + 1).await;
    let mut clearer = Clearer::new(store.share());
    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[merchant]).await.unwrap();
    // On SQLite the clearer waits for its turn to write, and no transaction can hold a lock besides it.
    let is_shared = store.callers_awaited() > std::time::Duration::ZERO;
    if is_shared {
        assert_eq!(clearer.turn().await.unwrap(), Turn::Locked);
    }
    // A transaction that is dropped ends later, by itself.
    tx.commit().await.unwrap();
    assert_eq!(steps(&mut clearer).await.len(), 1);
    assert_eq!(totals(&*store, merchant).await, (0, size + 1));
}

/// A process dies between two steps: another goes on from there.
async fn what_the_clearer_of_another_life_left_is_ended(scratch: ScratchStore) {
    let store = scratch.migrated().await;
    let size = one_step(&*store);
    let merchant = cleared(&*store, 3 * size).await;
    let mut first = Clearer::new(store.share());
    first.turn().await.unwrap();
    drop(first);
    assert_eq!(totals(&*store, merchant).await, (size, 2 * size));
    assert_eq!(steps(&mut Clearer::new(store.share())).await.len(), 1);
    assert_eq!(totals(&*store, merchant).await, (0, 3 * size));
}

async fn it_runs_until_it_is_stopped(scratch: ScratchStore) {
    let store = scratch.migrated().await;
    let size = one_step(&*store);
    let merchant = cleared(&*store, 3 * size).await;
    let all_ended = async {
        while totals(&*store, merchant).await != (0, 3 * size) {
            tokio::task::yield_now().await;
        }
    };
    Clearer::new(store.share()).run(all_ended).await;
    assert_eq!(store.clearing_left(10).await.unwrap(), ClearingsLeft::default());
}
