//! The two traits through which time and randomness come in. The binary passes the real ones, tests pass
//! their own.

#[cfg(feature = "testing")]
mod testing;

#[cfg(feature = "testing")]
pub use testing::{ManualClock, SeededEntropy};

use crate::time::Timestamp;

/// Where time comes from.
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// Where randomness comes from.
pub trait Entropy: Send + Sync {
    /// Fills the bytes with randomness fit for keys.
    fn fill(&self, bytes: &mut [u8]);
}

/// Draws an array of random bytes.
pub fn random_bytes<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}
