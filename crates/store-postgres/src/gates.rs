//! Gates: who wants to lock a merchant waits here, before he has a connection.
//!
//! A node that hangs may hold a merchant's lock for seconds. Were its other writers to wait in the database,
//! each with a connection, the connections would soon be gone, and every merchant would wait for this one. So
//! of the callers in this process that want the same merchant one goes on to the database, and of those that
//! wait there, for whatever merchants, half of the connections of transactions stay free.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use settle_domain::ids::MerchantId;
use settle_store::{StoreError, StoreResult, within};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a caller waits at the gates of its merchants; the database lets it wait as long again.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// Callers at one gate; the next one is told to come again.
const CALLERS_MAX: usize = 64;

/// The gates of a store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gates {
    merchants: Arc<Mutex<HashMap<MerchantId, Gate>>>,
    /// Places for those that may wait for a lock in the database.
    asking: Arc<Semaphore>,
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
    /// Gates before so many connections.
    pub(crate) fn new(connections_max: usize) -> Gates {
        let asking = Arc::new(Semaphore::new((connections_max / 2).max(1)));
        Gates { merchants: Arc::default(), asking }
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

    /// A place among those that wait for locks in the database.
    pub(crate) async fn ask(&self) -> StoreResult<OwnedSemaphorePermit> {
        within(WAIT_MAX, async {
            let place = self.asking.clone().acquire_owned().await;
            place.map_err(|fault| StoreError::Unavailable(fault.into()))
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
            .or_insert_with(|| Gate { opening: Arc::new(Semaphore::new(1)), callers: 0 });
        if gate.callers >= CALLERS_MAX {
            return Err(StoreError::Unavailable("too many callers wait for the merchant's lock".into()));
        }
        gate.callers += 1;
        Ok((Caller { gates: self.clone(), merchant, passed: None }, gate.opening.clone()))
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<MerchantId, Gate>> {
        self.merchants.lock().unwrap_or_else(PoisonError::into_inner)
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
        let gates = Gates::new(4);
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
        let gates = Gates::new(4);
        let _first = gates.pass(&[merchant(1)]).await.unwrap();
        let waiting: Vec<_> = (1..CALLERS_MAX).map(|_| gates.come(merchant(1)).unwrap()).collect();
        assert!(gates.come(merchant(1)).is_err());
        drop(waiting);
        assert!(gates.come(merchant(1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_the_connections_do_not_wait_for_locks() {
        let gates = Gates::new(4);
        let _places = [gates.ask().await.unwrap(), gates.ask().await.unwrap()];
        assert!(matches!(gates.ask().await, Err(StoreError::Unavailable(_))));
    }
}
