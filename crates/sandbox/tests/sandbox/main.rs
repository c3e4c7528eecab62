//! The sandbox as the engine sees it: every behaviour through the real client; and the conformance kit on it.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

mod conformance;
mod memory;
mod protocol;
mod rows;
mod stage;

use settle_provider::seen::Seen;
use settle_provider::wire::{Operation, OperationStatus};

/// The status of an answered operation.
#[track_caller]
fn status(seen: &Seen<Operation>) -> OperationStatus {
    match seen {
        Seen::Answered(operation) => operation.status,
        other => panic!("no operation: {other:?}"),
    }
}

/// The amount of an answered operation.
#[track_caller]
fn amount(seen: &Seen<Operation>) -> String {
    match seen {
        Seen::Answered(operation) => operation.amount.expect("an amount").to_string(),
        other => panic!("no operation: {other:?}"),
    }
}

/// Code and reason of a refusal.
#[track_caller]
fn refusal(seen: &Seen<Operation>) -> (String, String) {
    match seen {
        Seen::Refused(problem) => (problem.code.to_string(), problem.reason.clone().unwrap_or_default()),
        other => panic!("not refused: {other:?}"),
    }
}
