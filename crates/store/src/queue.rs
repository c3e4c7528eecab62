//! The queue of notifications: which deliveries are due, and which process may send them.
//!
//! The table of deliveries is the queue: a merchant's pending rows, by the time they are due. Merchants are
//! spread over [`SHARDS`] shards, and a process leases shards, not rows. Its dispatcher knows what it has in
//! flight in these shards, so a claim is a read and costs no write. A shard gets a new token whenever it
//! changes hands; the transaction that records an outcome proves with the token that its process still holds
//! the shard ([`QueueWrites::queue_fence`]).

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::delivery::Delivery;
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId};
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use uuid::Uuid;

use crate::{MerchantLock, StoreError, StoreResult};

/// The number of shards, and so the most processes that can share the work.
pub const SHARDS: i16 = 64;

/// One of the parts into which all merchants are divided.
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

/// What a process does for the merchants of a shard. Each duty has leases of its own, so that some processes
/// may send and others settle: whoever holds a shard for one duty says nothing of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Sending notifications.
    Dispatch,
    /// Settling payments.
    Engine,
}

impl Duty {
    /// Every duty.
    pub const ALL: [Duty; 2] = [Duty::Dispatch, Duty::Engine];

    /// Its name, for files and the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Duty::Dispatch => "dispatch",
            Duty::Engine => "engine",
        }
    }

    /// The row of a shard in the table of leases, for the backends: the shards of one duty after those of the
    /// other.
    #[must_use]
    pub const fn row(self, shard: Shard) -> i16 {
        match self {
            Duty::Dispatch => shard.0,
            Duty::Engine => SHARDS + shard.0,
        }
    }
}

/// The rows in which leases may stand, with their tokens: for the backends. A token stands in one of them.
pub fn lease_rows(leases: &[ShardLease]) -> impl Iterator<Item = (i16, Uuid)> + '_ {
    leases.iter().flat_map(|lease| Duty::ALL.map(|duty| (duty.row(lease.shard), lease.token.0)))
}

/// Proves that a shard has not changed hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(pub Uuid);

/// A shard that a process holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShardLease {
    /// The shard.
    pub shard: Shard,
    /// The proof.
    pub token: LeaseToken,
}

/// The shards that a process holds, and its fair share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// All shards that it holds.
    pub held: Vec<ShardLease>,
    /// How many it should hold ([`fair_share`]). A keeper that holds more gives the excess back when its
    /// tenants have let go of it.
    pub share: usize,
}

/// How many shards a keeper should hold, of so many that live, if so many of them come before it in the order
/// of their ids. The shares add up to all shards, and none is larger than another by more than one.
#[must_use]
pub fn fair_share(alive: usize, before: usize) -> usize {
    let (shards, alive) = (usize::try_from(SHARDS).unwrap_or(0), alive.max(1));
    shards / alive + usize::from(before < shards % alive)
}

/// A merchant that has deliveries to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueMerchant {
    /// The merchant's id.
    pub merchant_id: MerchantId,
    /// When its first delivery is due. This may be up to [`DUE_LAG`] too early while the dispatcher serves
    /// the merchant, and stays when nothing is left: see [`QueueWrites::queue_refresh`].
    pub due_at: Timestamp,
}

/// How much too early [`DueMerchant::due_at`] may be: the store does not write it for every delivery that is
/// sent.
pub const DUE_LAG: Duration = Duration::from_secs(1);

/// When something counts as due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueTime {
    /// At this time or before it.
    pub by: Timestamp,
    /// Or after this one. Nobody waits for so long: a clock that has stepped since must have said so.
    pub beyond: Timestamp,
}

impl DueTime {
    /// Due by this time, and never for another reason.
    #[must_use]
    pub fn by(by: Timestamp) -> DueTime {
        DueTime { by, beyond: Timestamp::MAX }
    }

    /// Whether something with this time is due.
    #[must_use]
    pub fn has_come(self, at: Timestamp) -> bool {
        at <= self.by || at > self.beyond
    }
}

/// How many deliveries of a merchant the dispatcher wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// The merchant's id.
    pub merchant_id: MerchantId,
    /// The most deliveries. Powers of two keep the asks of many merchants in few statements.
    pub number: u32,
}

