//! The real clock and the real randomness.

use std::cell::RefCell;

use settle_domain::seams::{Clock, Entropy};
use settle_domain::time::Timestamp;

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(jiff::Timestamp::now().as_microsecond())
    }
}

/// The operating system's randomness. An id needs a few bytes, and asking for them costs more than making the
/// id, so a thread asks for many ids' bytes at once. Keys and secrets are longer, and are always asked for.
#[derive(Debug, Clone, Copy)]
pub struct SystemEntropy;

/// Bytes that a thread asks for at once, and the most that an id takes of them.
const ASKED_BYTES: usize = 1_024;
const ID_BYTES_MAX: usize = 10;

thread_local! {
    /// Randomness that nobody has used yet.
    static UNUSED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        if bytes.len() > ID_BYTES_MAX {
            ask(bytes);
        } else {
            UNUSED.with_borrow_mut(|unused| take(unused, bytes, ask));
        }
    }
}

/// Takes bytes out of what is unused, which is filled before if there are too few.
fn take(unused: &mut Vec<u8>, bytes: &mut [u8], ask: impl FnOnce(&mut [u8])) {
    if unused.len() < bytes.len() {
        // If asking fails, nothing is left to hand out.
        let mut asked = std::mem::take(unused);
        asked.resize(ASKED_BYTES, 0);
        ask(&mut asked);
        *unused = asked;
    }
    let left = unused.len() - bytes.len();
    bytes.copy_from_slice(&unused[left..]);
    unused.truncate(left);
}

#[expect(clippy::expect_used, reason = "without randomness no key and no id may be made")]
fn ask(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system gives randomness");
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_domain::seams::random_bytes;
    use std::collections::HashSet;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn what_is_handed_out_is_taken_from_what_is_unused() {
        let (mut unused, mut asks) = (Vec::new(), 0);
        for length in (0..=ID_BYTES_MAX).cycle().take(ASKED_BYTES) {
            let (before, mut id) = (unused.clone(), vec![0; length]);
            take(&mut unused, &mut id, |bytes| {
                asks += 1;
                bytes.fill(asks);
            });
            let expected = if before.len() < length { vec![asks; ASKED_BYTES] } else { before };
            assert_eq!([&*unused, &*id].concat(), expected);
        }
        assert!(asks > 3, "{asks}");
    }

    #[test]
    fn when_asking_fails_nothing_is_handed_out() {
        let mut unused = vec![1; ID_BYTES_MAX - 1];
        for _ in 0..2 {
            let fails = || take(&mut unused, &mut [0; ID_BYTES_MAX], |_| panic!("no randomness"));
            assert!(catch_unwind(AssertUnwindSafe(fails)).is_err());
            assert!(unused.is_empty());
        }
    }

    #[test]
    fn ids_and_keys_are_random_on_every_thread() {
        let drawn = || {
            let ids = (0..ASKED_BYTES).map(|_| random_bytes::<ID_BYTES_MAX>(&SystemEntropy).to_vec());
            let keys = (0..10).map(|_| random_bytes::<32>(&SystemEntropy).to_vec());
            ids.chain(keys).collect::<Vec<_>>()
        };
        let other_thread = std::thread::spawn(drawn).join().unwrap();
        let seen: HashSet<_> = drawn().into_iter().chain(other_thread).collect();
        assert_eq!(seen.len(), 2 * (ASKED_BYTES + 10));
    }
}
