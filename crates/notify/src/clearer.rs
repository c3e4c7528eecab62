//! The clearer ends what a cleared endpoint has left, in steps, beside everybody's work.
//!
//! A merchant may clear its endpoint while a million deliveries wait for it. The request that clears it ends
//! some hundred of them and leaves the others to this task (`settle_store`'s clearings say how, and why
//! nothing of them is sent meanwhile). A step is one short transaction under the merchant's lock. Whoever
//! holds that lock is not waited for, so of several nodes one at a time works for a merchant. The task of
//! each node ends 20,000 a second at most, a million in fifty seconds, so that a quick machine is everybody's
//! for most of the time. On a slow one it rests for at least a fifth of the time.
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
/// Merchants of one look, which take turns until the next look.
const MERCHANTS_MAX: u32 = 64;
/// How long the clearer leaves a merchant alone that somebody else has locked.
const LOCKED_WAIT: Duration = Duration::from_millis(20);
/// How many deliveries the clearer ends in a second at most: a million in fifty.
const ENDED_A_SECOND: u64 = 20_000;
/// A timer wakes the clearer up to a tick late; it makes up for that, so that the pace holds.
const TICK: Duration = Duration::from_millis(2);
/// The rest after a step is at least this part of the step.
const REST_DIVISOR: u32 = 4;
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
    /// Merchants of the last look that have something left; the first has its turn next.
    round: VecDeque<MerchantId>,
    /// Who had the last turn, whatever came of it.
    last: Option<MerchantId>,
    looked_at: Option<Instant>,
    /// Merchants of whom the log has been told.
    begun: BTreeSet<MerchantId>,
}

impl Clearer {
    /// A clearer for the store's clearings.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Clearer {
        Clearer { store, round: VecDeque::new(), last: None, looked_at: None, begun: BTreeSet::new() }
    }

    /// Ends deliveries until `stop` ends; it finishes the step under way first. While the database does not
    /// answer, the clearer tries less and less often.
    pub async fn run(mut self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut failures = 0;
        let mut pace = Pace { next: Instant::now() };
        loop {
            let started = Instant::now();
            let turn = self.turn().await;
            failures = if turn.is_ok() { 0 } else { failures + 1 };
            let wait = match turn {
                Ok(Turn::Stepped(done)) => pace.rest_after(done.ended, started, Instant::now()),
                Ok(Turn::Locked) => LOCKED_WAIT,
                Ok(Turn::Idle) => LOOK_INTERVAL,
                Err(fault) => {
                    let wait = rest_after_failure(failures, !self.round.is_empty());
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
        let is_fresh = self.looked_at.is_some_and(|then| then.elapsed() < LOOK_INTERVAL);
        if self.round.is_empty() || !is_fresh {
            self.look().await?;
        }
        let Some(merchant) = self.round.pop_front() else {
            return Ok(Turn::Idle);
        };
        self.last = Some(merchant);
        let Some(step) = within(CALL_TIMEOUT, self.step(merchant)).await? else {
            self.round.push_back(merchant);
            return Ok(Turn::Locked);
        };
        if step.ended > 0 && self.begun.insert(merchant) {
            let waiting = step.ended + step.left;
            tracing::info!(%merchant, waiting, "the deliveries of a cleared endpoint end in steps");
        }
        if step.left > 0 {
            self.round.push_back(merchant);
        } else if self.begun.remove(&merchant) {
            tracing::info!(%merchant, "all deliveries of a cleared endpoint have ended");
        }
        Ok(Turn::Stepped(step))
    }

    async fn look(&mut self) -> StoreResult<()> {
        let left = within(CALL_TIMEOUT, self.store.clearing_left(MERCHANTS_MAX)).await?;
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        metrics::gauge!("settle_deliveries_clearing").set(left.deliveries as f64);
        self.round = behind(self.last, left.merchants);
        self.looked_at = Some(Instant::now());
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

/// Merchants, given in the order of their ids, in the order of their turns: whoever fails each time, or takes
/// long, must not be the only one who ever has one.
fn behind(last: Option<MerchantId>, merchants: Vec<MerchantId>) -> VecDeque<MerchantId> {
    let had = merchants.partition_point(|merchant| Some(*merchant) <= last);
    let mut round = VecDeque::from(merchants);
    round.rotate_left(had);
    round
}

/// How long to rest after so many failures in a row. One may be the merchant's own, and others do not wait
/// for it: it has its next turn after the next look. Several are the database's.
fn rest_after_failure(failures: i32, do_others_wait: bool) -> Duration {
    if failures == 1 && do_others_wait { Duration::ZERO } else { RETRY.delay_after(failures) }
}

/// Spreads the steps over time.
struct Pace {
    /// When the step after the last one was to begin.
    next: Instant,
}

impl Pace {
    /// How long to rest after a step that has ended so many.
    fn rest_after(&mut self, ended: u64, started: Instant, now: Instant) -> Duration {
        let is_punctual = started.saturating_duration_since(self.next) <= TICK;
        let planned = if is_punctual { self.next } else { started };
        let taken = now.saturating_duration_since(started);
        let turn = Duration::from_nanos(ended * (1_000_000_000 / ENDED_A_SECOND));
        self.next = planned + turn.max(taken + taken / REST_DIVISOR);
        self.next.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const ENDED: u64 = 100;

    /// How long a thousand steps take that each last so long, woken so much too late.
    fn thousand(step: Duration, late: Duration) -> Duration {
        let first = Instant::now();
        let mut pace = Pace { next: first };
        let mut now = first;
        for _ in 0..1_000 {
            let started = now;
            now += step;
            now += pace.rest_after(ENDED, started, now) + late;
        }
        now - first
    }

    #[test]
    fn a_look_goes_on_behind_the_last_turn() {
        let [first, second, third] = [1, 2, 3].map(|number| MerchantId(Uuid::from_u128(number)));
        let round = |last| Vec::from(behind(last, vec![first, third]));

        assert_eq!(round(None), [first, third]);
        assert_eq!(round(Some(first)), [third, first]);
        assert_eq!(round(Some(second)), [third, first], "it has nothing left");
        assert_eq!(round(Some(third)), [first, third]);
    }

    #[test]
    fn quick_steps_keep_the_pace_although_timers_are_late() {
        for (step, late) in [(0, 0), (1, 0), (1, 1), (2, 1)] {
            let (step, late) = (Duration::from_millis(step), Duration::from_millis(late));
            let taken = thousand(step, late);
            assert!(taken >= Duration::from_secs(5) && taken < Duration::from_millis(5_010), "{taken:?}");
        }
    }

    #[test]
    fn slow_steps_rest_for_a_fifth_of_the_time_although_timers_are_late() {
        assert_eq!(thousand(Duration::from_millis(20), Duration::ZERO), Duration::from_secs(25));
        let taken = thousand(Duration::from_millis(8), Duration::from_millis(1));
        assert!(taken >= Duration::from_secs(10) && taken < Duration::from_millis(10_010), "{taken:?}");
    }

    #[test]
    fn one_merchant_that_fails_keeps_nobody_waiting() {
        assert_eq!(rest_after_failure(1, true), Duration::ZERO);
        assert_eq!(rest_after_failure(1, false), LOOK_INTERVAL);
        assert!(rest_after_failure(2, true) >= LOOK_INTERVAL, "the database does not answer");
    }

    #[test]
    fn time_in_which_nothing_was_done_is_not_caught_up_on() {
        let first = Instant::now();
        let mut pace = Pace { next: first };
        let later = first + Duration::from_mins(1);

        assert_eq!(pace.rest_after(ENDED, later, later), Duration::from_millis(5));
    }
}
