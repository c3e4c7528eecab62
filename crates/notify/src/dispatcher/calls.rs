//! The dispatcher's calls to the database: one table.
//!
//! | call | wanted | made with | its answer |
//! |---|---|---|---|
//! | [`RECORD`] | outcomes have waited for others | up to a thousand outcomes | their deliveries are forgotten |
//! | [`WAKE_OTHERS`] | other processes' merchants are due | those merchants | nothing: it is a hint |
//! | [`LOOK`] | every second, or when woken for many | the shards served | merchants get their turns |
//! | [`CLAIM`] | a lane may ask | what each lane has room for | attempts start |
//! | [`REFRESH`] | merchants are proven drained | those merchants | nothing: the next look sees it |
//! | [`MEASURE`] | every five seconds | | gauges |
//!
//! A new call is one more row here, and its name in [`Call`]. Of each at most one is under way; all run beside the loop, in tasks of
//! their own, because a store may take the thread for as long as it waits for the disk.

use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use settle_store::{StoreError, StoreResult, within};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::service::Service;

/// How often the dispatcher looks for work that nobody signalled: retries, and what other processes enqueued.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// When the dispatcher looks again after a look that found as many merchants as it may.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Merchants that one look may find.
pub(super) const MERCHANTS_FOUND_MAX: u32 = 4_096;
/// How often the dispatcher measures the queue for the metrics.
const MEASURE_INTERVAL: Duration = Duration::from_secs(5);
/// How long an outcome may wait for others to be recorded with it.
pub(super) const RECORD_LINGER: Duration = Duration::from_millis(50);
/// How long the database may take to answer: longer than it lets a statement wait for a lock.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long the dispatcher asks nothing of a database that has failed, at first and at most.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// A call to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Record,
    WakeOthers,
    Look,
    Claim,
    Refresh,
    Measure,
}

impl Call {
    /// Every call, in the order in which the dispatcher makes those that are due together.
    const ALL: [Call; 6] =
        [Call::Record, Call::WakeOthers, Call::Look, Call::Claim, Call::Refresh, Call::Measure];

    const fn row(self) -> &'static Row {
        match self {
            Call::Record => &RECORD,
            Call::WakeOthers => &WAKE_OTHERS,
            Call::Look => &LOOK,
            Call::Claim => &CLAIM,
            Call::Refresh => &REFRESH,
            Call::Measure => &MEASURE,
        }
    }
}

/// What there is to know of a call.
struct Row {
    /// What the dispatcher failed to do when the call fails, as the log says it.
    purpose: &'static str,
    /// Whether a dispatcher that stops still makes it.
    is_made_while_stopping: bool,
    is_wanted: fn(&Service) -> bool,
    make: fn(&mut Service) -> Option<Made>,
}

/// A call under way. It ends with what its answer changes.
type Made = BoxFuture<'static, Answer>;
/// What an answer changes, and when the call is due again.
pub(super) type Answer = Box<dyn FnOnce(&mut Service, Call) -> Instant + Send>;

static LOOK: Row = Row {
    purpose: "to look for what is due",
    is_made_while_stopping: false,
    is_wanted: |service| service.holdings.serves_any(),
    make: |service| {
        let (shards, known) = service.next_look();
        let (queue, until) = (service.parts.queue.clone(), service.now().plus(LOOK_INTERVAL));
        Some(call(
            async move { queue.due(&shards, until, &known, MERCHANTS_FOUND_MAX).await },
            |service, found| {
                let found = found.unwrap_or_default();
                let is_full = u32::try_from(found.len()).is_ok_and(|number| number >= MERCHANTS_FOUND_MAX);
                service.looked(found);
                Instant::now() + if is_full { LOOK_AGAIN } else { LOOK_INTERVAL }
            },
        ))
    },
};

static CLAIM: Row = Row {
    purpose: "to claim",
    is_made_while_stopping: false,
    is_wanted: |service| service.lanes.may_ask() && service.is_covered(),
    make: |service| {
        let asks = service.lanes.asks();
        if asks.is_empty() {
            return None;
        }
        let taken = service.lanes.taken_of(&asks);
        let (queue, now) = (service.parts.queue.clone(), service.now());
        let asked = asks.clone();
        Some(call(async move { queue.claim(&asked, &taken, now).await }, move |service, found| {
            match found {
                Some(found) => service.claimed(&asks, found),
                None => service.lanes.not_claimed(&asks),
            }
            Instant::now()
        }))
    },
};

static RECORD: Row = Row {
    purpose: "to record outcomes",
    is_made_while_stopping: true,
    is_wanted: |service| service.unrecorded.waiting() > 0,
    make: |service| {
        let outcomes = service.unrecorded.take();
        let (queue, now) = (service.parts.queue.clone(), service.now());
        let sent = outcomes.clone();
        Some(call(async move { queue.record(&sent, now).await }, move |service, recorded| {
            match recorded {
                Some(recorded) => service.recorded(outcomes, &recorded),
                None => service.unrecorded.put_back(outcomes),
            }
            Instant::now() + RECORD_LINGER
        }))
    },
};

