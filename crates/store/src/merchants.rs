//! Merchants, the owners of settlements, keys and endpoints, and their locks.
//!
//! A transaction that changes a merchant's settlements, deliveries or endpoint first locks the merchant's row
//! of `merchant_counts`. The lock keeps decisions that read first and then write correct on PostgreSQL at
//! READ COMMITTED, and replaces foreign keys on the tables that grow. All transactions lock in the order of
//! the ids, so they cannot deadlock. [`MerchantLock`] proves that a transaction holds the locks.

use async_trait::async_trait;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;

use crate::{MerchantLock, StoreResult};

/// A merchant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merchant {
    /// The merchant's id.
    pub merchant_id: MerchantId,
    /// The operators' name for it.
    pub name: String,
    /// When an operator added it.
    pub created_at: Timestamp,
}

/// Questions about merchants.
#[async_trait]
pub trait MerchantReads {
    /// Merchants in the order of their ids, starting after the given id.
    async fn merchant_list(&self, after: Option<MerchantId>, limit: u32) -> StoreResult<Vec<Merchant>>;

    /// A merchant by its id.
    async fn merchant_find(&self, merchant: MerchantId) -> StoreResult<Option<Merchant>>;
}

/// Changes to merchants.
#[async_trait]
pub trait MerchantWrites {
    /// Adds a merchant, with its counts at zero.
    async fn merchant_create(&mut self, merchant: &Merchant) -> StoreResult<()>;

    /// Locks those of the given merchants that exist, and says which they are. Until this transaction ends
    /// nobody else changes their settlements, deliveries, counts or endpoints.
    ///
    /// Locks are taken in the order of the ids, so that two transactions never wait for each other. So name
    /// every merchant in one call.
    async fn merchant_lock(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock>;

    /// Locks as [`MerchantWrites::merchant_lock`] does, but waits a moment only: long enough for transactions
    /// that record, not for one that hangs. `None` if one of the merchants is still locked then; this
    /// transaction is of no use any more.
    async fn merchant_lock_soon(&mut self, merchants: &[MerchantId]) -> StoreResult<Option<MerchantLock>>;

    /// Locks without waiting: it leaves out merchants that another transaction has locked.
    async fn merchant_lock_free(&mut self, merchants: &[MerchantId]) -> StoreResult<MerchantLock>;
}
