//! What most commands work with: the settings, the store they name, and its master keys.

use std::sync::Arc;

use settle_domain::seams::Clock;
use settle_domain::vault::KeyRing;
use settle_outbox::Outbox;
use settle_outbox::wake::Wake;
use settle_store::Store;

use crate::config::Config;
use crate::system::{SystemClock, SystemEntropy};
use crate::{WiringError, has_master_key, key_ring, store};

/// An open store, with the settings that name it and the master keys that it is used with.
pub struct Context {
    /// The settings.
    pub config: Config,
    /// The database, with the schema of this version.
    pub store: Arc<dyn Store>,
    /// The master keys.
    pub ring: Arc<KeyRing>,
}

impl Context {
    /// Opens the store, brings its schema up to date, and makes sure that the master key is the one it was
    /// used with.
    pub async fn open(config: Config) -> Result<Context, WiringError> {
        let store = store(&config)?;
        store.migrate().await?;
        let known = store.master_key_list().await?;
        if !known.is_empty() && !has_master_key(&config) {
            return Err(WiringError::MasterKeyMissing);
        }
        let ring = key_ring(&config, &SystemEntropy)?;
        let ids = ring.ids();
        if !known.is_empty() && !ids.iter().any(|id| known.contains(id)) {
            return Err(WiringError::MasterKeyOther);
        }
        if let Some(newest) = ids.first().filter(|newest| !known.contains(newest)) {
            let mut tx = store.begin().await?;
            tx.master_key_record(*newest, SystemClock.now()).await?;
            tx.commit().await?;
        }
        Ok(Context { config, store, ring })
    }

    /// The outbox of a service, whose dispatcher is woken through `wake`.
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
