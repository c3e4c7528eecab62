//! Why the parts cannot be put together.

use std::io;
use std::path::PathBuf;

use settle_domain::vault::RingFault;
use settle_notify::guard::ResolveFault;
use settle_store::StoreError;

/// Parts that cannot be put together. The text says which setting to look at.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// The database URL is of no known kind.
    #[error("database_url: {0}")]
    Database(String),
    /// The data folder cannot be used.
    #[error("{}: {source}", path.display())]
    DataFolder {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The master key is not one.
    #[error("{place}: {source}")]
    MasterKey {
        /// Where it was found.
        place: String,
        /// What is wrong with it.
        source: RingFault,
    },
    /// Others can read the master key.
    #[error("{}: others can read it; run chmod 600 on it", .0.display())]
    ExposedMasterKey(PathBuf),
    /// The extra certificates cannot be used.
    #[error("webhook.extra_roots: {0}")]
    ExtraRoots(String),
    /// The name servers cannot be used.
    #[error("webhook.nameservers: {0}")]
    Resolver(ResolveFault),
    /// The database failed while it was opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Without its key no API key and no webhook secret of a database can be used, and a new one would not
    /// help.
    #[error(
        "the database has been used with a master key that is not here: \
         set master_key, or bring master.key back to the data folder"
    )]
    MasterKeyMissing,
    /// The key is not the one that the database was used with.
    #[error(
        "the database has been used with another master key: \
         set the one it was used with, or a ring `new,old` that has it"
    )]
    MasterKeyOther,
}
