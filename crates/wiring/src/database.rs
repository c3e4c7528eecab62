//! The store that the settings name.

use std::path::PathBuf;
use std::sync::Arc;

use secrecy::ExposeSecret;
use settle_store::Store;
use settle_store_postgres::PostgresStore;
use settle_store_sqlite::SqliteStore;

use crate::WiringError;
use crate::config::Config;
use crate::private_files::{exposed, make_folder, make_private_file, mend_database};

/// Who uses a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum User {
    /// A service, whose callers wait seconds at most.
    Service,
    /// A command: the person who waits for it would rather wait than try again.
    Command,
    /// A command that changes nothing, not even the schema.
    Reader,
    /// A command that says what is wrong, and mends not even a file's mode.
    Doctor,
}

/// The store that `database_url` names, not connected yet. A missing SQLite file is created, with its folder,
/// readable by its owner alone.
pub fn store(config: &Config, user: User) -> Result<Arc<dyn Store>, WiringError> {
    let url = config.database_url();
    let url = url.expose_secret();
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let connections_max = config.database.connections_max.get();
        let store = match user {
            User::Service => PostgresStore::new(url, connections_max),
            User::Command | User::Reader | User::Doctor => PostgresStore::patient(url, connections_max),
        };
        return Ok(Arc::new(store.map_err(|fault| WiringError::Database(fault.to_string()))?));
    }
    if is_sqlite(url) {
        let store = SqliteStore::new(url).map_err(|fault| WiringError::Database(fault.to_string()))?;
        if let Some(folder) = store.path().parent().filter(|folder| !folder.as_os_str().is_empty()) {
            make_folder(folder)?;
        }
        make_private_file(store.path())?;
        // Elsewhere than in our folder an operator may have a reason, such as a group that makes backups.
        if user != User::Doctor && store.path().starts_with(&config.data_dir) {
            mend_database(store.path())?;
        }
        return Ok(Arc::new(store));
    }
    Err(WiringError::Database("starts with neither sqlite:// nor postgres://".to_owned()))
}

fn is_sqlite(url: &str) -> bool {
    url.starts_with("sqlite:")
}

/// The files of a SQLite database in our folder that others can read: the next command that writes mends
/// them.
#[must_use]
pub fn exposed_files(config: &Config) -> Vec<PathBuf> {
    let file = sqlite_file(config).filter(|file| file.starts_with(&config.data_dir));
    let exposed = file.and_then(|file| exposed(&file).ok()).unwrap_or_default();
    exposed.into_iter().map(|(file, _)| file).collect()
}

/// The file of the database, if it is a SQLite database.
#[must_use]
pub fn sqlite_file(config: &Config) -> Option<PathBuf> {
    let url = config.database_url();
    let store = SqliteStore::new(url.expose_secret()).ok().filter(|_| is_sqlite(url.expose_secret()))?;
    Some(store.path().to_owned())
}