static REFRESH: Row = Row {
    purpose: "to refresh when merchants are due",
    is_made_while_stopping: false,
    is_wanted: |service| service.drained.is_any_proven(),
    make: |service| {
        let merchants = service.drained.take();
        let (queue, now) = (service.parts.queue.clone(), service.now());
        Some(call(async move { queue.refresh(&merchants, now).await }, |_, _| Instant::now()))
    },
};

static WAKE_OTHERS: Row = Row {
    purpose: "to wake other dispatchers",
    is_made_while_stopping: true,
    is_wanted: |service| !service.others.is_empty(),
    make: |service| {
        let merchants: Vec<_> = std::mem::take(&mut service.others).into_iter().collect();
        let queue = service.parts.queue.clone();
        Some(call(async move { queue.wake_others(&merchants).await }, |_, _| Instant::now()))
    },
};

static MEASURE: Row = Row {
    purpose: "to measure the queue",
    is_made_while_stopping: false,
    is_wanted: |_| true,
    make: |service| {
        let queue = service.parts.queue.clone();
        Some(call(async move { queue.depth().await }, |service, depth| {
            if let Some(depth) = depth {
                service.measured(depth);
            }
            Instant::now() + MEASURE_INTERVAL
        }))
    },
};

/// A call with its limit. The answer gets `None` when the call failed, which is told to the log already.
fn call<T: Send + 'static>(
    asked: impl Future<Output = StoreResult<T>> + Send + 'static,
    answer: impl FnOnce(&mut Service, Option<T>) -> Instant + Send + 'static,
) -> Made {
    async move {
        let given = within(CALL_TIMEOUT, asked).await;
        let answer: Answer = Box::new(move |service, call| {
            let given = given.map_err(|error| service.calls.failed(&error, call));
            if given.is_ok() {
                service.calls.failures = 0;
            }
            answer(service, given.ok())
        });
        answer
    }
    .boxed()
}

/// The calls under way, and when each is due.
pub(super) struct Calls {
    under_way: JoinSet<(Call, Answer)>,
    timings: [Timing; Call::ALL.len()],
    /// Calls that failed since the last one that did not.
    failures: u32,
}

#[derive(Debug, Clone, Copy)]
struct Timing {
    is_under_way: bool,
    due: Instant,
}

impl Calls {
    pub(super) fn new(now: Instant) -> Calls {
        let timings = [Timing { is_under_way: false, due: now }; Call::ALL.len()];
        Calls { under_way: JoinSet::new(), timings, failures: 0 }
    }

    fn timing(&mut self, call: Call) -> &mut Timing {
        &mut self.timings[call as usize]
    }

    /// Makes a call due now, unless the database has failed: then the call waits as all others do.
    pub(super) fn hurry(&mut self, call: Call) {
        if self.failures == 0 {
            self.timing(call).due = Instant::now();
        }
    }

    /// Puts a call off, unless it is due later anyway.
    pub(super) fn put_off(&mut self, call: Call, until: Instant) {
        let timing = self.timing(call);
        timing.due = timing.due.max(until);
    }

    pub(super) fn is_under_way(&self, call: Call) -> bool {
        self.timings[call as usize].is_under_way
    }

    /// Waits until a call has ended. `None` when none is under way. A panic in it is one of the dispatcher.
    pub(super) async fn ended(&mut self) -> Option<(Call, Answer)> {
        match self.under_way.join_next().await?.map_err(JoinError::try_into_panic) {
            Ok(ended) => Some(ended),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this task is next.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    /// Ends calls that nobody waits for any more.
    pub(super) async fn shutdown(&mut self) {
        self.under_way.shutdown().await;
    }

    /// A call failed: the dispatcher asks nothing more of the database for a while.
    fn failed(&mut self, error: &StoreError, call: Call) {
        let backoff = BACKOFF_FIRST.saturating_mul(2u32.saturating_pow(self.failures)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(%error, cause, ?backoff, "the dispatcher failed {}", call.row().purpose);
        let until = Instant::now() + backoff;
        for timing in &mut self.timings {
            timing.due = timing.due.max(until);
        }
    }
}

impl Service {
    /// Makes every call that is wanted and due.
    pub(super) fn make_calls(&mut self) {
        let now = Instant::now();
        for call in Call::ALL {
            if self.wants(call)
                && self.calls.timing(call).due <= now
                && let Some(made) = (call.row().make)(self)
            {
                self.calls.timing(call).is_under_way = true;
                self.calls.under_way.spawn(made.map(move |answer| (call, answer)));
            }
        }
    }

    /// When the first call that is wanted is due.
    pub(super) fn first_call_due(&self) -> Option<Instant> {
        let wanted = Call::ALL.into_iter().filter(|call| self.wants(*call));
        wanted.map(|call| self.calls.timings[call as usize].due).min()
    }

    /// Takes note of what a call gave.
    pub(super) fn take_answer(&mut self, call: Call, answer: Answer) {
        self.calls.timing(call).is_under_way = false;
        let due = answer(self, call);
        let failures = self.calls.failures;
        let timing = self.calls.timing(call);
        // A failure may have put it off for longer.
        timing.due = if failures == 0 { due } else { timing.due.max(due) };
    }

    fn wants(&self, call: Call) -> bool {
        let row = call.row();
        let is_made = !self.is_stopping || row.is_made_while_stopping;
        is_made && !self.calls.is_under_way(call) && (row.is_wanted)(self)
    }
}
