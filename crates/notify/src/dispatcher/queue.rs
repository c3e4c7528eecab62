//! The queue of deliveries, as the dispatcher sees it: few calls to the database, each one transaction or
//! less. It is the seam at which a simulation injects its faults.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;
use settle_store::{
    Ask, Claims, Death, DeliveryState, DueMerchant, DueTime, QueueDepth, Shard, ShardLease, Store,
    StoreResult,
};

use crate::alerts::{self, AlerterWake};

/// What came of an attempt, and the lease it was made under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The proof that the delivery was ours to attempt.
    pub lease: ShardLease,
    /// Where the delivery stands now.
    pub state: DeliveryState,
    /// Whether operations are alerted.
    pub alert: bool,
}

/// What became of outcomes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedOutcomes {
    /// The deliveries that were changed. The dispatcher does not need them; tests do.
    pub changed: Vec<DeliveryId>,
    /// Merchants that somebody else had locked: nothing of theirs was recorded, and is to be tried again.
    pub locked: Vec<MerchantId>,
}

/// The queue of deliveries.
#[async_trait]
pub trait DeliveryQueue: Send + Sync {
    /// See [`settle_store::QueueReads::queue_due`].
    async fn due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>>;
    /// See [`settle_store::QueueReads::queue_claim`].
    async fn claim(&self, asks: &[Ask], taken: &[DeliveryId], due: DueTime) -> StoreResult<Claims>;
    /// Records outcomes, those alone whose lease still holds, and raises the alerts they ask for, in one
    /// transaction. A merchant that somebody else has locked is waited for a moment only: it holds up all
    /// others.
    async fn record(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<RecordedOutcomes>;
    /// Records outcomes of one merchant as [`DeliveryQueue::record`] does, but waits for its lock: behind
    /// whoever asked for it before, and before whoever asks for it later.
    async fn record_in_turn(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<()>;
    /// See [`settle_store::QueueWrites::queue_refresh`]. A merchant that somebody else has locked is left
    /// out.
    async fn refresh(&self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()>;
    /// See [`settle_store::QueueReads::queue_depth`].
    async fn depth(&self) -> StoreResult<QueueDepth>;
    /// See [`Store::wake_others`].
    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()>;
}

/// The real one.
pub struct StoreQueue {
    store: Arc<dyn Store>,
    entropy: Arc<dyn Entropy>,
    alerter: AlerterWake,
}

impl StoreQueue {
    /// The queue of a store. The alerter is woken when there is something to alert operations of.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, entropy: Arc<dyn Entropy>, alerter: AlerterWake) -> StoreQueue {
        StoreQueue { store, entropy, alerter }
    }
}

#[async_trait]
impl DeliveryQueue for StoreQueue {
    async fn due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        self.store.queue_due(shards, due, known, limit).await
    }

    async fn claim(&self, asks: &[Ask], taken: &[DeliveryId], due: DueTime) -> StoreResult<Claims> {
        self.store.queue_claim(asks, taken, due).await
    }

    async fn record(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<RecordedOutcomes> {
        match self.record_locked(outcomes, at, LockBy::Moment).await? {
            Some(recorded) => Ok(recorded),
            None => Ok(self.record_locked(outcomes, at, LockBy::Chance).await?.unwrap_or_default()),
        }
    }

    async fn record_in_turn(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<()> {
        self.record_locked(outcomes, at, LockBy::Turn).await?;
        Ok(())
    }

    async fn refresh(&self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()> {
        let mut tx = self.store.begin().await?;
        let lock = tx.merchant_lock_free(merchants).await?;
        tx.queue_refresh(&lock, lock.merchants(), at).await?;
        tx.commit().await
    }

    async fn depth(&self) -> StoreResult<QueueDepth> {
        self.store.queue_depth().await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        self.store.wake_others(merchants).await
    }
}

/// How outcomes get the locks of their merchants.
#[derive(Debug, Clone, Copy)]
enum LockBy {
    /// All of them, if they are free within a moment.
    Moment,
    /// Those locks alone that nobody holds.
    Chance,
    /// All of them, in turn with whoever else wants them.
    Turn,
}

impl StoreQueue {
    /// `None` if the locks were not free within a moment.
    async fn record_locked(
        &self,
        outcomes: &[Outcome],
        at: Timestamp,
        by: LockBy,
    ) -> StoreResult<Option<RecordedOutcomes>> {
        let mut leases: Vec<ShardLease> = outcomes.iter().map(|outcome| outcome.lease).collect();
        leases.sort_by_key(|lease| (lease.shard, lease.token.0));
        leases.dedup();
        let mut tx = self.store.begin().await?;
        // A lock that must be waited for comes before the fence, which keeps the shard from changing hands.
        let waited = match by {
            LockBy::Chance => None,
            LockBy::Moment => match tx.merchant_lock_soon(&merchants_of(outcomes.iter())).await? {
                None => return Ok(None),
                lock => lock,
            },
            LockBy::Turn => Some(tx.merchant_lock(&merchants_of(outcomes.iter())).await?),
        };
        let held: HashSet<ShardLease> = tx.queue_fence(&leases).await?.into_iter().collect();
        let ours = || outcomes.iter().filter(|outcome| held.contains(&outcome.lease));
        let merchants = merchants_of(ours());
        let lock = match waited {
            None => tx.merchant_lock_free(&merchants).await?,
            Some(lock) => lock,
        };
        let states: Vec<DeliveryState> = ours()
            .filter(|outcome| lock.holds(outcome.state.merchant_id))
            .map(|outcome| outcome.state.clone())
            .collect();
        let changed = tx.delivery_record_many(&lock, &states, at).await?;
        let deaths = deaths(outcomes, &changed);
        alerts::raise(&mut *tx, &lock, &deaths, at, &*self.entropy).await?;
        tx.commit().await?;
        if !deaths.is_empty() {
            self.alerter.wake();
        }
        let locked = merchants.into_iter().filter(|merchant| !lock.holds(*merchant)).collect();
        Ok(Some(RecordedOutcomes { changed, locked }))
    }
}

/// The merchants of outcomes, each once.
fn merchants_of<'o>(outcomes: impl Iterator<Item = &'o Outcome>) -> Vec<MerchantId> {
    let merchants: BTreeSet<MerchantId> = outcomes.map(|outcome| outcome.state.merchant_id).collect();
    merchants.into_iter().collect()
}

/// What operations are alerted of: of what was recorded alone.
fn deaths(outcomes: &[Outcome], recorded: &[DeliveryId]) -> Vec<Death> {
    let recorded: HashSet<&DeliveryId> = recorded.iter().collect();
    let dead = outcomes.iter().filter(|outcome| outcome.alert).map(|outcome| &outcome.state);
    dead.filter(|state| recorded.contains(&state.delivery.delivery_id))
        .map(|state| Death {
            merchant_id: state.merchant_id,
            url: state.delivery.url.clone(),
            delivery_id: state.delivery.delivery_id,
            last_error: state.delivery.last_error.clone().unwrap_or_default(),
        })
        .collect()
}
