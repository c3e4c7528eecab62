//! The clearer ends what a cleared endpoint has left, in steps, beside everybody's work.
//!
//! A merchant may clear its endpoint while a million deliveries wait for it. The request that clears it ends
//! some hundred of them and leaves the others to this task (`settle_store`'s clearings say how, and why
//! nothing of them is sent meanwhile). A step is one short transaction under the merchant's lock. Whoever
//! holds that lock is not waited for, so of several nodes one at a time works for a merchant. After each step
//! the task rests for half as long as the step took: on SQLite, where one transaction writes at a time,
//! others get their turns then.
//!
//! Nobody wakes the task: nothing is sent meanwhile, so a second's delay costs nobody anything.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::delivery::RetryPolicy;
use settle_domain::ids::MerchantId;
use settle_store::{CALL_TIMEOUT, ClearingStep, Store, StoreResult, within};
use tokio::time::Instant;

/// How often the clearer looks whether there is something to end.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Merchants of one look, which get a step each before the next look.
const MERCHANTS_MAX: u32 = 64;
/// How long the clearer leaves a merchant alone that somebody else has locked.
const LOCKED_WAIT: Duration = Duration::from_millis(20);
/// How much shorter than a step the rest after it is.
const REST_DIVISOR: u32 = 2;
/// The waits between tries while the database does not answer.
const RETRY: RetryPolicy =
    RetryPolicy { retry_first: LOOK_INTERVAL, retry_max: Duration::from_secs(30), attempts_max: i32::MAX };

/// What the clearer did in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It ended deliveries of a merchant.
    Stepped(ClearingStep),
    /// Another transaction had locked the merchant.
    Locked,
    /// There is nothing to end.
    Idle,
}

/// Ends what cleared endpoints have left. Any number of nodes may run a clearer.
pub struct Clearer {
    store: Arc<dyn Store>,
    /// Merchants of the last look that have not had their step.
    round: VecDeque<MerchantId>,
    /// Merchants of whom the log has been told.
    begun: BTreeSet<MerchantId>,
}

impl Clearer {
    /// A clearer for the store's clearings.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Clearer {
        Clearer { store, round: VecDeque::new(), begun: BTreeSet::new() }
    }

    /// Ends deliveries until `stop` ends; it finishes the step under way first. While the database does not
    /// answer, the clearer tries less and less often.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut failures = 0;
        loop {
            let started = Instant::now();
            let turn = self.turn().await;
            failures = if turn.is_ok() { 0 } else { failures + 1 };
            let wait = match turn {
                Ok(Turn::Stepped(_)) => started.elapsed() / REST_DIVISOR,
                Ok(Turn::Locked) => LOCKED_WAIT,
                Ok(Turn::Idle) => LOOK_INTERVAL,
                Err(fault) => {
                    let wait = RETRY.delay_after(failures);
                    tracing::warn!(%fault, ?wait, "deliveries of cleared endpoints cannot be ended");
                    wait
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Takes one step for the next merchant that has something left.
    pub async fn turn(&mut self) -> StoreResult<Turn> {
        if self.round.is_empty() {
            self.look().await?;
        }
        let Some(merchant) = self.round.pop_front() else {
            return Ok(Turn::Idle);
        };
        let Some(step) = within(CALL_TIMEOUT, self.step(merchant)).await? else {
            return Ok(Turn::Locked);
        };
        if step.ended > 0 && self.begun.insert(merchant) {
            let waiting = step.ended + step.left;
            tracing::info!(%merchant, waiting, "the deliveries of a cleared endpoint end in steps");
        }
        if step.left == 0 && self.begun.remove(&merchant) {
            tracing::info!(%merchant, "all deliveries of a cleared endpoint have ended");
        }
        Ok(Turn::Stepped(step))
    }

    async fn look(&mut self) -> StoreResult<()> {
        let left = within(CALL_TIMEOUT, self.store.clearing_left(MERCHANTS_MAX)).await?;
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        metrics::gauge!("settle_deliveries_clearing").set(left.deliveries as f64);
        self.round = left.merchants.into();
        // Another node may have ended what this one began.
        self.begun.retain(|merchant| self.round.contains(merchant));
        Ok(())
    }

    /// `None` when somebody else has locked the merchant.
    async fn step(&self, merchant: MerchantId) -> StoreResult<Option<ClearingStep>> {
        // A step that is lost is taken again, so it does not wait for the disk.
        let mut tx = self.store.begin_relaxed().await?;
        let lock = tx.merchant_lock_free(&[merchant]).await?;
        if !lock.holds(merchant) {
            return Ok(None);
        }
        let step = tx.clearing_step(&lock, merchant, self.store.clearing_step_rows()).await?;
        tx.commit().await?;
        Ok(Some(step))
    }
}
