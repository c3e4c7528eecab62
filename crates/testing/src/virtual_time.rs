//! Waiting under a paused clock: the only place in tests that may sleep.
//!
//! Other tests wait for signals, because a real sleep is too long on most days and too short on a bad one.
//! Under a paused clock a sleep costs no real time: the clock jumps to the end of the shortest sleep as soon
//! as no task has anything else to do.

use std::time::Duration;

/// Lets virtual time pass. The runtime's clock must be paused (`start_paused`).
pub async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}
