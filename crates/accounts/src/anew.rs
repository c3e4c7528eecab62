//! Sealing a credential anew when it is used, if an older master key sealed it.
//!
//! A caller must not wait long for it, nor may many of them write at once, least of all just after a master
//! key was replaced, when every credential is to be sealed anew. So one is sealed at a time, the others wait
//! for their next use or for `settle master-key reseal`, and none of them fails because of it.

use std::time::Duration;

use settle_store::StoreResult;
use tokio::sync::Semaphore;

/// How long a caller waits while its credential is sealed anew.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Whose turn it is.
static TURN: Semaphore = Semaphore::const_new(1);

/// Does the work, if nobody else is at it and it does not take too long.
pub(crate) async fn try_in_turn(work: impl Future<Output = StoreResult<u64>>) {
    let Ok(_turn) = TURN.try_acquire() else { return };
    match tokio::time::timeout(TIMEOUT, work).await {
        Ok(Ok(_)) => {}
        Ok(Err(fault)) => tracing::warn!(cause = ?fault, "a credential could not be sealed anew"),
        Err(_) => tracing::warn!("sealing a credential anew took too long"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because there is one turn.
    #[tokio::test(start_paused = true)]
    async fn one_at_a_time_and_none_for_ever() {
        let stuck = tokio::spawn(try_in_turn(std::future::pending()));
        tokio::task::yield_now().await;
        let mut done = false;
        try_in_turn(async {
            done = true;
            Ok(1)
        })
        .await;
        assert!(!done, "somebody else is at it");
        stuck.await.expect("it gives up");
        try_in_turn(async {
            done = true;
            Ok(1)
        })
        .await;
        assert!(done, "the turn is free again");
    }
}
