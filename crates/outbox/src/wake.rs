//! Wakes the dispatcher at once when something has become due.
//!
//! A wake is only a hint, inside this process: the dispatcher's look every second finds what a lost hint
//! announced. Up to 256 deliveries go with the hint, complete, so that the dispatcher can send them without
//! reading them back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use settle_domain::ids::MerchantId;
use settle_store::{Claimed, Store};
use tokio::sync::Notify;

/// Most deliveries handed over at once. Of the others only the merchants are named.
pub const HANDED_OVER_MAX: usize = 256;

/// Carries hints about due deliveries from the code that commits them to the dispatcher. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Wake(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    woken: Mutex<Woken>,
    notify: Notify,
    claims_ended: AtomicU64,
}

/// How many claims had ended at some time. The outbox takes this number before it commits the deliveries
/// that it hands over: a claim that ends later may have found them, and its dispatcher sends them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClaimsEnded(u64);

/// A delivery that was committed just now, complete, so that no claim need read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JustCommitted {
    /// The delivery as a claim would give it.
    pub claimed: Claimed,
    /// The claims that had ended before the commit: these cannot have found it.
    pub after: ClaimsEnded,
}

/// The hints since the last time.
#[derive(Debug, Default)]
pub struct Woken {
    /// Merchants with something due. A set, because many hints may name the same merchant.
    pub merchants: BTreeSet<MerchantId>,
    /// Deliveries handed over.
    pub committed: Vec<JustCommitted>,
}

impl Woken {
    fn is_empty(&self) -> bool {
        self.merchants.is_empty() && self.committed.is_empty()
    }
}

impl Wake {
    /// Tells the dispatcher that these merchants have something due.
    pub fn merchants(&self, merchants: impl IntoIterator<Item = MerchantId>) {
        self.add(|woken| woken.merchants.extend(merchants));
    }

    /// How many claims have ended until now.
    #[must_use]
    pub fn claims_ended(&self) -> ClaimsEnded {
        ClaimsEnded(self.0.claims_ended.load(Ordering::SeqCst))
    }

    /// Counts one more claim that has ended.
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

    /// Waits until there is a hint, and takes all hints.
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

/// Passes every hint on to the dispatchers of other processes, for a process that has no dispatcher. Never
/// returns.
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
