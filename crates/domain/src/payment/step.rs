//! A line of a payment's timeline: what changed, why, by whom, and which money moved.

use crate::actor::Actor;
use crate::ids::OperationId;
use crate::ledger::Postings;
use crate::reason::Reason;
use crate::time::Timestamp;

use super::StateName;

/// One step of a payment. It is stored as one row, with its postings, and never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The payment's version after the step: the first is 1.
    pub version: u64,
    /// When.
    pub at: Timestamp,
    /// The state before; `None` when the payment was received.
    pub from: Option<StateName>,
    /// The state after.
    pub to: StateName,
    /// Why.
    pub reason: Option<Reason>,
    /// The operation that it is about.
    pub operation_id: Option<OperationId>,
    /// Who did it.
    pub by: Actor,
    /// What a person should know besides: an operator's evidence, or why a fixed side became the other.
    pub note: Option<String>,
    /// Which money moved.
    pub postings: Postings,
}
