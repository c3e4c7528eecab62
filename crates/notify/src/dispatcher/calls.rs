//! The dispatcher's calls to the database: one table.
//!
//! | call | wanted | made with | its answer |
//! |---|---|---|---|
//! | [`RECORD`] | outcomes have waited | up to a thousand outcomes | their deliveries are forgotten |
//! | [`RECORD_APART`] | a merchant's outcomes must be recorded apart | that merchant's | the same |
//! | [`WAKE_OTHERS`] | other processes' merchants are due | those merchants | nothing: it is a hint |
//! | [`LOOK`] | every second, or when woken for many | the shards served | merchants get their turns |
//! | [`CLAIM`] | a lane may ask | what each lane has room for | attempts start |
//! | [`REFRESH`] | merchants are proven drained | those merchants | nothing: the next look sees it |
//! | [`MEASURE`] | every five seconds | | gauges |
//!
//! A new call is one more row here, and its name in [`Call`] and [`Call::ALL`]. Of each at most one is under
//! way, except where the row says otherwise. All run beside the loop, in tasks of their own: a store may take
//! the thread for as long as it waits for the disk.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use settle_store::{CALL_TIMEOUT, QueueDepth, StoreError, StoreResult, within};
use tokio::time::Instant;

use super::schedule::{Call, LOOK_INTERVAL};
use super::state::State;
use super::unrecorded::RECORD_LINGER;

/// When the dispatcher looks again after a look that found as many merchants as it may.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Merchants that one look may find.
const MERCHANTS_FOUND_MAX: u32 = 4_096;
/// How often the dispatcher measures the queue for the metrics.
const MEASURE_INTERVAL: Duration = Duration::from_secs(5);

impl Call {
    pub(super) const fn row(self) -> &'static Row {
        match self {
            Call::Record => &RECORD,
            Call::RecordApart => &RECORD_APART,
            Call::WakeOthers => &WAKE_OTHERS,
            Call::Look => &LOOK,
            Call::Claim => &CLAIM,
            Call::Refresh => &REFRESH,
            Call::Measure => &MEASURE,
        }
    }
}

/// What there is to know of a call.
pub(super) struct Row {
    /// What the dispatcher failed to do when the call fails, as the log says it.
    pub(super) purpose: &'static str,
    /// Whether a dispatcher that stops still makes it.
    pub(super) is_made_while_stopping: bool,
    /// Whether at most one is under way. Otherwise `is_wanted` has the limit.
    pub(super) is_made_alone: bool,
    pub(super) is_wanted: fn(&State) -> bool,
    pub(super) make: fn(&mut State) -> Option<Made>,
}

/// A call under way. It ends with what its answer changes.
pub(super) type Made = BoxFuture<'static, Answer>;
/// What an answer changes, and when the call is due again.
pub(super) type Answer = Box<dyn FnOnce(&mut State, Call) -> Instant + Send>;

static RECORD: Row = Row {
    purpose: "to record outcomes",
    is_made_while_stopping: true,
    is_made_alone: true,
    is_wanted: |state| state.unrecorded.waiting() > 0,
    make: |state| {
        let outcomes = Arc::new(state.unrecorded.take());
        let (queue, now) = (state.parts.queue.clone(), state.now());
        let recording = async move {
            let recorded = within(CALL_TIMEOUT, queue.record(&outcomes, now)).await;
            let answer: Answer = Box::new(move |state, call| {
                let outcomes = Arc::unwrap_or_clone(outcomes);
                match recorded {
                    Ok(recorded) => {
                        state.schedule.succeeded(call);
                        state.recorded(outcomes, &recorded);
                    }
                    Err(error @ StoreError::Unavailable(_)) => {
                        state.schedule.failed(call, &error, call.row().purpose);
                        state.unrecorded.put_back(outcomes);
                    }
                    Err(error) => state.refused(outcomes, &error),
                }
                Instant::now() + RECORD_LINGER
            });
            answer
        };
        Some(recording.boxed())
    },
};

