//! A database with faults: the dispatcher may die before or after any of its queries.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::{DeliveryId, KeeperId, MerchantId};
use settle_domain::time::Timestamp;
use settle_notify::dispatcher::queue::{DeliveryQueue, Outcome, RecordedOutcomes};
use settle_shards::leases::ShardLeases;
use settle_store::{
    Ask, Claimed, DueMerchant, Leases, Presence, QueueDepth, Shard, ShardLease, StoreError, StoreResult,
};
use settle_testing::virtual_time::pass;
use tokio::sync::Mutex;

use crate::world::World;

/// Runs one query at a time, in the order asked, so that a seed replays. Real time passes while the database
/// works; virtual time does not.
pub struct Database<Part> {
    pub part: Arc<Part>,
    pub turn: Arc<Mutex<()>>,
    pub world: Arc<World>,
    /// How often the dispatcher had died when this process was started.
    pub life: usize,
}

/// Runs work on the real database to its end, while the virtual clock stands still.
pub async fn exclusive<T: Send + 'static>(
    turn: &Arc<Mutex<()>>,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let turn = turn.clone();
    // A task of its own: its caller may die, the work does not.
    let done = tokio::spawn(async move {
        let _turn = turn.lock().await;
        // The clock does not jump while a blocking thread of the runtime works.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let guard = tokio::task::spawn_blocking(move || ended.recv());
        let done = work.await;
        drop(end);
        let _ = guard.await;
        done
    });
    match done.await {
        Ok(done) => done,
        Err(fault) => std::panic::resume_unwind(fault.into_panic()),
    }
}

impl<Part> Database<Part> {
    async fn ask<T: Send + 'static>(
        &self,
        work: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        let chance = &self.world.chance;
        // Drawn before anything is awaited: the order in which threads finish changes nothing.
        let (before, after) = (chance.once_in(120), chance.once_in(120));
        let (away, latency) = (chance.once_in(60), chance.up_to(Duration::from_millis(5)));
        if before {
            self.world.crash.notify_one();
            pending::<()>().await;
        }
        if away {
            pass(latency).await;
            return Err(StoreError::Unavailable("the database is away".into()));
        }
        let answer = exclusive(&self.turn, work).await;
        if after {
            self.world.crash.notify_one();
            pending::<()>().await;
        }
        pass(latency).await;
        answer
    }
}

#[async_trait::async_trait]
impl<Part: ShardLeases + 'static> ShardLeases for Database<Part> {
    async fn presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        let part = self.part.clone();
        self.ask(async move { part.presence(keeper).await }).await
    }

    async fn renew(&self, keeper: KeeperId, lease: Duration) -> StoreResult<Leases> {
        let part = self.part.clone();
        self.ask(async move { part.renew(keeper, lease).await }).await
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        let (part, leases) = (self.part.clone(), leases.to_vec());
        self.ask(async move { part.release(&leases).await }).await
    }
}

#[async_trait::async_trait]
impl<Part: DeliveryQueue + 'static> DeliveryQueue for Database<Part> {
    async fn due(
        &self,
        shards: &[Shard],
        until: Timestamp,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let (part, shards, known) = (self.part.clone(), shards.to_vec(), known.to_vec());
        self.ask(async move { part.due(&shards, until, &known, limit).await }).await
    }

    async fn claim(&self, asks: &[Ask], taken: &[DeliveryId], now: Timestamp) -> StoreResult<Vec<Claimed>> {
        let (part, asks, taken) = (self.part.clone(), asks.to_vec(), taken.to_vec());
        let (world, life) = (self.world.clone(), self.life);
        self.ask(async move {
            let found = part.claim(&asks, &taken, now).await?;
            world.check_claims(life, &found);
            Ok(found)
        })
        .await
    }

    async fn record(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<RecordedOutcomes> {
        let (part, mut outcomes, world) = (self.part.clone(), outcomes.to_vec(), self.world.clone());
        // Now and then another transaction holds the lock of a merchant.
        let locked = outcomes.first().map(|outcome| outcome.state.merchant_id);
        let locked = locked.filter(|_| self.world.chance.once_in(10));
        outcomes.retain(|outcome| Some(outcome.state.merchant_id) != locked);
        self.ask(async move {
            let mut recorded = part.record(&outcomes, at).await?;
            world.recorded(&outcomes, &recorded.changed);
            recorded.locked.extend(locked);
            Ok(recorded)
        })
        .await
    }

    async fn refresh(&self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()> {
        let (part, merchants) = (self.part.clone(), merchants.to_vec());
        self.ask(async move { part.refresh(&merchants, at).await }).await
    }

    async fn depth(&self) -> StoreResult<QueueDepth> {
        let part = self.part.clone();
        self.ask(async move { part.depth().await }).await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        let (part, merchants) = (self.part.clone(), merchants.to_vec());
        self.ask(async move { part.wake_others(&merchants).await }).await
    }
}
