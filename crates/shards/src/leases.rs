//! What the keeper asks of the database: the seam at which a simulation injects its faults.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::KeeperId;
use settle_store::{Duty, Leases, Presence, ShardLease, Store, StoreResult};

/// The leases on shards, as the keeper sees them.
#[async_trait]
pub trait ShardLeases: Send + Sync {
    /// See [`Store::presence`].
    async fn presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>>;
    /// See [`settle_store::QueueWrites::queue_lease`].
    async fn renew(&self, keeper: KeeperId, lease: Duration) -> StoreResult<Leases>;
    /// See [`settle_store::QueueWrites::queue_release`].
    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()>;
}

/// The real ones, for one duty.
pub struct StoreLeases(pub Arc<dyn Store>, pub Duty);

#[async_trait]
impl ShardLeases for StoreLeases {
    async fn presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        self.0.presence(keeper, self.1).await
    }

    async fn renew(&self, keeper: KeeperId, lease: Duration) -> StoreResult<Leases> {
        let mut tx = self.0.begin().await?;
        let leases = tx.queue_lease(keeper, self.1, lease).await?;
        tx.commit().await?;
        Ok(leases)
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        let mut tx = self.0.begin().await?;
        tx.queue_release(leases).await?;
        tx.commit().await
    }
}
