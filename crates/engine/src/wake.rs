//! Tells the engine of this process that payments have come. Only a hint: a look every second finds what a
//! lost one announced.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use settle_domain::ids::MerchantId;
use settle_store::Store;
use tokio::sync::Notify;

/// Merchants that are remembered for an engine that does not look; the look every second finds the others.
const REMEMBERED_MAX: usize = 4_096;

/// Carries hints from whoever commits payments to the engine. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct EngineWake(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    merchants: Mutex<BTreeSet<MerchantId>>,
    notify: Notify,
}

impl EngineWake {
    /// These merchants have a payment due.
    pub fn merchants(&self, merchants: impl IntoIterator<Item = MerchantId>) {
        let mut known = self.0.merchants.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(merchants);
        while known.len() > REMEMBERED_MAX {
            known.pop_last();
        }
        drop(known);
        self.0.notify.notify_one();
    }

    /// Takes all hints that are there.
    pub fn taken(&self) -> BTreeSet<MerchantId> {
        std::mem::take(&mut *self.0.merchants.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for the next hint, and takes all.
    pub async fn woken(&self) -> BTreeSet<MerchantId> {
        loop {
            let woken = self.taken();
            if !woken.is_empty() {
                return woken;
            }
            self.0.notify.notified().await;
        }
    }
}

/// Passes every hint on to the engines of other processes, for a process that has none. Never returns.
pub async fn pass_on(wake: EngineWake, store: Arc<dyn Store>) {
    loop {
        let merchants: Vec<MerchantId> = wake.woken().await.into_iter().collect();
        if let Err(fault) = store.wake_others(&merchants).await {
            tracing::debug!(%fault, "the engines of other processes were not woken");
        }
    }
}
