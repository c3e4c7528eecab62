//! The loop: what has happened changes what is remembered, and that says which calls to make next.
//!
//! One task drives everything and never waits for anything in particular. Besides the stop, five things can
//! happen: somebody signals that something is due, the keeper of shards tells its holdings, a time comes, a
//! call to the database ends, an attempt ends. After each the dispatcher makes the calls that are wanted and
//! due.

use std::time::Duration;

use futures::FutureExt;
use settle_shards::tenancy::Tenancy;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::Dispatcher;
use super::calls::Answer;
use super::schedule::{Call, LOOK_INTERVAL};
use super::state::State;

/// How long calls that were cut off may take to end: one may hold its thread until the disk answers.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// A dispatcher at work.
pub(super) struct Service {
    state: State,
    /// The calls to the database that have not ended.
    calls: JoinSet<(Call, Answer)>,
}

impl Service {
    pub(super) fn new(parts: Dispatcher, tenancy: Tenancy) -> Service {
        Service { state: State::new(parts, tenancy), calls: JoinSet::new() }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()> + Send) {
        let mut stop = Box::pin(stop);
        let wake = self.state.parts.wake.clone();
        loop {
            let next_due = self.start_what_is_due();
            tokio::select! {
                // In this order, so that a simulation takes the same way every time. None of them is always
                // ready, so each gets its turn.
                biased;
                () = &mut stop => break,
                woken = wake.woken() => self.state.wake(woken),
                told = self.state.tenancy.told() => self.state.take_told(told),
                () = sleep_until(next_due) => self.state.time_has_come(),
                Some(ended) = self.calls.join_next() => self.take_answer(ended).await,
                Some(landings) = self.state.attempts.landed() => self.state.land(landings),
            }
        }
        self.finish().await;
    }

    /// Attempts under way end and are recorded. The shards are the keeper's to give back.
    async fn finish(&mut self) {
        self.state.is_stopping = true;
        let deadline = Instant::now() + self.state.parts.settings.shutdown_timeout;
        let ended = timeout_at(deadline, async {
            while !self.state.has_finished() {
                let next_due = self.start_what_is_due();
                tokio::select! {
                    biased;
                    told = self.state.tenancy.told() => self.state.take_told(told),
                    () = sleep_until(next_due) => self.state.time_has_come(),
                    Some(ended) = self.calls.join_next() => self.take_answer(ended).await,
                    Some(landings) = self.state.attempts.landed() => self.state.land(landings),
                }
            }
        });
        if ended.await.is_err() {
            let (in_flight, unrecorded) = (self.state.lanes.in_flight(), self.state.unrecorded.len());
            tracing::warn!(in_flight, unrecorded, "stopped before every attempt had ended and was recorded");
            self.state.attempts.abort();
        }
        // A call that still ran could hold a lock that the keeper needs to give the shards back.
        let _ = timeout(END_TIMEOUT, self.calls.shutdown()).await;
    }

    /// Makes every call that is wanted and due. Gives the time at which there is something to do even if
    /// nothing happens.
    fn start_what_is_due(&mut self) -> Instant {
        self.state.before_calls();
        let now = Instant::now();
        for call in Call::ALL {
            if self.wants(call)
                && self.state.schedule.due(call) <= now
                && let Some(made) = (call.row().make)(&mut self.state)
            {
                self.state.schedule.begun(call);
                self.calls.spawn(made.map(move |answer| (call, answer)));
            }
        }
        self.state.let_go();
        self.state.tell_failing();
        let calls = Call::ALL.into_iter().filter(|call| self.wants(*call));
        let calls = calls.map(|call| self.state.schedule.due(call));
        // The loop goes round at least this often, whatever the calls say.
        let latest = Instant::now() + LOOK_INTERVAL;
        calls.chain(self.state.next_due()).fold(latest, Instant::min)
    }

    fn wants(&self, call: Call) -> bool {
        let row = call.row();
        let is_made = !self.state.is_stopping || row.is_made_while_stopping;
        let is_held_up = row.is_made_alone && self.state.schedule.is_under_way(call);
        is_made && !is_held_up && (row.is_wanted)(&self.state)
    }

    /// Takes note of what a call gave. A panic in a call is passed on: the dispatcher ends with it.
    async fn take_answer(&mut self, ended: Result<(Call, Answer), JoinError>) {
        match ended.map_err(JoinError::try_into_panic) {
            Ok((call, answer)) => {
                let due = answer(&mut self.state, call);
                self.state.schedule.ended(call, due);
            }
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime shuts down, and this task is next.
            Err(Err(_)) => std::future::pending().await,
        }
    }
}
