//! The storage contract: the traits of a backend, and the conformance suite that every backend must pass.
//!
//! # The shape
//!
//! [`Reads`] answers questions, each in one snapshot. Only [`Tx`] writes: a caller begins a transaction with
//! [`Store::begin`] and ends it with [`Tx::commit`]; a dropped transaction leaves no trace. Both are sums of
//! small traits, one pair per noun, and a noun has the same file name in every layer: here, in both backends,
//! in the suite and in the API.
//!
//! # How to add a query
//!
//! 1. Add the method to the noun's `…Reads` or `…Writes` here, resource before verb (`delivery_requeue`). A
//!    method that reads a merchant's rows takes its id, except an operator's search, which goes from merchant
//!    to merchant.
//! 2. Write the SQL in the same file of both backends, inside `statements!`, as `hot` when a request or a
//!    delivery waits for it. On PostgreSQL a batch is one statement, not a loop (a clearing is several, so
//!    that others wait less behind it). Where the backends differ, a comment says "differs because". A write
//!    that needs its merchants' locks takes `&MerchantLock`, and checks it first.
//! 3. Add the behaviour to the noun's file in `conformance` and to the list in `conformance_suite!`, and to
//!    the model if it changes what lists show.
//! 4. Both backends' tests then run it, and read the plan of every hot statement.
//!
//! # What is deliberately absent
//!
//! No method hands out a connection, and there is no query builder. No transaction lives across a network
//! call: the caller uses the network first and begins the transaction afterwards.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{KeeperId, MerchantId};

mod alerts;
mod balances;
mod clearings;
mod corridors;
mod counts;
mod deadline;
mod deliveries;
mod endpoints;
mod epochs;
mod error;
mod imports;
mod jobs;
mod keys;
mod locks;
mod master_keys;
mod merchants;
mod operations;
mod operators;
mod payments;
mod proposals;
mod providers;
mod queue;
mod readable;
mod reports;
mod settlements;
pub mod slices;
pub mod statements;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use alerts::{
    ALERT_IDS_MAX, ALERT_QUIET, Alert, AlertReads, AlertWrites, Death, Happened, Occurrence, PutOff,
    by_subject,
};
pub use balances::{Audit, AuditedPayment, Balance, BalanceReads, BalanceWrites, audited, sum_postings};
pub use clearings::{ClearingReads, ClearingStep, ClearingWrites, ClearingsLeft, ENDED_AT_ONCE_MAX};
pub use corridors::{CorridorKey, CorridorReads, CorridorWrites, NewCorridor, StoredCorridor};
pub use counts::{CountChange, CountChanges};
pub use deadline::{Answered, CALL_TIMEOUT, answered, within};
pub use deliveries::{
    DeliveryCursor, DeliveryFilter, DeliveryReads, DeliveryState, DeliveryWrites, NewDelivery, Seen,
};
pub use endpoints::{EndpointReads, EndpointWrites};
pub use epochs::Epochs;
pub use error::StoreError;
pub use imports::{
    IMPORT_STEP_ROWS, IMPORTS_MAX, Import, ImportMarks, ImportReads, ImportState, ImportStep, ImportWrites,
    StagedBatch, StagedRow, StagedVerdict, rows_by_merchant,
};
pub use jobs::{JobState, JobWrites, TakenJob};
pub use keys::{Key, KeyReads, KeyWrites, NewKey, StoredKey};
pub use locks::{MerchantLock, TxNumber};
pub use master_keys::{
    MasterKeyReads, MasterKeyUse, MasterKeyWrites, ResealedKey, ResealedSecret, ResealedToken, SealedKind,
};
pub use merchants::{Merchant, MerchantReads, MerchantWrites};
pub use operations::{OperationChange, OperationReads, OperationRow, OperationWrites};
pub use operators::{NewOperator, Operator, OperatorReads, OperatorWrites, StoredToken};
pub use payments::{
    LOOKED_AT_MAX, LatePayment, NewPayment, PAYMENTS_AT_ONCE_MAX, PaymentAsk, PaymentChange, PaymentClaims,
    PaymentCount, PaymentCreated, PaymentFilter, PaymentReads, PaymentRow, PaymentSearches, PaymentStanding,
    PaymentWrites, SearchedBy, StepRow,
};
pub use proposals::{Proposal, ProposalReads, ProposalWrites};
pub use providers::{PausedProvider, ProviderPause, ProviderReads, ProviderWrites};
pub use queue::{
    Ask, Claimed, Claims, DUE_LAG, DueMerchant, DueTime, Duty, LeaseToken, Leases, Presence, QueueDepth,
    QueueReads, QueueWrites, SHARDS, Shard, ShardLease, fair_share, lease_rows,
};
pub use readable::{ReadablePage, left_out};
pub use reports::{Finding, Report, ReportReads, ReportWrites, Unlisted};
pub use settlements::{
    BATCH_MAX, Content, ListKey, NewSettlement, PaymentMarks, RecordedBatch, SettlementBatch,
    SettlementReads, SettlementWrites, stored_origin,
};

