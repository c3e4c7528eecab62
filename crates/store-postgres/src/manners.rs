//! How calls to the server are made: how long each may take, and how a transaction begins.

use std::io;
use std::time::Duration;

use settle_store::answered;
use sqlx::Error;

/// Begins a transaction under the limits of the session.
const BEGIN: &str = "BEGIN";
/// Begins a transaction that waits a moment only for locks: 100 ms is ten times what a transaction takes that
/// records settlements or outcomes.
const BEGIN_HASTILY: &str = "BEGIN; SET LOCAL lock_timeout = '100ms'";
/// Begins a transaction whose commit does not wait for the disk.
const BEGIN_RELAXED: &str = "BEGIN; SET LOCAL synchronous_commit = off";
/// Both.
const BEGIN_RELAXED_HASTILY: &str =
    "BEGIN; SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = '100ms'";
/// Begins a transaction that reads everything as of its first statement.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";
/// Makes one that has begun as hasty.
pub(crate) const BE_HASTY: &str = "SET LOCAL lock_timeout = '100ms'";

/// How long calls may take. The server ends a statement earlier: `statement_timeout`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// A read in all: waiting for a connection, making one, the answer.
    pub(crate) read: Duration,
    /// A transaction's wait for its connection and its beginning.
    pub(crate) begin: Duration,
    /// One statement of a transaction.
    pub(crate) statement: Duration,
    /// The server's time to accept a connection and to start a session. Together with a ping it is less than
    /// a read's.
    pub(crate) connect: Duration,
    /// A connection's answer when it was idle, or is cleaned up.
    pub(crate) ping: Duration,
    /// Whether other callers of this process wait for the same merchants.
    pub(crate) has_gates: bool,
}

impl Limits {
    /// For requests. An authenticated one makes two reads after the other when the first fails, and is
    /// answered within five seconds.
    pub(crate) const REQUEST: Limits = Limits {
        read: Duration::from_secs(2),
        begin: Duration::from_secs(2),
        statement: Duration::from_secs(4),
        connect: Duration::from_millis(1_400),
        ping: Duration::from_millis(500),
        has_gates: true,
    };
    /// For a command, which holds up nobody but the person who waits for it.
    pub(crate) const COMMAND: Limits = Limits {
        read: Duration::from_secs(35),
        begin: Duration::from_secs(15),
        statement: Duration::from_secs(35),
        connect: Duration::from_secs(10),
        ping: Duration::from_millis(500),
        has_gates: false,
    };
}

/// How a transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Usual,
    /// It waits a moment only for locks.
    Hasty,
    /// Its commit does not wait for the disk.
    Relaxed,
    /// Both.
    RelaxedHasty,
    /// It only reads, everything as of its first statement.
    Snapshot,
}

impl Manner {
    /// The statement that begins it.
    pub(crate) fn sql(self) -> &'static str {
        match self {
            Self::Usual => BEGIN,
            Self::Hasty => BEGIN_HASTILY,
            Self::Relaxed => BEGIN_RELAXED,
            Self::RelaxedHasty => BEGIN_RELAXED_HASTILY,
            Self::Snapshot => BEGIN_SNAPSHOT,
        }
    }

    /// The same, waiting a moment only for locks.
    pub(crate) fn hastened(self) -> Manner {
        match self {
            Self::Usual | Self::Hasty => Self::Hasty,
            Self::Relaxed | Self::RelaxedHasty => Self::RelaxedHasty,
            // It takes no lock that somebody else may have.
            Self::Snapshot => Self::Snapshot,
        }
    }
}

/// The result of a call, or an error if it takes longer than the limit.
pub(crate) async fn limited<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    answered(limit, call).await.unwrap_or_else(|| Err(did_not_answer()))
}

/// What a call that ran into its limit ends with.
pub(crate) fn did_not_answer() -> Error {
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, "the database did not answer in time"))
}

/// What a list ends with that waited too long for others of its merchant.
pub(crate) fn too_many_lists() -> Error {
    let said = "the list waited too long for others of the same merchant";
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, said))
}

/// Whether a call ran into its limit.
pub(crate) fn is_late(error: &Error) -> bool {
    matches!(error, Error::Io(fault) if fault.kind() == io::ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_hastened_stays_as_relaxed_as_before() {
        let hasty =
            [Manner::Usual, Manner::Hasty, Manner::Relaxed, Manner::RelaxedHasty].map(Manner::hastened);
        assert_eq!(hasty.map(|manner| manner.sql().contains("lock_timeout")), [true; 4]);
        let relaxed = hasty.map(|manner| manner.sql().contains("synchronous_commit = off"));
        assert_eq!(relaxed, [false, false, true, true]);
        assert_eq!(Manner::Snapshot.hastened(), Manner::Snapshot);
    }
}
