//! The errors of a backend, divided by what the caller can do about them.

use std::error::Error;

use settle_domain::error_code::ErrorCode;
use settle_domain::ids::MerchantId;

/// A storage call that failed. The cause is for the log, never for a client.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database cannot be reached, does not answer in time, or does not let us: what was asked is not at
    /// fault, and trying again later may work.
    #[error("the database is unavailable")]
    Unavailable(#[source] Box<dyn Error + Send + Sync>),
    /// The database answered in a way that this version does not expect: a bug, or a damaged row.
    #[error("the database gave an unexpected answer")]
    Unexpected(#[source] Box<dyn Error + Send + Sync>),
    /// A caller named a merchant that does not exist.
    #[error("there is no merchant {0}")]
    UnknownMerchant(MerchantId),
    /// A name that must be unique is taken.
    #[error("that name is taken")]
    NameTaken,
    /// The schema has steps that this version does not know.
    #[error("the database was made by a later version of settle: run that version")]
    LaterVersion,
}

impl StoreError {
    /// An answer of the database that this version does not expect, in words.
    #[must_use]
    pub fn unexpected(what: impl Into<String>) -> StoreError {
        StoreError::Unexpected(what.into().into())
    }

    /// The role of this service lacks a right: no fault of what was asked, and it may be tried again once
    /// somebody has granted it.
    #[must_use]
    pub fn grant_missing(said: &str) -> StoreError {
        StoreError::Unavailable(GrantMissing { said: said.to_owned() }.into())
    }

    /// Whether the role of this service lacks a right.
    #[must_use]
    pub fn is_grant_missing(&self) -> bool {
        matches!(self, StoreError::Unavailable(cause) if cause.is::<GrantMissing>())
    }
}

/// What the database says of a right that the role of this service lacks.
#[derive(Debug, thiserror::Error)]
#[error("{}: {said}: settle doctor names the rights that the role lacks", ErrorCode::DatabaseGrantMissing)]
struct GrantMissing {
    said: String,
}
