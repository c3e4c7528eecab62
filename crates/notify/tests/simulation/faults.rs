//! A database with faults: the process may die before or after any of its queries, and any query, of the
//! queue or of the leases, may never return.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::{DeliveryId, KeeperId, MerchantId};
use settle_domain::time::Timestamp;
use settle_notify::dispatcher::queue::{DeliveryQueue, Outcome, RecordedOutcomes};
use settle_shards::leases::ShardLeases;
use settle_store::{
    Ask, Claims, DueMerchant, DueTime, Leases, Presence, QueueDepth, Shard, ShardLease, StoreError,
    StoreResult,
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

    async fn hang(&self, hangs: bool) {
        if hangs {
            self.world.tell("a call never returns");
            pending::<()>().await;
        }
    }

    /// As [`Database::ask`]. Now and then the connection is lost without anybody noticing, before or after
    /// the work is done: the call never returns.
    async fn ask_on_a_wire<T: Send + 'static>(
        &self,
        work: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        let chance = &self.world.chance;
        let (before, after) = (chance.once_in(400), chance.once_in(400));
        self.hang(before).await;
        let answer = self.ask(work).await;
        self.hang(after).await;
        answer
    }
}

#[async_trait::async_trait]
impl<Part: ShardLeases + 'static> ShardLeases for Database<Part> {
    async fn presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        let part = self.part.clone();
        self.ask_on_a_wire(async move { part.presence(keeper).await }).await
    }

    async fn renew(&self, keeper: KeeperId, lease: Duration) -> StoreResult<Leases> {
        let part = self.part.clone();
        self.ask_on_a_wire(async move { part.renew(keeper, lease).await }).await
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        let (part, leases) = (self.part.clone(), leases.to_vec());
        self.ask_on_a_wire(async move { part.release(&leases).await }).await
    }
}

#[async_trait::async_trait]
impl<Part: DeliveryQueue + 'static> DeliveryQueue for Database<Part> {
    async fn due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let (part, shards, known) = (self.part.clone(), shards.to_vec(), known.to_vec());
        self.ask_on_a_wire(async move { part.due(&shards, due, &known, limit).await }).await
    }

    async fn claim(&self, asks: &[Ask], taken: &[DeliveryId], due: DueTime) -> StoreResult<Claims> {
        let (part, asks, taken) = (self.part.clone(), asks.to_vec(), taken.to_vec());
        let (world, life) = (self.world.clone(), self.life);
        // Only before its work: what a claim has found is no longer there for the next one.
        self.hang(self.world.chance.once_in(400)).await;
        self.ask(async move {
            let claims = part.claim(&asks, &taken, due).await?;
            world.check_claims(life, due, &claims.found);
            Ok(claims)
        })
        .await
    }

    async fn record(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<RecordedOutcomes> {
        let (part, mut outcomes, world) = (self.part.clone(), outcomes.to_vec(), self.world.clone());
        // Now and then another transaction holds the lock of a merchant, or the database refuses an outcome.
        let locked = outcomes.first().map(|outcome| outcome.state.merchant_id);
        let locked = locked.filter(|_| self.world.chance.once_in(5));
        if self.world.chance.once_in(40) {
            return Err(StoreError::unexpected("an outcome that is refused"));
        }
        outcomes.retain(|outcome| Some(outcome.state.merchant_id) != locked);
        self.ask_on_a_wire(async move {
            let mut recorded = part.record(&outcomes, at).await?;
            world.recorded(&outcomes, &recorded.changed);
            recorded.locked.extend(locked);
            Ok(recorded)
        })
        .await
    }

    async fn record_in_turn(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<()> {
        let (part, outcomes, world) = (self.part.clone(), outcomes.to_vec(), self.world.clone());
        self.ask_on_a_wire(async move {
            // As `record`, which tells what has changed: nobody else holds a lock in this world.
            let recorded = part.record(&outcomes, at).await?;
            world.recorded(&outcomes, &recorded.changed);
            Ok(())
        })
        .await
    }

    async fn refresh(&self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()> {
        let (part, merchants) = (self.part.clone(), merchants.to_vec());
        self.ask_on_a_wire(async move { part.refresh(&merchants, at).await }).await
    }

    async fn depth(&self) -> StoreResult<QueueDepth> {
        let part = self.part.clone();
        self.ask_on_a_wire(async move { part.depth().await }).await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        let (part, merchants) = (self.part.clone(), merchants.to_vec());
        self.ask_on_a_wire(async move { part.wake_others(&merchants).await }).await
    }
}
