//! The storage contract: what a backend must offer, and the conformance suite that holds it to that.
//!
//! # The shape
//!
//! [`Reads`] answers questions, each in one snapshot. [`Tx`] writes, and is the only thing that does: whoever
//! wants to write begins a transaction with [`Store::begin`] and ends it with [`Tx::commit`]; dropped, it
//! leaves no trace. Both are sums of small traits, one pair per noun, and the noun has the same file name in
//! every layer: here, in both backends, in the suite and in the API.
//!
//! # How to add a query
//!
//! 1. Add the method to the noun's `…Reads` or `…Writes` here, resource before verb (`delivery_requeue`). A
//!    merchant's rows are reached through its id: no method reads them without one, but for an operator's
//!    search, which goes from merchant to merchant.
//! 2. Write the SQL in the same file of both backends, inside `statements!`, as `hot` when a request or a
//!    delivery waits for it. Batches are one statement, not a loop. Where the backends differ, a comment says
//!    "differs because".
//!    A write that needs its merchants' locks takes `&MerchantLock`, and checks it before anything else.
//! 3. Add the behaviour to the noun's file in `conformance`, and to the model there if it changes what
//!    lists show.
//! 4. The backends' tests pick it up by themselves, and read the plan of every hot statement.
//!
//! # What is deliberately absent
//!
//! There is no method that hands out a connection, and no query builder. No transaction lives across a
//! network call: the caller asks the network first and begins afterwards.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{DispatcherId, MerchantId};

mod alerts;
mod counts;
mod deadline;
mod deliveries;
mod endpoints;
mod error;
mod keys;
mod locks;
mod master_keys;
mod merchants;
mod operators;
mod queue;
mod settlements;
pub mod slices;
pub mod statements;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use alerts::{
    ALERT_DELIVERIES_MAX, Alert, AlertReads, AlertWrites, Death, EndpointDeaths, PutOff, by_endpoint,
};
pub use counts::{CountChange, CountChanges};
pub use deadline::within;
pub use deliveries::{
    DeliveryCursor, DeliveryFilter, DeliveryReads, DeliveryState, DeliveryWrites, NewDelivery, Seen,
};
pub use endpoints::{EndpointReads, EndpointWrites};
pub use error::StoreError;
pub use keys::{AuthenticatedKey, Key, KeyReads, KeyWrites, NewKey};
pub use locks::{MerchantLock, TxNumber};
pub use master_keys::{MasterKeyReads, MasterKeyWrites};
pub use merchants::{Merchant, MerchantReads, MerchantWrites};
pub use operators::{NewOperator, Operator, OperatorReads, OperatorWrites};
pub use queue::{
    Ask, Claimed, DUE_LAG, DueMerchant, LeaseToken, Leases, Presence, QueueDepth, QueueReads, QueueWrites,
    SHARDS, Shard, ShardLease,
};
pub use settlements::{
    BATCH_MAX, ListKey, NewSettlement, RecordedBatch, SettlementBatch, SettlementReads, SettlementWrites,
};

/// What a storage call gives.
pub type StoreResult<T> = Result<T, StoreError>;

/// Everything that can be asked. Each call is one snapshot.
pub trait Reads:
    MerchantReads
    + KeyReads
    + OperatorReads
    + SettlementReads
    + DeliveryReads
    + EndpointReads
    + QueueReads
    + AlertReads
    + MasterKeyReads
    + Send
    + Sync
{
}

impl<T> Reads for T where
    T: MerchantReads
        + KeyReads
        + OperatorReads
        + SettlementReads
        + DeliveryReads
        + EndpointReads
        + QueueReads
        + AlertReads
        + MasterKeyReads
        + Send
        + Sync
{
}

/// A transaction: everything that can be written. Dropped without [`Tx::commit`], it leaves no trace.
#[async_trait]
pub trait Tx:
    MerchantWrites
    + KeyWrites
    + OperatorWrites
    + SettlementWrites
    + DeliveryWrites
    + EndpointWrites
    + QueueWrites
    + AlertWrites
    + MasterKeyWrites
    + Send
{
    /// Makes everything written durable, all of it at once.
    async fn commit(self: Box<Self>) -> StoreResult<()>;
}

/// Whether a revocation found something to revoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// It held until now, and no longer does.
    Revoked,
    /// It was revoked before.
    AlreadyRevoked,
    /// There is no such thing.
    Unknown,
}

/// A database with the schema of this version.
#[async_trait]
pub trait Store: Reads {
    /// Begins a transaction. On SQLite there is one at a time: keep it short.
    async fn begin(&self) -> StoreResult<Box<dyn Tx>>;

    /// How long a transaction for many callers should wait for those who were answered last and come back.
    /// Where a transaction costs much, whatever its size, they are better off together; where it does not,
    /// one half of them calls again while the other half is written.
    fn callers_awaited(&self) -> Duration {
        Duration::ZERO
    }

    /// Asks the database whether it answers.
    async fn ping(&self) -> StoreResult<()>;

    /// Brings the schema to this version. Several nodes may call it together.
    async fn migrate(&self) -> StoreResult<()>;

    /// How many migrations of this version have not been applied.
    async fn migrations_pending(&self) -> StoreResult<usize>;

    /// Gives the sign that a dispatcher lives. `None` when another one lives that does not share: on SQLite
    /// one process sends.
    async fn presence(&self, dispatcher: DispatcherId) -> StoreResult<Option<Box<dyn Presence>>>;

    /// Tells the dispatchers of other processes that merchants have something due. A hint and no more: what
    /// is not heard is found by looking.
    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()>;

    /// Lets go of all connections, after the transactions under way have ended.
    async fn close(&self);
}
