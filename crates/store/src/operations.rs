//! Operations: what was asked of providers, and what became of it.
//!
//! The database forbids a second live conversion, and a second live payout or refund, of one payment: a
//! transaction that prepares one fails. An operation is found by its payment, and by its id alone where a
//! provider names it.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::operation::{OperationKind, OperationStatus};
use settle_domain::provider::ProviderName;
use settle_domain::time::Timestamp;

use crate::{MerchantLock, StoreResult};

/// An operation as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRow {
    /// Whose payment.
    pub merchant_id: MerchantId,
    /// Which payment.
    pub payment_id: PaymentId,
    /// What is asked for.
    pub kind: OperationKind,
    /// The how manieth of this kind, from 1 on.
    pub attempt: u32,
    /// Its id: the idempotency key.
    pub operation_id: OperationId,
    /// Who was asked.
    pub provider: ProviderName,
    /// What became of it, as far as that is known.
    pub status: OperationStatus,
    /// Whether it forbids another one of its payment.
    pub is_live: bool,
    /// How long ago it was prepared, by the database's clock; nothing for one that is about to be.
    pub age: Duration,
    /// The whole request, as JSON. It never changes.
    pub request: String,
    /// What was learnt of its fate, as JSON.
    pub memory: String,
}

/// What was learnt of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationChange {
    /// Whose payment.
    pub merchant_id: MerchantId,
    /// Which payment.
    pub payment_id: PaymentId,
    /// What is asked for.
    pub kind: OperationKind,
    /// The how manieth of this kind.
    pub attempt: u32,
    /// Its status from now on.
    pub status: OperationStatus,
    /// Whether it forbids another one of its payment.
    pub is_live: bool,
    /// What is remembered from now on, as JSON.
    pub memory: String,
}

/// Questions about operations.
#[async_trait]
pub trait OperationReads {
    /// All operations of the given payments, by payment, kind and attempt. Ages count until `now` where the
    /// database has no clock of its own.
    async fn operation_of_many(
        &self,
        payments: &[(MerchantId, PaymentId)],
        now: Timestamp,
    ) -> StoreResult<Vec<OperationRow>>;

    /// The operations that a provider names, those that we know, in any order.
    async fn operation_find_many(
        &self,
        operations: &[OperationId],
        now: Timestamp,
    ) -> StoreResult<Vec<OperationRow>>;

    /// The operation that a provider names.
    async fn operation_find(
        &self,
        operation: OperationId,
        now: Timestamp,
    ) -> StoreResult<Option<OperationRow>>;
}

/// Changes to operations.
#[async_trait]
pub trait OperationWrites {
    /// Prepares operations, `now` where the database has no clock of its own. Fails if one of their payments
    /// has a live one already.
    async fn operation_prepare_many(
        &mut self,
        lock: &MerchantLock,
        operations: &[OperationRow],
        now: Timestamp,
    ) -> StoreResult<()>;

    /// Records what was learnt of operations at the given time.
    async fn operation_change_many(
        &mut self,
        lock: &MerchantLock,
        changes: &[OperationChange],
        at: Timestamp,
    ) -> StoreResult<()>;
}
