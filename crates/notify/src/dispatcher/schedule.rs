//! When each call to the database is due, which are under way, and how long a failing database is left alone.

use std::time::Duration;

use settle_store::StoreError;
use tokio::time::Instant;

/// How often the dispatcher looks for work that nobody signalled: retries, and what other processes enqueued.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the dispatcher asks nothing of a database that has failed, at first and at most.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A call to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Record,
    RecordApart,
    WakeOthers,
    Look,
    Claim,
    Refresh,
    Measure,
}

impl Call {
    /// Every call, in the order in which the dispatcher makes those that are due together.
    pub(super) const ALL: [Call; 7] = [
        Call::Record,
        Call::RecordApart,
        Call::WakeOthers,
        Call::Look,
        Call::Claim,
        Call::Refresh,
        Call::Measure,
    ];
    /// Those without which nobody is served.
    const VITAL: [Call; 3] = [Call::Record, Call::Look, Call::Claim];
}

/// The times of all calls.
#[derive(Debug)]
pub(super) struct Schedule {
    timings: [Timing; Call::ALL.len()],
    /// Calls that failed since the last one that did not.
    failures: u32,
    /// Until when the dispatcher asks nothing of the database, because it has failed.
    rests_until: Instant,
}

#[derive(Debug, Clone, Copy)]
struct Timing {
    is_under_way: bool,
    due: Instant,
    /// Since when it has failed every time.
    fails_since: Option<Instant>,
}

impl Schedule {
    /// Every call is due now.
    pub(super) fn new(now: Instant) -> Schedule {
        let timings = [Timing { is_under_way: false, due: now, fails_since: None }; Call::ALL.len()];
        Schedule { timings, failures: 0, rests_until: now }
    }

    fn timing(&mut self, call: Call) -> &mut Timing {
        &mut self.timings[call as usize]
    }

    pub(super) fn due(&self, call: Call) -> Instant {
        self.timings[call as usize].due
    }

    pub(super) fn is_under_way(&self, call: Call) -> bool {
        self.timings[call as usize].is_under_way
    }

    /// Makes a call due now; while a database that has failed is left alone, as soon as it is asked again.
    pub(super) fn hurry(&mut self, call: Call) {
        let due = if self.failures == 0 { Instant::now() } else { self.rests_until.max(Instant::now()) };
        let timing = self.timing(call);
        timing.due = timing.due.min(due);
    }

    /// Puts a call off, unless it is due later anyway.
    pub(super) fn put_off(&mut self, call: Call, until: Instant) {
        let timing = self.timing(call);
        timing.due = timing.due.max(until);
    }

    pub(super) fn begun(&mut self, call: Call) {
        self.timing(call).is_under_way = true;
    }

    /// A call has ended, and is due again at the given time.
    pub(super) fn ended(&mut self, call: Call, due: Instant) {
        let failures = self.failures;
        let timing = self.timing(call);
        timing.is_under_way = false;
        // A failure may have put it off for longer.
        timing.due = if failures == 0 { due } else { timing.due.max(due) };
    }

    /// The database has answered.
    pub(super) fn succeeded(&mut self, call: Call) {
        self.failures = 0;
        self.timing(call).fails_since = None;
    }

    /// Since when a call has failed without which nobody is served, although others may succeed. One that is
    /// not wanted any more does not fail.
    pub(super) fn fails_since(&mut self, is_wanted: impl Fn(Call) -> bool) -> Option<Instant> {
        for call in Call::VITAL {
            if !self.is_under_way(call) && !is_wanted(call) {
                self.timing(call).fails_since = None;
            }
        }
        Call::VITAL.into_iter().filter_map(|call| self.timings[call as usize].fails_since).min()
    }

    /// A call failed: the dispatcher asks nothing more of the database for a while.
    pub(super) fn failed(&mut self, call: Call, error: &StoreError, purpose: &'static str) {
        let backoff = BACKOFF_FIRST.saturating_mul(2u32.saturating_pow(self.failures)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(%error, cause, ?backoff, "the dispatcher failed {purpose}");
        self.timing(call).fails_since.get_or_insert(Instant::now());
        self.rests_until = Instant::now() + backoff;
        for timing in &mut self.timings {
            timing.due = timing.due.max(self.rests_until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failing_database_is_left_alone_for_longer_and_longer() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now);
        let away = StoreError::Unavailable("away".into());
        schedule.failed(Call::Look, &away, "to work");
        assert!(Call::ALL.iter().all(|call| schedule.due(*call) == now + BACKOFF_FIRST));
        schedule.hurry(Call::Look);
        assert_eq!(
            schedule.due(Call::Look),
            now + BACKOFF_FIRST,
            "nobody hurries a database that has failed"
        );
        for _ in 0..10 {
            schedule.failed(Call::Look, &away, "to work");
        }
        assert_eq!(schedule.due(Call::Record), now + BACKOFF_MAX);
        schedule.succeeded(Call::Look);
        schedule.hurry(Call::Look);
        assert_eq!(schedule.due(Call::Look), now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_has_ended_is_due_again_when_it_says() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now);
        schedule.begun(Call::Claim);
        assert!(schedule.is_under_way(Call::Claim) && !schedule.is_under_way(Call::Look));
        schedule.ended(Call::Claim, now + Duration::from_secs(1));
        assert!(!schedule.is_under_way(Call::Claim));
        assert_eq!(schedule.due(Call::Claim), now + Duration::from_secs(1));
        schedule.put_off(Call::Claim, now);
        assert_eq!(schedule.due(Call::Claim), now + Duration::from_secs(1), "it is due later anyway");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_fails_until_it_succeeds_or_nobody_wants_it_whatever_others_do() {
        let now = Instant::now();
        let mut schedule = Schedule::new(now);
        let away = StoreError::Unavailable("away".into());
        assert_eq!(schedule.fails_since(|_| true), None);
        schedule.failed(Call::Claim, &away, "to work");
        tokio::time::advance(Duration::from_secs(1)).await;
        schedule.failed(Call::Claim, &away, "to work");
        schedule.succeeded(Call::Look);
        assert_eq!(schedule.fails_since(|_| true), Some(now), "since the first time");
        schedule.succeeded(Call::Claim);
        assert_eq!(schedule.fails_since(|_| true), None);
        schedule.failed(Call::Record, &away, "to work");
        schedule.begun(Call::Record);
        assert!(schedule.fails_since(|_| false).is_some(), "it is being tried again");
        schedule.ended(Call::Record, now);
        assert_eq!(schedule.fails_since(|_| false), None, "there is nothing left to record");
        schedule.failed(Call::Measure, &away, "to work");
        assert_eq!(schedule.fails_since(|_| true), None, "everybody is served without it");
    }
}
