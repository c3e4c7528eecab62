//! The settings, the store that they name, and its master keys, as most commands need them.

use std::sync::Arc;

use settle_domain::seams::Clock;
use settle_domain::vault::KeyRing;
use settle_outbox::Outbox;
use settle_outbox::wake::Wake;
use settle_store::Store;

use crate::config::Config;
use crate::master_key::key_ring_of_nobody;
use crate::system::{SystemClock, SystemEntropy};
use crate::{User, WiringError, has_master_key, key_ring, sqlite_file, store};

/// An open store, with its settings and its master keys.
pub struct Context {
    /// The settings.
    pub config: Config,
    /// The database, with the schema of this version.
    pub store: Arc<dyn Store>,
    /// The master keys.
    pub ring: Arc<KeyRing>,
}

impl Context {
    /// Opens the store and migrates it, unless the user only reads or the settings forbid it; then a schema
    /// that is behind is refused. Refuses a master key that the database has not been used with.
    pub async fn open(config: Config, user: User) -> Result<Context, WiringError> {
        if user == User::Reader && sqlite_file(&config).is_some_and(|file| !file.exists()) {
            return Err(WiringError::NoDatabase);
        }
        let store = store(&config, user)?;
        let opening = |fault| WiringError::opening(&config, fault);
        if config.database.migrate && user != User::Reader {
            store.migrate().await.map_err(opening)?;
        } else {
            match store.migrations_pending().await.map_err(opening)? {
                0 => {}
                pending => return Err(WiringError::MigrationsPending { pending }),
            }
        }
        let known = store.master_key_list().await?;
        if !known.is_empty() && !has_master_key(&config) {
            return Err(WiringError::MasterKeyMissing);
        }
        if user == User::Reader && !has_master_key(&config) {
            // Nothing is sealed yet, and a reader seals nothing: it makes no key that others would have to
            // have.
            let ring = key_ring_of_nobody(&SystemEntropy)?;
            return Ok(Context { config, store, ring });
        }
        let ring = key_ring(&config, &SystemEntropy)?;
        let ids = ring.ids();
        let mut is_known = known.is_empty() || ids.iter().any(|id| known.contains(id));
        if is_known && user != User::Reader && ids.first().is_some_and(|newest| !known.contains(newest)) {
            // Another node may have brought its own meanwhile.
            let mut tx = store.begin().await?;
            is_known = tx.master_key_record(&ids, SystemClock.now()).await?;
            tx.commit().await?;
        }
        if !is_known {
            return Err(WiringError::MasterKeyOther);
        }
        Ok(Context { config, store, ring })
    }

    /// The outbox of a service, which wakes its dispatcher through `wake`.
    #[must_use]
    pub fn service_outbox(&self, wake: Wake) -> Outbox {
        Outbox::of_service(self.store.clone(), wake, Arc::new(SystemClock), Arc::new(SystemEntropy))
    }

    /// The outbox of a command, which wakes services that run elsewhere.
    #[must_use]
    pub fn command_outbox(&self) -> Outbox {
        Outbox::of_command(self.store.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy))
    }
}
