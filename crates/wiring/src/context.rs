//! What most commands work with: the settings, the store they name, and its master keys.

use std::collections::BTreeSet;
use std::sync::Arc;

use settle_domain::ids::MerchantId;
use settle_domain::seams::Clock;
use settle_domain::vault::KeyRing;
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
        let known = store.ring_list().await?;
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
            tx.ring_record(*newest, SystemClock.now()).await?;
            tx.commit().await?;
        }
        Ok(Context { config, store, ring })
    }

    /// Tells a running service that these merchants have something due.
    pub async fn wake(&self, merchants: &BTreeSet<MerchantId>) {
        let merchants: Vec<MerchantId> = merchants.iter().copied().collect();
        if !merchants.is_empty()
            && let Err(fault) = self.store.wake_others(&merchants).await
        {
            tracing::warn!(%fault, "the service was not woken: it finds them when it looks next");
        }
    }
}