/// A delivery that is due, with everything that an attempt needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
    /// The delivery before the attempt.
    pub delivery: Delivery,
    /// The settlement that it reports. Settlements never change, so every attempt sends the same
    /// notification.
    pub record: Record,
    /// The merchant's present secret; `None` when it has no endpoint.
    pub secret: Option<SealedSecret>,
}

/// What a claim found.
#[derive(Debug, Default)]
pub struct Claims {
    /// Deliveries that are due.
    pub found: Vec<Claimed>,
    /// Deliveries that are due and that this version cannot read, with their merchants, and why not: an event
    /// that only another version knows, or a damaged row. What else is due is found all the same.
    pub unreadable: Vec<(MerchantId, DeliveryId, StoreError)>,
}

impl Claims {
    /// Adds a row, whether or not it could be read.
    pub fn add(&mut self, merchant: MerchantId, delivery: DeliveryId, row: StoreResult<Claimed>) {
        match row {
            Ok(claimed) => self.found.push(claimed),
            Err(error) => self.unreadable.push((merchant, delivery, error)),
        }
    }
}

/// How full the queue is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Deliveries that are pending.
    pub pending: u64,
    /// Deliveries that are dead.
    pub dead: u64,
    /// When the first pending one is due, as [`DueMerchant::due_at`] says.
    pub first_due_at: Option<Timestamp>,
}

/// The sign that a process lives. It ends with the process, however that ends, so that others take over
/// without waiting for its lease to run out.
#[async_trait]
pub trait Presence: Send {
    /// Waits until another process says that merchants have deliveries due, and gives their ids; an empty
    /// list means too many to name. An error means that the sign is lost and must be taken again.
    async fn woken(&mut self) -> StoreResult<Vec<MerchantId>>;
}

/// Questions about the queue.
#[async_trait]
pub trait QueueReads {
    /// Merchants of the given shards with a delivery due, without the `known` ones.
    async fn queue_due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>>;

    /// The deliveries that are due, each merchant's first due first, without those already `taken` or known
    /// to be unreadable. It costs the same with a thousand deliveries waiting as with a million.
    async fn queue_claim(&self, asks: &[Ask], taken: &[DeliveryId], due: DueTime) -> StoreResult<Claims>;

    /// How full the queue is, over all merchants. It costs the same with a million merchants as with one.
    async fn queue_depth(&self) -> StoreResult<QueueDepth>;
}

/// Changes to the leases.
#[async_trait]
pub trait QueueWrites {
    /// Renews the shards that a process holds for a duty for the given time, frees those of processes that
    /// died or were silent for too long, and takes a fair share of the free ones. The process must hold its
    /// [`Presence`].
    async fn queue_lease(&mut self, keeper: KeeperId, duty: Duty, lease: Duration) -> StoreResult<Leases>;

    /// Gives shards back, so that other processes need not wait for the lease to run out.
    async fn queue_release(&mut self, leases: &[ShardLease]) -> StoreResult<()>;

    /// Computes anew when merchants are due. Those that count as due for longer than [`DUE_LAG`] but have
    /// nothing pending no longer count as due.
    async fn queue_refresh(
        &mut self,
        lock: &MerchantLock,
        merchants: &[MerchantId],
        at: Timestamp,
    ) -> StoreResult<()>;

    /// Those of the given leases that still hold. Nobody can take their shards until this transaction ends.
    async fn queue_fence(&mut self, leases: &[ShardLease]) -> StoreResult<Vec<ShardLease>>;
}

#[cfg(test)]
mod tests {
    use super::{SHARDS, fair_share};

    #[test]
    fn every_number_of_keepers_shares_all_shards_evenly() {
        let all = usize::try_from(SHARDS).expect("a small number");
        for alive in 1..=all + 1 {
            let shares: Vec<usize> = (0..alive).map(|before| fair_share(alive, before)).collect();
            assert_eq!(shares.iter().sum::<usize>(), all, "{alive} keepers: {shares:?}");
            let even = all / alive..=all.div_ceil(alive);
            assert!(shares.iter().all(|share| even.contains(share)), "{alive} keepers: {shares:?}");
        }
        assert_eq!(fair_share(0, 0), all, "who asks lives");
    }
}
