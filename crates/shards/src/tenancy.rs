//! What passes between the keeper and one tenant.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use settle_domain::ids::MerchantId;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::holdings::{Departure, Holdings};

/// Merchants that the keeper remembers for a tenant that does not look; of more it says that there are many.
const HEARD_MAX: usize = 4_096;

/// What the keeper tells a tenant.
#[derive(Debug, Default)]
pub struct Told {
    /// The holdings, if they were renewed.
    pub holdings: Option<Arc<Holdings>>,
    /// Merchants that have something due, as other processes say.
    pub heard: BTreeSet<MerchantId>,
    /// Other processes say that so many merchants have something due that none are named.
    pub heard_of_many: bool,
}

impl Told {
    fn is_empty(&self) -> bool {
        self.holdings.is_none() && self.heard.is_empty() && !self.heard_of_many
    }
}

/// A tenant's place. The tenant has given it up when it is dropped.
#[derive(Debug)]
pub struct Tenancy(Arc<Desk>);

impl Tenancy {
    /// Waits until the keeper has something to tell, and takes it all.
    pub async fn told(&self) -> Told {
        loop {
            let told = std::mem::take(&mut *self.0.told());
            if !told.is_empty() {
                return told;
            }
            self.0.for_tenant.notified().await;
        }
    }

    /// Says in which leaving shards the tenant has nothing under way and starts nothing any more. It replaces
    /// what the tenant said before.
    pub fn let_go(&self, departures: BTreeSet<Departure>) {
        let mut known = self.0.let_go.lock().unwrap_or_else(PoisonError::into_inner);
        if *known != departures {
            *known = departures;
            drop(known);
            self.0.tells_let_go.notify_one();
        }
    }

    /// Says since when something fails without which the tenant serves nobody; `None` when nothing does. The
    /// keeper shows it at its next renewal.
    pub fn fails_since(&self, since: Option<Instant>) {
        *self.0.fails_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        self.0.has_gone.store(true, Ordering::Release);
        self.0.tells_gone.notify_one();
    }
}

/// What the keeper and one tenant share.
#[derive(Debug)]
pub(crate) struct Desk {
    told: Mutex<Told>,
    for_tenant: Notify,
    let_go: Mutex<BTreeSet<Departure>>,
    fails_since: Mutex<Option<Instant>>,
    has_gone: AtomicBool,
    /// Both are shared by all tenants: the keeper looks at every desk when it is told.
    tells_let_go: Arc<Notify>,
    tells_gone: Arc<Notify>,
}

impl Desk {
    /// A place for one more tenant.
    pub(crate) fn open(tells_let_go: Arc<Notify>, tells_gone: Arc<Notify>) -> (Arc<Desk>, Tenancy) {
        let desk = Arc::new(Desk {
            told: Mutex::default(),
            for_tenant: Notify::new(),
            let_go: Mutex::default(),
            fails_since: Mutex::default(),
            has_gone: AtomicBool::new(false),
            tells_let_go,
            tells_gone,
        });
        (desk.clone(), Tenancy(desk))
    }

    pub(crate) fn tell_holdings(&self, holdings: Arc<Holdings>) {
        self.tell(|told| told.holdings = Some(holdings));
    }

    /// Other processes name merchants; none of them means that there were too many to name.
    pub(crate) fn tell_heard(&self, merchants: &[MerchantId]) {
        self.tell(|told| {
            told.heard.extend(merchants);
            if merchants.is_empty() || told.heard.len() > HEARD_MAX {
                told.heard.clear();
                told.heard_of_many = true;
            }
        });
    }

    pub(crate) fn has_let_go(&self, departure: Departure) -> bool {
        self.has_gone() || self.let_go.lock().unwrap_or_else(PoisonError::into_inner).contains(&departure)
    }

    pub(crate) fn fails_since(&self) -> Option<Instant> {
        *self.fails_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn has_gone(&self) -> bool {
        self.has_gone.load(Ordering::Acquire)
    }

    fn tell(&self, tell: impl FnOnce(&mut Told)) {
        tell(&mut self.told());
        self.for_tenant.notify_one();
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[tokio::test]
    async fn of_more_merchants_than_are_remembered_it_is_said_that_there_are_many() {
        let (desk, tenancy) = Desk::open(Arc::default(), Arc::default());
        let merchants: Vec<_> = (0..=HEARD_MAX as u128).map(|id| MerchantId(Uuid::from_u128(id))).collect();
        desk.tell_heard(&merchants[1..]);
        let told = tenancy.told().await;
        assert_eq!((told.heard.len(), told.heard_of_many), (HEARD_MAX, false));
        desk.tell_heard(&merchants[..1]);
        desk.tell_heard(&merchants[1..]);
        let told = tenancy.told().await;
        assert_eq!((told.heard.len(), told.heard_of_many), (0, true));
    }
}
