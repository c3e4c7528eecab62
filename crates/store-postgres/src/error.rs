//! Which faults of PostgreSQL may pass by themselves, and which will not.

use settle_store::StoreError;
use sqlx::Error;
use sqlx::error::DatabaseError;

/// SQLSTATE classes and codes that say "not now": connection trouble (08), too few resources (53), an
/// administrator's intervention such as a restart or a time limit (57), a lock that was not free in time
/// (55P03), a transaction that stood still for too long (25P03), a serialization failure or a deadlock (40),
/// a server that accepts no writes, because another one does now.
const PASSING_STATES: [&str; 7] = ["08", "53", "57", LOCKED_STATE, "25P03", "40", READ_ONLY_STATE];
/// The SQLSTATE of what the role may not do.
const FORBIDDEN_STATE: &str = "42501";
/// A lock was not free in time.
const LOCKED_STATE: &str = "55P03";
/// The server ended a statement that took too long.
const CANCELED_STATE: &str = "57014";
/// The server accepts no writes.
pub(crate) const READ_ONLY_STATE: &str = "25006";

/// A fault that may pass is `Unavailable`, any other `Unexpected`. A right that is missing is the former:
/// nothing that waits is at fault, and everything goes on once somebody has granted it.
pub(crate) fn store_error(fault: Error) -> StoreError {
    if let Error::Database(refused) = &fault
        && refused.code().as_deref() == Some(FORBIDDEN_STATE)
    {
        return StoreError::grant_missing(refused.message());
    }
    let passing = match &fault {
        Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed | Error::Io(_) | Error::Tls(_) => true,
        Error::Database(fault) => {
            let state = fault.code();
            state.is_some_and(|state| PASSING_STATES.iter().any(|passing| state.starts_with(passing)))
        }
        _ => false,
    };
    if passing { StoreError::Unavailable(fault.into()) } else { StoreError::Unexpected(fault.into()) }
}

/// Whether the cause of an error is a lock that was not free in time, or many that each took a part of the
/// time which the server gives a statement.
pub(crate) fn is_locked(cause: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let state =
        cause.downcast_ref::<Error>().and_then(Error::as_database_error).and_then(DatabaseError::code);
    state.is_some_and(|state| state == LOCKED_STATE || state == CANCELED_STATE)
}

/// A name that must be unique is taken; any other fault as in [`store_error`].
pub(crate) fn unique_name_error(fault: Error) -> StoreError {
    if fault.as_database_error().is_some_and(DatabaseError::is_unique_violation) {
        return StoreError::NameTaken;
    }
    store_error(fault)
}
