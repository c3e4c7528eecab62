//! Waking the dispatcher at once when something has become due.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use settle_domain::ids::MerchantId;
use settle_store::{Claimed, Store};
use tokio::sync::Notify;

/// Deliveries that are handed over, at most; of more the merchants alone are named.
pub const HANDED_OVER_MAX: usize = 256;

/// Merchants that have something due, as those who made it so say. A hint and no more: what is lost is found
/// by looking. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    woken: Mutex<Woken>,
    notify: Notify,
    claims_ended: AtomicU64,
}

/// How many claims had ended at some time. Whoever hands deliveries over takes it before they can be seen: a
/// claim that ends later may have found them, and has sent them then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimsEnded(u64);

/// A delivery that was committed just now, with all that a claim would give: it need not be read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JustCommitted {
    /// What a claim would give.
    pub claimed: Claimed,
    /// The claims that cannot have found it.
    pub after: ClaimsEnded,
}

/// What the dispatcher is woken for.
#[derive(Debug, Default)]
pub struct Woken {
    /// Merchants with something due. A set: however often one is named before the dispatcher looks, it is
    /// there once.
    pub merchants: BTreeSet<MerchantId>,
    /// Deliveries that are handed over.
    pub committed: Vec<JustCommitted>,
}

impl Woken {
    fn is_empty(&self) -> bool {
        self.merchants.is_empty() && self.committed.is_empty()
    }
}

impl Wake {
    /// Says that these merchants have something due.
    pub fn merchants(&self, merchants: impl IntoIterator<Item = MerchantId>) {
        self.add(|woken| woken.merchants.extend(merchants));
    }

    /// The claims that have ended until now.
    #[must_use]
    pub fn claims_ended(&self) -> ClaimsEnded {
        ClaimsEnded(self.0.claims_ended.load(Ordering::SeqCst))
    }

    /// One more claim has ended.
    #[must_use = "the claim is told to the lanes under this number"]
    pub fn claim_ended(&self) -> ClaimsEnded {
        ClaimsEnded(self.0.claims_ended.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Hands over deliveries that have just been committed and are due.
    pub fn hand_over(&self, deliveries: Vec<JustCommitted>) {
        self.add(|woken| {
            if woken.committed.len() + deliveries.len() <= HANDED_OVER_MAX {
                woken.committed.extend(deliveries);
            } else {
                woken.merchants.extend(deliveries.iter().map(|one| one.claimed.merchant_id));
            }
        });
    }

    fn add(&self, add: impl FnOnce(&mut Woken)) {
        let mut woken = self.woken_so_far();
        let was_empty = woken.is_empty();
        add(&mut woken);
        if was_empty && !woken.is_empty() {
            drop(woken);
            self.0.notify.notify_one();
        }
    }

    /// Waits until there is something, and takes it all.
    pub async fn woken(&self) -> Woken {
        loop {
            let woken = std::mem::take(&mut *self.woken_so_far());
            if !woken.is_empty() {
                return woken;
            }
            self.0.notify.notified().await;
        }
    }

    fn woken_so_far(&self) -> MutexGuard<'_, Woken> {
        self.0.woken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes every wake-up on to the dispatchers of other processes: for a process that has none. Ends with the
/// task that runs it.
pub async fn pass_on(wake: Wake, store: Arc<dyn Store>) {
    loop {
        let Woken { mut merchants, committed } = wake.woken().await;
        merchants.extend(committed.iter().map(|one| one.claimed.merchant_id));
        let merchants: Vec<MerchantId> = merchants.into_iter().collect();
        if let Err(fault) = store.wake_others(&merchants).await {
            tracing::warn!(%fault, "other processes were not woken: they find what is due when they look");
        }
    }
}
