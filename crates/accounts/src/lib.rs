//! Merchants, their API keys, and operators. The commands and the benchmark add, list and revoke them through
//! this crate, and the API recognises callers through it, so that the same rules hold everywhere.
//!
//! | module | what it does |
//! |---|---|
//! | [`merchants`] | adds and lists merchants |
//! | [`keys`] | makes, lists and revokes the API keys of a merchant, and recognises them |
//! | [`operators`] | adds, lists and revokes operators, and recognises their tokens |
//! | [`master_keys`] | what needs which master key, and sealing it anew |
//! | `anew` | seals a credential anew when it is used |
//! | `names` | checks names and labels |

mod anew;
pub mod keys;
pub mod master_keys;
pub mod merchants;
mod names;
pub mod operators;

pub use names::{NAME_BYTES_MAX, NameFault};

/// Why a request was not done; nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// A name cannot be used.
    #[error("the name {0}")]
    Name(NameFault),
    /// The label of a key cannot be used.
    #[error("the label {0}")]
    Label(NameFault),
    /// Another operator has the name.
    #[error("there is an operator {0} already")]
    NameTaken(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] settle_store::StoreError),
}
