//! Merchants: whoever owns settlements, keys and an endpoint.

use async_trait::async_trait;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;

use crate::{MerchantLock, StoreResult};

/// A merchant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merchant {
    /// Which merchant.
    pub merchant_id: MerchantId,
    /// What operators call it.
    pub name: String,
    /// Since when it is here.
    pub created_at: Timestamp,
}

/// Questions about merchants.
#[async_trait]
pub trait MerchantReads {
    /// Merchants in the order of their ids, from the first one after the given id.
    async fn merchant_list(&self, after: Option<MerchantId>, limit: u32) -> StoreResult<Vec<Merchant>>;
}

/// Changes to merchants.
#[async_trait]
pub trait MerchantWrites {
    /// Adds a merchant, with its counts at zero.
    async fn merchant_create(&mut self, merchant: &Merchant) -> StoreResult<()>;

    /// Takes the lock of each of the given merchants that exists: until the end of this transaction nobody
    /// else changes its settlements, deliveries, counts or endpoint. The lock says which they are.
    ///
    /// Locks are taken in the order of the ids, so that two transactions never wait for each other: name every
    /// merchant in one call.
    async fn merchant_lock(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock>;

    /// The same without waiting: those alone whose lock nobody else has.
    async fn merchant_lock_free(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock>;
}
