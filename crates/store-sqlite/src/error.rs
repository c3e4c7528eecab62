//! Which faults of SQLite pass by themselves, and which do not.

use rusqlite::Error;
use rusqlite::ffi::{
    ErrorCode, SQLITE_CONSTRAINT_FOREIGNKEY, SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE,
};
use settle_store::StoreError;

/// Tells a fault that may pass from one that will not.
pub(crate) fn store_error(fault: Error) -> StoreError {
    let passing = fault.sqlite_error_code().is_some_and(|code| {
        matches!(
            code,
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::CannotOpen
        )
    });
    if passing { StoreError::Unavailable(fault.into()) } else { StoreError::Unexpected(fault.into()) }
}

/// Another process holds the file.
pub(crate) fn is_busy(fault: &Error) -> bool {
    fault.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
}

/// A row with the same key is there already.
pub(crate) fn is_unique_violation(fault: &Error) -> bool {
    [SQLITE_CONSTRAINT_UNIQUE, SQLITE_CONSTRAINT_PRIMARYKEY].map(Some).contains(&extended_code(fault))
}

/// The row that this one refers to is not there.
pub(crate) fn is_foreign_key_violation(fault: &Error) -> bool {
    extended_code(fault) == Some(SQLITE_CONSTRAINT_FOREIGNKEY)
}

fn extended_code(fault: &Error) -> Option<i32> {
    fault.sqlite_error().map(|fault| fault.extended_code)
}

/// A name that must be unique is taken; anything else as above.
pub(crate) fn unique_name_error(fault: Error) -> StoreError {
    if is_unique_violation(&fault) { StoreError::NameTaken } else { store_error(fault) }
}