static RECORD_APART: Row = Row {
    purpose: "to record the outcomes of one merchant",
    is_made_while_stopping: true,
    is_made_alone: false,
    is_wanted: |state| state.unrecorded.apart.first_due().is_some_and(|due| due <= Instant::now()),
    make: |state| {
        let outcomes = state.unrecorded.apart.take(Instant::now())?;
        let (queue, now) = (state.parts.queue.clone(), state.now());
        let recording = async move {
            let recorded = within(CALL_TIMEOUT, queue.record_in_turn(&outcomes, now)).await;
            let answer: Answer = Box::new(move |state, _| {
                state.recorded_apart(outcomes, recorded);
                Instant::now()
            });
            answer
        };
        Some(recording.boxed())
    },
};

static WAKE_OTHERS: Row = Row {
    purpose: "to wake other dispatchers",
    is_made_while_stopping: true,
    is_made_alone: true,
    is_wanted: |state| !state.others.is_empty(),
    make: |state| {
        let merchants: Vec<_> = std::mem::take(&mut state.others).into_iter().collect();
        let queue = state.parts.queue.clone();
        Some(call(async move { queue.wake_others(&merchants).await }, |_, _| Instant::now()))
    },
};

static LOOK: Row = Row {
    purpose: "to look for what is due",
    is_made_while_stopping: false,
    is_made_alone: true,
    is_wanted: |state| state.holdings.serves_any(),
    make: |state| {
        let (shards, known) = state.next_look();
        let (queue, due) = (state.parts.queue.clone(), state.due_within(LOOK_INTERVAL));
        Some(call(
            async move { queue.due(&shards, due, &known, MERCHANTS_FOUND_MAX).await },
            |state, found| {
                let found = found.unwrap_or_default();
                let found_all_it_may =
                    u32::try_from(found.len()).is_ok_and(|number| number >= MERCHANTS_FOUND_MAX);
                state.looked(found);
                Instant::now() + if found_all_it_may { LOOK_AGAIN } else { LOOK_INTERVAL }
            },
        ))
    },
};

static CLAIM: Row = Row {
    purpose: "to claim",
    is_made_while_stopping: false,
    is_made_alone: true,
    is_wanted: |state| state.lanes.may_ask() && state.is_covered(),
    make: |state| {
        let asks = state.lanes.asks();
        if asks.is_empty() {
            return None;
        }
        let taken = state.taken(&asks);
        let (queue, due) = (state.parts.queue.clone(), state.due_within(Duration::ZERO));
        let asked = asks.clone();
        Some(call(async move { queue.claim(&asked, &taken, due).await }, move |state, found| {
            match found {
                Some(found) => state.claimed(&asks, found),
                None => state.not_claimed(&asks),
            }
            Instant::now()
        }))
    },
};

static REFRESH: Row = Row {
    purpose: "to refresh when merchants are due",
    is_made_while_stopping: false,
    is_made_alone: true,
    is_wanted: |state| state.drained.is_any_proven(),
    make: |state| {
        let merchants = state.drained.take();
        let (queue, now) = (state.parts.queue.clone(), state.now());
        Some(call(async move { queue.refresh(&merchants, now).await }, |_, _| Instant::now()))
    },
};

static MEASURE: Row = Row {
    purpose: "to measure the queue",
    is_made_while_stopping: false,
    is_made_alone: true,
    is_wanted: |_| true,
    make: |state| {
        let queue = state.parts.queue.clone();
        let measures = state.measures();
        let measured = async move { if measures { queue.depth().await } else { Ok(QueueDepth::default()) } };
        Some(call(measured, |state, depth| {
            if let Some(depth) = depth {
                state.measured(depth);
            }
            Instant::now() + MEASURE_INTERVAL
        }))
    },
};

/// A call with its limit. The answer gets `None` when the call failed, which is told to the log already.
fn call<T: Send + 'static>(
    asked: impl Future<Output = StoreResult<T>> + Send + 'static,
    answer: impl FnOnce(&mut State, Option<T>) -> Instant + Send + 'static,
) -> Made {
    async move {
        let given = within(CALL_TIMEOUT, asked).await;
        let answer: Answer = Box::new(move |state, call| {
            let given =
                given.inspect_err(|error| state.schedule.failed(call, error, call.row().purpose)).ok();
            if given.is_some() {
                state.schedule.succeeded(call);
            }
            answer(state, given)
        });
        answer
    }
    .boxed()
}
