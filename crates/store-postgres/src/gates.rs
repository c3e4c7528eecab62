//! Gates: who wants to lock a merchant, or to read a list of it, waits here, before he has a connection.
//!
//! A node that hangs may hold a merchant's lock for seconds. Were its other writers to wait in the database,
//! each with a connection, the connections would soon be gone, and every merchant would wait for this one. So
//! of the callers in this process that want the same merchant one goes on to the database, and of those that
//! wait there, for whatever merchants, half of the connections of transactions stay free.
//!
//! A merchant that asks for lists faster than the database gives them would have every connection, and
//! everybody else would wait behind its queue. So it has a part of them at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use settle_domain::ids::MerchantId;
use settle_store::{StoreError, StoreResult, within};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a caller waits at the gates of its merchants; for a lock the database lets it wait as long again.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Callers that want to lock one merchant; the next one is told to come again.
const LOCKERS_MAX: usize = 64;
/// One in so many connections reads lists of the same merchant.
const LISTS_SHARE: usize = 4;

/// A gate for each merchant. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gates {
    merchants: Arc<Mutex<HashMap<MerchantId, Gate>>>,
    /// How many callers of a merchant pass at once.
    at_once: usize,
    /// How many there may be, with those who wait.
    callers_max: usize,
}

struct Gate {
    opening: Arc<Semaphore>,
    /// Who waits, and who has passed.
    callers: usize,
}

/// A caller at a gate, or past it. The gate opens for the next one when this is dropped.
pub(crate) struct Caller {
    gates: Gates,
    merchant: MerchantId,
    passed: Option<OwnedSemaphorePermit>,
}

impl Gates {
    /// For those who want to lock a merchant.
    pub(crate) fn of_locks() -> Gates {
        Gates { merchants: Arc::default(), at_once: 1, callers_max: LOCKERS_MAX }
    }

    /// For those who want to read a list of a merchant, over one of so many connections. As many wait as have
    /// a request.
    pub(crate) fn of_lists(connections_max: usize) -> Gates {
        let at_once = (connections_max / LISTS_SHARE).max(1);
        Gates { merchants: Arc::default(), at_once, callers_max: usize::MAX }
    }

    /// Passes the gates of all these merchants, in the order of their ids, so that nobody waits in a circle.
    pub(crate) async fn pass(&self, merchants: &[MerchantId]) -> StoreResult<Vec<Caller>> {
        let mut merchants = merchants.to_vec();
        merchants.sort_unstable();
        merchants.dedup();
        within(WAIT_MAX, async {
            let mut passed = Vec::with_capacity(merchants.len());
            for merchant in merchants {
                passed.push(self.pass_one(merchant).await?);
            }
            Ok(passed)
        })
        .await
    }

    async fn pass_one(&self, merchant: MerchantId) -> StoreResult<Caller> {
        let (mut caller, opening) = self.come(merchant)?;
        let passed = opening.acquire_owned().await;
        caller.passed = Some(passed.map_err(|fault| StoreError::Unavailable(fault.into()))?);
        Ok(caller)
    }

    fn come(&self, merchant: MerchantId) -> StoreResult<(Caller, Arc<Semaphore>)> {
        let mut gates = self.gates();
        let gate = gates
            .entry(merchant)
            .or_insert_with(|| Gate { opening: Arc::new(Semaphore::new(self.at_once)), callers: 0 });
        if gate.callers >= self.callers_max {
            return Err(StoreError::Unavailable("too many callers wait for the same merchant".into()));
        }
        gate.callers += 1;
        Ok((Caller { gates: self.clone(), merchant, passed: None }, gate.opening.clone()))
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<MerchantId, Gate>> {
        self.merchants.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Places for those that may wait for a lock in the database.
pub(crate) struct Asking(Arc<Semaphore>);

impl Asking {
    /// Half of so many connections.
    pub(crate) fn new(connections_max: usize) -> Asking {
        Asking(Arc::new(Semaphore::new((connections_max / 2).max(1))))
    }

    /// A place, as soon as there is one.
    pub(crate) async fn ask(&self) -> StoreResult<OwnedSemaphorePermit> {
        within(WAIT_MAX, async {
            let place = self.0.clone().acquire_owned().await;
            place.map_err(|fault| StoreError::Unavailable(fault.into()))
        })
        .await
    }
}

impl Caller {
    /// Whether the gate is this merchant's.
    pub(crate) fn is_of(&self, merchant: MerchantId) -> bool {
        self.merchant == merchant
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        drop(self.passed.take());
        let mut gates = self.gates.gates();
        if let Some(gate) = gates.get_mut(&self.merchant) {
            gate.callers -= 1;
            if gate.callers == 0 {
                gates.remove(&self.merchant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn merchant(number: u128) -> MerchantId {
        MerchantId(Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_of_a_merchant_passes_and_others_of_others() {
        let gates = Gates::of_locks();
        let first = gates.pass(&[merchant(1)]).await.unwrap();
        let _other = gates.pass(&[merchant(2)]).await.expect("another merchant's gate is open");
        let second = gates.pass(&[merchant(1)]).await;
        assert!(matches!(second, Err(StoreError::Unavailable(_))), "it waits no longer than the limit");
        drop(first);
        gates.pass(&[merchant(1), merchant(3)]).await.expect("the gate opens for the next one");
        assert_eq!(gates.gates().len(), 1, "an empty gate is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn the_callers_at_a_gate_are_bounded() {
        let gates = Gates::of_locks();
        let _first = gates.pass(&[merchant(1)]).await.unwrap();
        let waiting: Vec<_> = (1..LOCKERS_MAX).map(|_| gates.come(merchant(1)).unwrap()).collect();
        assert!(gates.come(merchant(1)).is_err());
        drop(waiting);
        assert!(gates.come(merchant(1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_of_the_connections_reads_lists_of_one_merchant() {
        for (connections_max, at_once) in [(16, 4), (4, 1), (1, 1)] {
            let gates = Gates::of_lists(connections_max);
            let mut passed = Vec::new();
            for _ in 0..at_once {
                passed.push(gates.pass_one(merchant(1)).await.unwrap());
            }
            assert!(gates.pass(&[merchant(1)]).await.is_err(), "{connections_max}");
            gates.pass_one(merchant(2)).await.unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_the_connections_do_not_wait_for_locks() {
        let asking = Asking::new(4);
        let _places = [asking.ask().await.unwrap(), asking.ask().await.unwrap()];
        assert!(matches!(asking.ask().await, Err(StoreError::Unavailable(_))));
    }
}
