//! Which master keys this database has been used with, so that a wrong one is noticed before it does harm.

use async_trait::async_trait;
use settle_domain::time::Timestamp;
use settle_domain::vault::RingKeyId;

use crate::StoreResult;

/// Questions about master keys.
#[async_trait]
pub trait RingReads {
    /// The master keys that were ever the newest one.
    async fn ring_list(&self) -> StoreResult<Vec<RingKeyId>>;
}

/// Changes to what is known of master keys.
#[async_trait]
pub trait RingWrites {
    /// Remembers that a master key is in use. To remember it again changes nothing.
    async fn ring_record(&mut self, key: RingKeyId, at: Timestamp) -> StoreResult<()>;
}
