//! The terms of corridors that were read lately.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use settle_store::{CorridorKey, Store, StoreResult, StoredCorridor};
use tokio::time::Instant;

/// How long the terms of a corridor are believed: a change holds after this time.
const TERMS_AGE_MAX: Duration = Duration::from_secs(1);
/// Corridors that are remembered.
const TERMS_MAX: usize = 10_000;

/// The newest terms of corridors, for a moment.
#[derive(Clone, Default)]
pub struct Corridors(Arc<Mutex<Known>>);

/// What was read, and when.
type Known = HashMap<CorridorKey, (Instant, Arc<StoredCorridor>)>;

impl Corridors {
    pub(super) async fn newest(
        &self,
        store: &dyn Store,
        key: CorridorKey,
    ) -> StoreResult<Option<Arc<StoredCorridor>>> {
        Ok(self.newest_of_many(store, &BTreeSet::from([key])).await?.remove(&key))
    }

    /// The newest terms of the given corridors that exist, with one statement for what is not remembered.
    pub(crate) async fn newest_of_many(
        &self,
        store: &dyn Store,
        keys: &BTreeSet<CorridorKey>,
    ) -> StoreResult<HashMap<CorridorKey, Arc<StoredCorridor>>> {
        let mut newest = HashMap::with_capacity(keys.len());
        let mut unknown = Vec::new();
        {
            let known = self.known();
            for key in keys {
                match known.get(key).filter(|(at, _)| at.elapsed() < TERMS_AGE_MAX) {
                    Some((_, corridor)) => drop(newest.insert(*key, corridor.clone())),
                    None => unknown.push(*key),
                }
            }
        }
        if !unknown.is_empty() {
            let found = store.corridor_find_many(&unknown).await?;
            let mut known = self.known();
            if known.len() + found.len() > TERMS_MAX {
                known.clear();
            }
            for corridor in found.into_iter().map(Arc::new) {
                known.insert(corridor.key(), (Instant::now(), corridor.clone()));
                newest.insert(corridor.key(), corridor);
            }
        }
        Ok(newest)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
