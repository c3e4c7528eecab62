//! Builds the parts of the service from the settings. The only crate that names a backend.
//!
//! | module | what it does |
//! |---|---|
//! | [`config`] | the settings: defaults, file, environment |
//! | `context` | an open store with its settings and master keys |
//! | `database` | the store that the settings name |
//! | `master_key`, `private_files` | the master key ring, and files that only their owner can read |
//! | `engine` | the settlement engine and the providers that it calls |
//! | `sending` | the guard, the sender, the keeper of shards, the dispatcher and the alerter |
//! | [`system`] | the real clock and the real randomness |

pub mod config;
mod context;
mod database;
mod engine;
mod error;
mod master_key;
mod private_files;
mod sending;
pub mod system;

pub use context::Context;
pub use database::{User, exposed_files, sqlite_file, store};
pub use engine::{means, provider_secrets, providers};
pub use error::WiringError;
pub use master_key::{
    check_master_keys, has_master_key, key_ring, master_key_file, new_master_key, put_in_front,
};
pub use sending::{DispatchParts, alerter, dispatcher, guard, keeper, sender};
