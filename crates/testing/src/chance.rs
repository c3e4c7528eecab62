//! Random draws that depend only on a seed.

use std::sync::Mutex;
use std::time::Duration;

/// A sequence of draws that is the same for the same seed.
pub struct Chance(Mutex<u64>);

impl Chance {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Chance {
        Chance(Mutex::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    fn next(&self) -> u64 {
        let mut state = self.0.lock().expect("nobody panics while holding it");
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below the given one.
    pub fn below(&self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    /// True in one of `times` draws, on average.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// A duration below the given one.
    pub fn up_to(&self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).expect("a short time");
        Duration::from_micros(self.below(micros))
    }

    /// One of the given things.
    pub fn pick<'a, T>(&self, things: &'a [T]) -> &'a T {
        let position = usize::try_from(self.below(things.len() as u64)).expect("a short list");
        &things[position]
    }
}
