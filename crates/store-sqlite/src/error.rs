//! Which faults of SQLite may pass by themselves, and which will not.

use rusqlite::Error;
use rusqlite::ffi::{
    ErrorCode, SQLITE_CONSTRAINT_FOREIGNKEY, SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE,
};
use settle_store::StoreError;

/// A fault that may pass is `Unavailable`, any other `Unexpected`.
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

/// A row with the same key exists already.
pub(crate) fn is_unique_violation(fault: &Error) -> bool {
    [SQLITE_CONSTRAINT_UNIQUE, SQLITE_CONSTRAINT_PRIMARYKEY].map(Some).contains(&extended_code(fault))
}

/// The row that this one refers to does not exist.
pub(crate) fn is_foreign_key_violation(fault: &Error) -> bool {
    extended_code(fault) == Some(SQLITE_CONSTRAINT_FOREIGNKEY)
}

fn extended_code(fault: &Error) -> Option<i32> {
    fault.sqlite_error().map(|fault| fault.extended_code)
}

/// A name that must be unique is taken; any other fault as in [`store_error`].
pub(crate) fn unique_name_error(fault: Error) -> StoreError {
    if is_unique_violation(&fault) { StoreError::NameTaken } else { store_error(fault) }
}
