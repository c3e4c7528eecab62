//! Waiting under a clock that is paused: the one place in tests that may sleep.
//!
//! A test waits for signals and not for time, because a sleep is too long on most days and too short on the bad
//! one. Under a clock that is paused neither is true: a sleep costs no time, and it is what moves the clock,
//! which jumps to the end of the shortest sleep as soon as nothing else is left to do.

use std::time::Duration;

/// Lets virtual time pass. The runtime's clock must be paused (`start_paused`).
pub async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}
