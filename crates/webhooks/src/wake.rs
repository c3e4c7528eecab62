//! Waking the dispatcher at once when something has become due.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use settle_domain::ids::MerchantId;
use settle_store::Store;
use tokio::sync::Notify;

/// Merchants that have something due, as those who made it so say. A hint and no more: what is lost is found
/// by looking. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// A set: however often a merchant is named before the dispatcher looks, it is there once.
    merchants: Mutex<BTreeSet<MerchantId>>,
    notify: Notify,
}

impl Wake {
    /// Says that these merchants have something due.
    pub fn merchants(&self, merchants: impl IntoIterator<Item = MerchantId>) {
        let mut waiting = self.waiting();
        let before = waiting.len();
        waiting.extend(merchants);
        if waiting.len() > before {
            drop(waiting);
            self.0.notify.notify_one();
        }
    }

    /// Waits until there are merchants, and takes them all.
    pub async fn woken(&self) -> BTreeSet<MerchantId> {
        loop {
            let merchants = std::mem::take(&mut *self.waiting());
            if !merchants.is_empty() {
                return merchants;
            }
            self.0.notify.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeSet<MerchantId>> {
        self.0.merchants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes every wake-up on to the dispatchers of other processes: for a process that has none. Ends with the
/// task that runs it.
pub async fn pass_on(wake: Wake, store: Arc<dyn Store>) {
    loop {
        let merchants: Vec<MerchantId> = wake.woken().await.into_iter().collect();
        if let Err(fault) = store.wake_others(&merchants).await {
            tracing::warn!(%fault, "other processes were not woken: they find what is due when they look");
        }
    }
}
