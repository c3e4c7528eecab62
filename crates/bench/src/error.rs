//! Why the benchmark failed.

use settle_accounts::AccountError;
use settle_store::StoreError;
use settle_wiring::WiringError;
use settle_wiring::config::ConfigError;

/// Why the benchmark failed before its end.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The settings cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The parts cannot be put together.
    #[error(transparent)]
    Wiring(#[from] WiringError),
    /// A merchant, a key or an operator cannot be made.
    #[error(transparent)]
    Account(#[from] AccountError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The bare file that the store is compared with failed.
    #[error("the bare file: {0}")]
    BareFile(#[from] rusqlite::Error),
    /// Something could not be read, written or run.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// What should be measured does not work, or does something else; the text says what.
    #[error("{0}")]
    Failed(String),
}
