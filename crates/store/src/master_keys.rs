//! The ids of the master keys used with this database, so that a node with a wrong key notices before it does
//! harm.

use async_trait::async_trait;
use settle_domain::time::Timestamp;
use settle_domain::vault::MasterKeyId;

use crate::StoreResult;

/// Questions about master keys.
#[async_trait]
pub trait MasterKeyReads {
    /// The master keys that were ever the newest of a ring, oldest first.
    async fn master_key_list(&self) -> StoreResult<Vec<MasterKeyId>>;
}

/// Changes to the list of master keys.
#[async_trait]
pub trait MasterKeyWrites {
    /// Records a master key in use. Recording it again changes nothing.
    async fn master_key_record(&mut self, key: MasterKeyId, at: Timestamp) -> StoreResult<()>;
}