/// The result of a storage call.
pub type StoreResult<T> = Result<T, StoreError>;

/// All questions. Each call reads one snapshot.
pub trait Reads:
    MerchantReads
    + KeyReads
    + OperatorReads
    + SettlementReads
    + ImportReads
    + DeliveryReads
    + EndpointReads
    + ClearingReads
    + QueueReads
    + AlertReads
    + MasterKeyReads
    + CorridorReads
    + PaymentReads
    + PaymentSearches
    + OperationReads
    + BalanceReads
    + ReportReads
    + ProviderReads
    + ProposalReads
    + Send
    + Sync
{
}

impl<T> Reads for T where
    T: MerchantReads
        + KeyReads
        + OperatorReads
        + SettlementReads
        + ImportReads
        + DeliveryReads
        + EndpointReads
        + ClearingReads
        + QueueReads
        + AlertReads
        + MasterKeyReads
        + CorridorReads
        + PaymentReads
        + PaymentSearches
        + OperationReads
        + BalanceReads
        + ReportReads
        + ProviderReads
        + ProposalReads
        + Send
        + Sync
{
}

/// A transaction: all writes. Dropped without [`Tx::commit`], it leaves no trace.
#[async_trait]
pub trait Tx:
    MerchantWrites
    + KeyWrites
    + OperatorWrites
    + SettlementWrites
    + ImportWrites
    + DeliveryWrites
    + EndpointWrites
    + ClearingWrites
    + QueueWrites
    + AlertWrites
    + MasterKeyWrites
    + CorridorWrites
    + PaymentWrites
    + OperationWrites
    + BalanceWrites
    + ProviderWrites
    + JobWrites
    + ReportWrites
    + ProposalWrites
    + Send
{
    /// Makes all writes durable at once.
    async fn commit(self: Box<Self>) -> StoreResult<()>;
}

/// What a revocation found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revocation {
    /// A valid key or token, which is now revoked.
    Revoked,
    /// A key or token that was revoked before.
    AlreadyRevoked,
    /// No key or operator with this id.
    Unknown,
}

/// The connections of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCount {
    /// Those that somebody uses.
    pub used: usize,
    /// Those that nobody uses.
    pub idle: usize,
    /// How many there may be.
    pub max: usize,
}

/// A database with the schema of this version.
#[async_trait]
pub trait Store: Reads {
    /// Begins a transaction. SQLite allows one at a time: keep it short.
    async fn begin(&self) -> StoreResult<Box<dyn Tx>>;

    /// Begins a transaction of work that is done again if it is lost: its commit does not wait for the disk,
    /// so a crash of the machine or of the database may undo it, wholly. One of this process does not.
    async fn begin_relaxed(&self) -> StoreResult<Box<dyn Tx>>;

    /// Begins such a transaction of work that writes much, in steps. It waits for the disk where somebody
    /// else would have to wait for what it left behind.
    async fn begin_step(&self) -> StoreResult<Box<dyn Tx>> {
        self.begin_relaxed().await
    }

    /// How long a transaction that serves many callers should wait for those it answered last, who come back
    /// soon. Waiting pays where a transaction is expensive at any size. Where it is cheap, one half of the
    /// callers calls again while the other half is written.
    fn callers_awaited(&self) -> Duration {
        Duration::ZERO
    }

    /// Asks the database whether it answers.
    async fn ping(&self) -> StoreResult<()>;

    /// Writes to the disk what changes nothing, to see whether the database accepts writes: one whose disk is
    /// full still answers.
    async fn write_probe(&self) -> StoreResult<()>;

    /// Brings the schema to this version. Several nodes may call it together.
    async fn migrate(&self) -> StoreResult<()>;

    /// How many migrations of this version have not been applied.
    async fn migrations_pending(&self) -> StoreResult<usize>;

    /// What the role of this store may not do although the service needs it, a phrase each, such as "INSERT
    /// into settlements".
    async fn rights_missing(&self) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }

    /// Shows that a process lives. `None` when another process already has the duty and the database allows
    /// only one, as SQLite does.
    async fn presence(&self, keeper: KeeperId, duty: Duty) -> StoreResult<Option<Box<dyn Presence>>>;

    /// Tells the dispatchers of other processes that merchants have deliveries due. It is only a hint: a
    /// dispatcher that misses it finds them at its next look.
    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()>;

    /// How many deliveries one step of a clearing ends: some milliseconds' work, during which the merchant
    /// is locked, and on SQLite everybody who writes waits.
    fn clearing_step_rows(&self) -> u32;

    /// How long work that is done in steps rests between two of them at least, so that others get a turn.
    fn step_rest_min(&self) -> Duration {
        Duration::ZERO
    }

    /// How many connections to the database there are, where that is bounded.
    fn connections(&self) -> Option<ConnectionCount> {
        None
    }

    /// How long the journal of the database is, where the service is the one that keeps it short.
    fn journal_bytes(&self) -> Option<u64> {
        None
    }

    /// Closes all connections after the present transactions have ended.
    async fn close(&self);
}
