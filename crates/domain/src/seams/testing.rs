//! A clock and a source of randomness that tests control. The service is built without this feature.

use std::sync::Mutex;

use super::{Clock, Entropy};
use crate::time::Timestamp;

/// A clock that a test or a simulation moves by hand.
#[derive(Debug)]
pub struct ManualClock(Mutex<Timestamp>);

impl ManualClock {
    /// A clock that stands at the given time.
    #[must_use]
    pub fn at(time: Timestamp) -> ManualClock {
        ManualClock(Mutex::new(time))
    }

    /// Moves the clock to the given time.
    pub fn set(&self, time: Timestamp) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = time;
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Randomness that repeats for the same seed: for tests and simulations, never for keys.
#[derive(Debug)]
pub struct SeededEntropy(Mutex<u64>);

impl SeededEntropy {
    /// A source that gives the same bytes for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(Mutex::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        for chunk in bytes.chunks_mut(8) {
            // SplitMix64: it spreads well and needs one number of state.
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = *state;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^= word >> 31;
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
    }
}
