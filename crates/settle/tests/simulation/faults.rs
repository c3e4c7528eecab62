//! The database with faults: every question may be the dispatcher's last, before it is asked or after.

use std::future::{Future, pending};
use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::{DeliveryId, DispatcherId, MerchantId};
use settle_domain::time::Timestamp;
use settle_notify::dispatcher::ledger::{Ledger, Outcome, RecordedOutcomes};
use settle_store::{
    Ask, Claimed, DueMerchant, Leases, Presence, QueueDepth, Shard, ShardLease, StoreError, StoreResult,
};
use tokio::sync::Mutex;
use tokio::time::sleep as pass;

use crate::world::World;

/// One question at a time, in the order asked: so a seed replays. Real time passes while the database works;
/// virtual time does not.
pub struct Database {
    pub ledger: Arc<dyn Ledger>,
    pub turn: Arc<Mutex<()>>,
    pub world: Arc<World>,
    /// How often the dispatcher had died when this one was started.
    pub life: usize,
}

/// Does something on the real database, all of it, while the virtual clock stands.
pub async fn exclusive<T: Send + 'static>(
    turn: &Arc<Mutex<()>>,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    let turn = turn.clone();
    // A task of its own: whoever waits for it may die, it does not.
    let done = tokio::spawn(async move {
        let _turn = turn.lock().await;
        // The clock does not jump while a thread that it knows of works.
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

impl Database {
    async fn ask<T: Send + 'static>(
        &self,
        work: impl Future<Output = StoreResult<T>> + Send + 'static,
    ) -> StoreResult<T> {
        let dice = &self.world.dice;
        // Drawn before anything is waited for: the order in which threads finish changes nothing.
        let (before, after) = (dice.once_in(120), dice.once_in(120));
        let (away, latency) = (dice.once_in(60), dice.up_to(Duration::from_millis(5)));
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
impl Ledger for Database {
    async fn presence(&self, dispatcher: DispatcherId) -> StoreResult<Option<Box<dyn Presence>>> {
        let ledger = self.ledger.clone();
        self.ask(async move { ledger.presence(dispatcher).await }).await
    }

    async fn lease(&self, dispatcher: DispatcherId, lease: Duration) -> StoreResult<Leases> {
        let ledger = self.ledger.clone();
        self.ask(async move { ledger.lease(dispatcher, lease).await }).await
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        let (ledger, leases) = (self.ledger.clone(), leases.to_vec());
        self.ask(async move { ledger.release(&leases).await }).await
    }

    async fn due(
        &self,
        shards: &[Shard],
        until: Timestamp,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let (ledger, shards, known) = (self.ledger.clone(), shards.to_vec(), known.to_vec());
        self.ask(async move { ledger.due(&shards, until, &known, limit).await }).await
    }

    async fn claim(&self, asks: &[Ask], taken: &[DeliveryId], now: Timestamp) -> StoreResult<Vec<Claimed>> {
        let (ledger, asks, taken) = (self.ledger.clone(), asks.to_vec(), taken.to_vec());
        let (world, life) = (self.world.clone(), self.life);
        self.ask(async move {
            let found = ledger.claim(&asks, &taken, now).await?;
            world.check_claims(life, &found);
            Ok(found)
        })
        .await
    }

    async fn record(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<RecordedOutcomes> {
        let (ledger, mut outcomes, world) = (self.ledger.clone(), outcomes.to_vec(), self.world.clone());
        // Now and then somebody else is changing a merchant.
        let busy = outcomes.first().map(|outcome| outcome.state.merchant_id);
        let busy = busy.filter(|_| self.world.dice.once_in(10));
        outcomes.retain(|outcome| Some(outcome.state.merchant_id) != busy);
        self.ask(async move {
            let mut recorded = ledger.record(&outcomes, at).await?;
            world.recorded(&outcomes, &recorded.changed);
            recorded.busy.extend(busy);
            Ok(recorded)
        })
        .await
    }

    async fn refresh(&self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()> {
        let (ledger, merchants) = (self.ledger.clone(), merchants.to_vec());
        self.ask(async move { ledger.refresh(&merchants, at).await }).await
    }

    async fn depth(&self) -> StoreResult<QueueDepth> {
        let ledger = self.ledger.clone();
        self.ask(async move { ledger.depth().await }).await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        let (ledger, merchants) = (self.ledger.clone(), merchants.to_vec());
        self.ask(async move { ledger.wake_others(&merchants).await }).await
    }
}
