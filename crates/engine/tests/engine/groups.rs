//! Callers whose payments share a transaction that fails: none waits for others to hear the same.
//!
//! These tests run on one thread: whatever is asked for in one `join!` is waiting when the writer looks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use settle_domain::payment::PaymentOrder;
use settle_domain::seams::SeededEntropy;
use settle_engine::writer::{CreateError, Writer};
use settle_outbox::wake::Wake;
use settle_outbox::{Faults, Outbox};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{StoreError, StoreResult};

use crate::world::World;

settle_testing::on_both_stores! {
    a_database_that_is_away_is_asked_twice_however_many_wait,
    a_group_that_failed_once_is_written_one_by_one,
}

/// A database that is away for so many transactions, and counts them.
pub(crate) struct Away {
    left: AtomicUsize,
    begun: AtomicUsize,
}

impl Faults for Away {
    fn begins(&self) -> StoreResult<()> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        let one_less = |left: usize| left.checked_sub(1);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Err(StoreError::Unavailable("it is away".into())),
            Err(_) => Ok(()),
        }
    }

    fn commits(&self) -> StoreResult<()> {
        Ok(())
    }

    fn committed(&self) -> StoreResult<()> {
        Ok(())
    }
}

/// A writer that finds the database away for so many transactions.
pub(crate) fn writer(world: &World, transactions: usize) -> (Writer, Arc<Away>) {
    let away = Arc::new(Away { left: AtomicUsize::new(transactions), begun: AtomicUsize::new(0) });
    let entropy = Arc::new(SeededEntropy::new(20_261_116));
    let outbox = Outbox::of_service(world.store.share(), Wake::default(), world.clock.clone(), entropy);
    (Writer::start(outbox.with_faults(away.clone()), world.wake.clone(), world.clock.clone()), away)
}

/// A world with such a writer.
async fn world(scratch: ScratchStore, transactions: usize) -> (World, Arc<Away>) {
    let mut world = World::unserved(scratch).await;
    let (writer, away) = writer(&world, transactions);
    world.writer = writer;
    (world, away)
}

fn is_away<T>(created: &Result<T, CreateError>) -> bool {
    matches!(created, Err(CreateError::Store(fault)) if matches!(**fault, StoreError::Unavailable(_)))
}

async fn a_database_that_is_away_is_asked_twice_however_many_wait(scratch: ScratchStore) {
    let (world, away) = world(scratch, usize::MAX).await;
    let (one, two, three, four) = tokio::join!(
        world.receive(world.order("pix 1", "USDC")),
        world.receive(world.order("pix 2", "USDC")),
        world.receive(world.order("pix 3", "USDC")),
        world.receive(world.order("pix 4", "USDC")),
    );
    assert!([one, two, three, four].iter().all(is_away));
    assert_eq!(away.begun.load(Ordering::Relaxed), 2, "for all of them, and for the first alone");
}

async fn a_group_that_failed_once_is_written_one_by_one(scratch: ScratchStore) {
    let (world, away) = world(scratch, 1).await;
    let (one, two) = tokio::join!(
        world.receive(world.order("pix 1", "USDC")),
        world.receive(world.order("pix 2", "USDC")),
    );
    assert!(one.is_ok() && two.is_ok());
    assert_eq!(away.begun.load(Ordering::Relaxed), 3);
}

/// On SQLite nobody writes while another does, so this is PostgreSQL's alone.
#[tokio::test]
async fn a_merchant_that_is_locked_keeps_no_other_from_receiving() {
    // Whoever shares the transaction hears at once that it failed, as if it had waited for the lock.
    let (world, away) = world(settle_store_postgres::testing::scratch().await, 1).await;
    let other = fixtures::merchant(&*world.store).await;
    let of_other = PaymentOrder { merchant_id: other, ..world.order("pix 3", "USDC") };
    let mut in_the_way = world.store.begin().await.unwrap();
    in_the_way.merchant_lock(&[world.merchant]).await.unwrap();
    let (held_up, held_up_too, received) = tokio::join!(
        world.receive(world.order("pix 1", "USDC")),
        world.receive(world.order("pix 2", "USDC")),
        world.receive(of_other),
    );
    assert!(matches!(held_up, Err(CreateError::Locked)), "{held_up:?}");
    assert!(matches!(held_up_too, Err(CreateError::Locked)), "{held_up_too:?}");
    assert!(received.is_ok(), "{received:?}");
    assert_eq!(away.begun.load(Ordering::Relaxed), 3, "the lock is waited for once");
}
