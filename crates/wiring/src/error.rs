//! Why the parts of the service cannot be built.

use std::io;
use std::path::PathBuf;

use secrecy::ExposeSecret;
use settle_domain::vault::RingFault;
use settle_notify::guard::ResolveFault;
use settle_store::StoreError;

use crate::config::{Config, without_secrets};

/// Why the parts of the service cannot be built. The text names the setting to look at.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// The database URL names no backend, or is malformed.
    #[error("database_url: {0}")]
    Database(String),
    /// The data folder cannot be used.
    #[error("{}: {source} (data_dir and database_url say where files are)", path.display())]
    DataFolder {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The master key is malformed.
    #[error("{place}: {source}")]
    MasterKey {
        /// Where the key was found.
        place: String,
        /// What is wrong with the key.
        source: RingFault,
    },
    /// Other users can read the master key.
    #[error("{}: others can read it; run chmod 600 on it", .0.display())]
    ExposedMasterKey(PathBuf),
    /// The extra certificates cannot be used.
    #[error("webhook.extra_roots: {0}")]
    ExtraRoots(String),
    /// The name servers cannot be used.
    #[error("webhook.nameservers: {0}")]
    Resolver(ResolveFault),
    /// A provider cannot be used.
    #[error("providers.{name}.{problem}")]
    Provider {
        /// Its name.
        name: String,
        /// The setting, and what is wrong with it.
        problem: String,
    },
    /// The database cannot be opened.
    #[error("database_url: {url} cannot be used")]
    Opening {
        /// The URL, without its password.
        url: String,
        /// Why.
        source: StoreError,
    },
    /// The database failed while it was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is no database yet, and the command makes none.
    #[error("there is no database yet: run settle migrate, or start the service")]
    NoDatabase,
    /// The schema is behind, and may not be changed.
    #[error(
        "{pending} migrations of the database are pending: run settle migrate, as a role that may change the schema"
    )]
    MigrationsPending {
        /// How many.
        pending: usize,
    },
    /// There is no master key, but the database has been used with one: with a new key the service could
    /// check none of its API keys and open none of its webhook secrets.
    #[error(
        "the database has been used with a master key that is not here: \
         set master_key, or bring master.key back to the data folder"
    )]
    MasterKeyMissing,
    /// No key of the ring has been used with the database.
    #[error(
        "the database has been used with another master key: \
         set the one it was used with, or a ring `new,old` that has it"
    )]
    MasterKeyOther,
    /// Rows need a master key that is not in the ring: those keys and tokens would be refused, and those
    /// secrets could not be opened.
    #[error(
        "{needed}: put it back (master_key = \"new,old\"), run settle master-key reseal, and drop \
         it when settle master-key status says that nothing needs it. If it is lost, settle serve \
         --without-lost-keys runs without what needs it"
    )]
    MasterKeyNeeded {
        /// What needs which keys.
        needed: String,
    },
}

impl WiringError {
    /// The database that the settings name cannot be opened.
    #[must_use]
    pub fn opening(config: &Config, source: StoreError) -> WiringError {
        WiringError::Opening { url: without_secrets(config.database_url().expose_secret()), source }
    }
}
