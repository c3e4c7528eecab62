//! Which master keys this database has been used with, so that a wrong one is noticed before it does harm.

use async_trait::async_trait;
use settle_domain::time::Timestamp;
use settle_domain::vault::MasterKeyId;

use crate::StoreResult;

/// Questions about master keys.
#[async_trait]
pub trait MasterKeyReads {
    /// The master keys that were ever the newest one.
    async fn master_key_list(&self) -> StoreResult<Vec<MasterKeyId>>;
}

/// Changes to what is known of master keys.
#[async_trait]
pub trait MasterKeyWrites {
    /// Remembers that a master key is in use. To remember it again changes nothing.
    async fn master_key_record(&mut self, key: MasterKeyId, at: Timestamp) -> StoreResult<()>;
}
