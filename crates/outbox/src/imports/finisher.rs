//! The finisher ends the imports of those who have died: it records what they had accepted, and discards what
//! they had not.
//!
//! Nobody wakes it: it looks every second for imports on which nobody works any more. Of several nodes one
//! adopts such an import, and goes on with it in steps, as the one who began it would have.

use std::future::Future;
use std::time::Duration;

use settle_domain::delivery::RetryPolicy;
use settle_domain::time::Timestamp;
use settle_store::{CALL_TIMEOUT, Import, ImportState, StoreResult, within};

use super::{LOCKED_WAIT, Pace, Purpose, Step, Steps, has_ended};
use crate::Outbox;

/// How often the finisher looks for imports that nobody works on.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// After this time without a sign of life an import is abandoned: longer than two of its transactions wait,
/// with the rest between them.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(30);
/// The waits between tries while the database does not answer.
const RETRY: RetryPolicy =
    RetryPolicy { retry_first: LOOK_INTERVAL, retry_max: Duration::from_secs(30), attempts_max: i32::MAX };

/// What the finisher did in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It worked on an abandoned import.
    Stepped,
    /// Another transaction has locked a merchant.
    Locked,
    /// No import is abandoned.
    Idle,
}

/// Ends abandoned imports. Any number of nodes may run a finisher, and a command before it imports.
pub struct Finisher {
    outbox: Outbox,
    /// The import that it works on.
    adopted: Option<Steps>,
}

impl Finisher {
    /// A finisher for the imports of the outbox's store.
    #[must_use]
    pub fn new(outbox: Outbox) -> Finisher {
        Finisher { outbox, adopted: None }
    }

    /// Ends abandoned imports until `stop` ends; it finishes the step under way first. While the database
    /// does not answer, it tries less and less often.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut failures = 0;
        loop {
            let pace = Pace::begin(&self.outbox);
            let turn = self.turn().await;
            failures = if turn.is_ok() { 0 } else { failures + 1 };
            let wait = async {
                match turn {
                    Ok(Turn::Stepped) => pace.rest().await,
                    Ok(Turn::Locked) => tokio::time::sleep(LOCKED_WAIT).await,
                    Ok(Turn::Idle) => tokio::time::sleep(LOOK_INTERVAL).await,
                    Err(fault) => {
                        let wait = RETRY.delay_after(failures);
                        tracing::warn!(%fault, ?wait, "an abandoned import cannot be ended");
                        tokio::time::sleep(wait).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = wait => {}
            }
        }
    }

    /// Ends every import that is abandoned now.
    pub async fn finish(&mut self) -> StoreResult<()> {
        loop {
            let pace = Pace::begin(&self.outbox);
            match self.turn().await? {
                Turn::Stepped => pace.rest().await,
                Turn::Locked => tokio::time::sleep(LOCKED_WAIT).await,
                Turn::Idle => return Ok(()),
            }
        }
    }

    /// Takes one step for an abandoned import.
    pub async fn turn(&mut self) -> StoreResult<Turn> {
        let Some(steps) = &mut self.adopted else {
            return within(CALL_TIMEOUT, self.look()).await;
        };
        match within(CALL_TIMEOUT, steps.step()).await? {
            Step::Taken(_) => Ok(Turn::Stepped),
            Step::Locked => Ok(Turn::Locked),
            Step::Ended => {
                within(CALL_TIMEOUT, steps.forget()).await?;
                tracing::info!(import = %steps.import_id, "an abandoned import has ended");
                self.adopted = None;
                Ok(Turn::Stepped)
            }
        }
    }

    /// Adopts the first import that is abandoned.
    async fn look(&mut self) -> StoreResult<Turn> {
        let now = self.outbox.clock.now();
        let list = self.outbox.store.import_list().await?;
        let Some(import) = list.into_iter().find(|import| is_abandoned(import, now)) else {
            return Ok(Turn::Idle);
        };
        let mut tx = self.outbox.store.begin_step().await?;
        if !tx.import_adopt(import.import_id, import.alive_at, now).await? {
            return Ok(Turn::Stepped);
        }
        let records = import.state == ImportState::Accepted;
        if import.state == ImportState::Staging && !tx.import_discard(import.import_id, now).await? {
            // Whoever began it lives after all, and has accepted it just now.
            return Ok(Turn::Stepped);
        }
        tx.commit().await?;
        if !has_ended(&import) {
            let (id, waiting) = (import.import_id, import.waiting);
            tracing::info!(import = %id, waiting, accepted = records, "an abandoned import is being ended");
        }
        let purpose = if records { Purpose::Record } else { Purpose::Delete };
        self.adopted = Some(Steps::new(self.outbox.clone(), import.import_id, import.notifies, purpose));
        Ok(Turn::Stepped)
    }
}

/// Nobody has worked on it for long, or the clock of whoever did was far ahead.
fn is_abandoned(import: &Import, now: Timestamp) -> bool {
    !(now.minus(ABANDONED_AFTER)..=now.plus(ABANDONED_AFTER)).contains(&import.alive_at)
}
