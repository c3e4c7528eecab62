//! Something that there is only so much of: each key may hold a part of it, and all keys together the whole.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// What is held at the moment. Cheap to clone.
pub struct Shares<K>(Arc<Mutex<Held<K>>>);

struct Held<K> {
    units: HashMap<K, usize>,
    total: usize,
    total_max: usize,
}

impl<K> Clone for Shares<K> {
    fn clone(&self) -> Shares<K> {
        Shares(self.0.clone())
    }
}

impl<K: Copy + Eq + Hash> Shares<K> {
    /// Nothing is held yet; all keys together may hold this many units.
    #[must_use]
    pub fn new(total_max: usize) -> Shares<K> {
        Shares(Arc::new(Mutex::new(Held { units: HashMap::new(), total: 0, total_max })))
    }

    /// How many units a key holds.
    #[must_use]
    pub fn held(&self, key: K) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).units.get(&key).copied().unwrap_or(0)
    }

    /// Takes units for a key that may hold `key_max` of them; `None` when it or all keys would hold too many.
    #[must_use]
    pub fn take(&self, key: K, units: usize, key_max: usize) -> Option<Share<K>> {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (own, total) = (held.units.get(&key).copied().unwrap_or(0) + units, held.total + units);
        if own > key_max || total > held.total_max {
            return None;
        }
        held.units.insert(key, own);
        held.total = total;
        Some(Share { shares: self.clone(), key, units })
    }
}

/// Units that a key holds until this is dropped.
pub struct Share<K: Copy + Eq + Hash> {
    shares: Shares<K>,
    key: K,
    units: usize,
}

impl<K: Copy + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        let mut held = self.shares.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.total = held.total.saturating_sub(self.units);
        // A key that holds nothing is forgotten.
        if let Entry::Occupied(mut own) = held.units.entry(self.key) {
            *own.get_mut() = own.get().saturating_sub(self.units);
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_holds_its_part_and_all_keys_the_whole() {
        let shares = Shares::new(3);
        let first = shares.take("a", 2, 2);
        assert!(first.is_some() && shares.take("a", 1, 2).is_none(), "its part");
        let second = shares.take("b", 1, 2);
        assert!(second.is_some() && shares.take("b", 1, 2).is_none(), "the whole");
        drop(first);
        assert!(shares.take("b", 1, 2).is_some() && shares.take("a", 2, 2).is_some());
    }

    #[test]
    fn what_is_given_back_leaves_nothing_behind() {
        let shares = Shares::new(10);
        drop((shares.take("a", 3, 5), shares.take("a", 2, 5), shares.take("b", 1, 5)));
        let held = shares.0.lock().unwrap();
        assert_eq!((held.total, held.units.len()), (0, 0));
    }
}
