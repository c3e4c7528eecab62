//! Which faults of SQLite pass by themselves, and which do not.

use settle_store::StoreError;
use sqlx::Error;
use sqlx::error::DatabaseError;

/// Primary result codes of SQLite that say "not now": busy, locked, out of memory, I/O error, disk full,
/// cannot open.
const PASSING_CODES: [i32; 6] = [5, 6, 7, 10, 13, 14];

/// Tells a fault that may pass from one that will not.
pub(crate) fn store_error(fault: Error) -> StoreError {
    let passing = match &fault {
        Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed | Error::Io(_) => true,
        Error::Database(fault) => {
            // An extended code carries the primary one in its low byte.
            let code = fault.code().and_then(|code| code.parse::<i32>().ok());
            code.is_some_and(|code| PASSING_CODES.contains(&(code & 0xff)))
        }
        _ => false,
    };
    if passing { StoreError::Unavailable(fault.into()) } else { StoreError::Unexpected(fault.into()) }
}

/// A name that must be unique is taken; anything else as above.
pub(crate) fn unique_name_error(fault: Error) -> StoreError {
    if fault.as_database_error().is_some_and(DatabaseError::is_unique_violation) {
        return StoreError::NameTaken;
    }
    store_error(fault)
}
