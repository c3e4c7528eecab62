//! The queue of what is to be sent: who may send, which merchants have something due, and what is due.
//!
//! There is no queue beside the deliveries: a merchant's pending rows, by the time they are due, are its
//! queue. Merchants are spread over [`SHARDS`] shards, and a dispatcher holds a lease on shards, not on rows:
//! within its shards it knows what it has in flight, so that claiming a delivery is a read and costs no
//! write. Each lease has a token, new whenever a shard changes hands; who records an outcome proves with it,
//! inside the transaction, that the shard is still its own ([`QueueWrites::queue_fence`]).

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::delivery::Delivery;
use settle_domain::ids::{DeliveryId, DispatcherId, MerchantId};
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use uuid::Uuid;

use crate::{MerchantLock, StoreResult};

/// Shards, and so the number of dispatchers that can share the work.
pub const SHARDS: i16 = 64;

/// A part of all merchants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub i16);

impl Shard {
    /// The shard of a merchant: the last bits of its id, which are random.
    #[must_use]
    pub fn of(merchant: MerchantId) -> Shard {
        let [.., last] = *merchant.0.as_bytes();
        Shard(i16::from(last) % SHARDS)
    }

    /// Every shard.
    pub fn all() -> impl Iterator<Item = Shard> {
        (0..SHARDS).map(Shard)
    }
}

/// What proves that a shard has not changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(pub Uuid);

/// A shard that a dispatcher holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardLease {
    /// The shard.
    pub shard: Shard,
    /// The proof.
    pub token: LeaseToken,
}

/// What a dispatcher holds, and what it should.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// The shards it holds, all of them.
    pub held: Vec<ShardLease>,
    /// How many it should hold so that all dispatchers have as many. Who holds more finishes what it has in
    /// flight in the others and releases them.
    pub share: usize,
}

/// A merchant with something to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueMerchant {
    /// Which merchant.
    pub merchant_id: MerchantId,
    /// When its first delivery is due, or was. This may lag behind by up to [`DUE_LAG`] while a merchant is
    /// being served, and stay when nothing is left: see [`QueueWrites::queue_refresh`].
    pub due_at: Timestamp,
}

/// By how much the time at which a merchant counts as due may lag behind its deliveries: it is not written
/// for every delivery that is sent.
pub const DUE_LAG: Duration = Duration::from_secs(1);

/// How many deliveries of a merchant are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Which merchant.
    pub merchant_id: MerchantId,
    /// How many, at most. Powers of two keep the asks of many merchants in few statements.
    pub number: u32,
}

/// A delivery that is due, with all that an attempt needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// Whose it is.
    pub merchant_id: MerchantId,
    /// Where it stands.
    pub delivery: Delivery,
    /// What it tells of. Settlements never change, so the notification made of it is the same every time.
    pub record: Record,
    /// The merchant's present secret; `None` when its endpoint is gone.
    pub secret: Option<SealedSecret>,
}

/// How full the queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueDepth {
    /// Deliveries that are pending.
    pub pending: u64,
    /// Deliveries that are dead.
    pub dead: u64,
    /// When the first pending one is due, or was, of merchants that have any; see [`DueMerchant::due_at`].
    pub first_due_at: Option<Timestamp>,
}

/// The sign that a dispatcher lives. It ends with the process that holds it, however that ends: whoever takes
/// over then need not wait for the lease to run out.
#[async_trait]
pub trait Presence: Send {
    /// Waits until another process says that merchants have something due, and gives them; none of them means
    /// that there were too many to name. An error means that the sign is gone and must be given again.
    async fn woken(&mut self) -> StoreResult<Vec<MerchantId>>;
}

/// Questions about the queue.
#[async_trait]
pub trait QueueReads {
    /// Merchants of the given shards with something due until the given time, those left out that are known
    /// already.
    async fn queue_due(
        &self,
        shards: &[Shard],
        until: Timestamp,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>>;

    /// What is due now, each merchant's first due first, without those taken already. It costs the same
    /// whether a thousand or a million wait.
    async fn queue_claim(
        &self,
        asks: &[Ask],
        taken: &[DeliveryId],
        now: Timestamp,
    ) -> StoreResult<Vec<Claimed>>;

    /// How full the queue is, over all merchants.
    async fn queue_depth(&self) -> StoreResult<QueueDepth>;
}

/// Changes to who may send.
#[async_trait]
pub trait QueueWrites {
    /// Renews what a dispatcher holds for the given time, takes from dispatchers that are dead or silent for
    /// too long, and takes its share of what is free. The dispatcher's [`Presence`] must stand.
    async fn queue_lease(&mut self, dispatcher: DispatcherId, lease: Duration) -> StoreResult<Leases>;

    /// Gives shards back, so that others need not wait.
    async fn queue_release(&mut self, leases: &[ShardLease]) -> StoreResult<()>;

    /// Finds out anew when merchants are due: those that count as due for longer than [`DUE_LAG`] and have
    /// nothing left count as due no more.
    async fn queue_refresh(
        &mut self,
        lock: &MerchantLock,
        merchants: &[MerchantId],
        at: Timestamp,
    ) -> StoreResult<()>;

    /// Those of the given leases that still hold. They hold until this transaction ends: nobody can take the
    /// shards meanwhile.
    async fn queue_fence(&mut self, leases: &[ShardLease]) -> StoreResult<Vec<ShardLease>>;
}
