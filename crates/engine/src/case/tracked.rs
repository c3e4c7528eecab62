//! One operation in hand, and its form in the store.

use std::time::Duration;

use settle_domain::operation::{Memory, Operation, OperationRequest, OperationStatus, Promise, Refusal};
use settle_store::{OperationChange, OperationRow, StoreResult};
use tokio::time::Instant;

use super::errand::Errand;
use super::stored::{StoredMemory, StoredPromise, StoredRefusal};
use super::{json, parse};

/// An operation, and what the engine is about to do with it.
#[derive(Debug, Clone)]
pub struct Tracked {
    /// The operation.
    pub operation: Operation,
    /// What is to be done next.
    pub errand: Errand,
    /// The provider's memory that the operation was first sent to, once that is known.
    pub instance: Option<String>,
    /// What the quote of a conversion promised. A later one has a quote of its own.
    pub promise: Option<Promise>,
    /// Why its provider refused it, if it did.
    pub refusal: Option<Refusal>,
    /// How old it was when people gave it up, by the database's clock.
    pub given_up_after: Option<Duration>,
    /// How old it was, by the database's clock, when it was read.
    pub age: Duration,
    /// When it was read.
    pub read_at: Instant,
}

impl Tracked {
    /// A new operation, which is sent as soon as it is committed.
    #[must_use]
    pub fn new(operation: Operation, instance: Option<String>, promise: Option<Promise>) -> Tracked {
        let (age, read_at) = (Duration::ZERO, Instant::now());
        let (errand, refusal, given_up_after) = (Errand::Sending, None, None);
        Tracked { operation, errand, instance, promise, refusal, given_up_after, age, read_at }
    }

    /// How old the operation is, by the database's clock.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.age + self.read_at.elapsed()
    }

    /// Whether it forbids another one of its payment.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.operation.memory.is_live()
    }

    /// Whether no byte of it can have been executed: it waits to be sent for the first time, or again after
    /// its provider turned it away.
    #[must_use]
    pub fn is_unsent(&self) -> bool {
        self.errand == Errand::Send && self.operation.memory == Memory::NEW
    }

    /// Whether its provider may have news of it although it has ended: done, it can come back; refused, it
    /// can be done after all. What was given up is looked up for some time anyway, and before anything is
    /// sent.
    #[must_use]
    pub const fn can_be_hinted(&self) -> bool {
        matches!(self.operation.memory.status, OperationStatus::Succeeded | OperationStatus::Refused)
    }

    /// Whether its provider hinted at news of it, and has not told them yet.
    #[must_use]
    pub fn is_hinted(&self) -> bool {
        self.can_be_hinted() && self.errand == Errand::LookUp
    }

    /// The operation as it is prepared.
    #[must_use]
    pub fn row(&self) -> OperationRow {
        let operation = &self.operation;
        OperationRow {
            merchant_id: operation.merchant_id,
            payment_id: operation.payment_id,
            kind: operation.request.kind(),
            attempt: operation.attempt,
            operation_id: operation.operation_id,
            provider: operation.provider.clone(),
            status: operation.memory.status,
            is_live: self.is_live(),
            age: Duration::ZERO,
            request: json(&operation.request),
            memory: self.memory(),
        }
    }

    /// What was learnt of it.
    #[must_use]
    pub fn change(&self) -> OperationChange {
        let operation = &self.operation;
        OperationChange {
            merchant_id: operation.merchant_id,
            payment_id: operation.payment_id,
            kind: operation.request.kind(),
            attempt: operation.attempt,
            status: operation.memory.status,
            is_live: self.is_live(),
            memory: self.memory(),
        }
    }

    fn memory(&self) -> String {
        let Memory { status: _, was_unknown, was_accepted, was_voided, is_late } = self.operation.memory;
        json(&StoredMemory {
            was_unknown,
            was_accepted,
            was_voided,
            is_late,
            errand: self.errand,
            instance: self.instance.clone(),
            provider_reference: self.operation.provider_reference.clone(),
            bought_amount: self.operation.bought_amount,
            deviation: self.operation.deviation.clone(),
            promise: self.promise.map(StoredPromise::of),
            refusal: self.refusal.map(StoredRefusal::of),
            given_up_after_seconds: self.given_up_after.map(|age| age.as_secs()),
        })
    }

    /// Reads an operation back.
    pub fn read(row: OperationRow) -> StoreResult<Tracked> {
        let memory: StoredMemory = parse(&row.memory)?;
        let request: OperationRequest = parse(&row.request)?;
        let operation = Operation {
            operation_id: row.operation_id,
            merchant_id: row.merchant_id,
            payment_id: row.payment_id,
            attempt: row.attempt,
            provider: row.provider,
            request,
            memory: Memory {
                status: row.status,
                was_unknown: memory.was_unknown,
                was_accepted: memory.was_accepted,
                was_voided: memory.was_voided,
                is_late: memory.is_late,
            },
            provider_reference: memory.provider_reference,
            bought_amount: memory.bought_amount,
            deviation: memory.deviation,
        };
        Ok(Tracked {
            operation,
            errand: memory.errand,
            instance: memory.instance,
            promise: memory.promise.map(StoredPromise::into_domain),
            refusal: memory.refusal.map(StoredRefusal::into_domain),
            given_up_after: memory.given_up_after_seconds.map(Duration::from_secs),
            age: row.age,
            read_at: Instant::now(),
        })
    }
}
