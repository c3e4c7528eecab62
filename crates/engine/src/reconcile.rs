//! Reconciliation: once a day, and whenever somebody asks, what providers say they did is compared with what
//! we hold, both ways.
//!
//! A run goes through the provider's list of what has changed since the last one, then through our own
//! operations that the provider should have listed. Each page is one transaction, which stores the findings,
//! their alerts and how far the run is: a run that is cut off goes on from there, in any process. Where the
//! provider's word is news to us, the run looks the operation up and lets the payment hear of it, the same
//! way as a look-up of the engine does: nothing is believed from a list alone, and nothing is sent.
//!
//! What goes on meanwhile is no finding. An operation of ours that was open, and agrees once it was looked
//! up, was merely under way; what the provider must have listed is old enough to have been there.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use settle_domain::alert::AlertKind;
use settle_domain::ids::{OperationId, ReportId};
use settle_domain::provider::ProviderName;
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;
use settle_store::{
    ALERT_QUIET, CALL_TIMEOUT, DueTime, JobState, Occurrence, Report, StoreError, StoreResult, TakenJob,
    within,
};

use crate::case::json;
use crate::life::Means;
use crate::providers::Station;
use crate::wake::EngineWake;

mod comparison;
mod daily;
mod look;
mod pages;
mod patience;

/// How often a provider is reconciled with by itself.
const INTERVAL: Duration = Duration::from_hours(24);
/// When a run that failed is taken up again.
const RETRY_AFTER: Duration = Duration::from_mins(10);
/// How long a process is alone with a run after each page.
const HOLD: Duration = Duration::from_mins(10);
/// How often a page is asked for before the list begins anew, and an operation before the run goes on without
/// the provider's word on it.
const PAGE_TRIES: u32 = 3;
/// How long a run may fail before operators are told.
const OVERDUE_AFTER: Duration = Duration::from_hours(2);
/// What changed so long before the last run is listed again: clocks differ.
const OVERLAP: Duration = Duration::from_hours(1);
/// Rows that are forgotten in one transaction.
const FORGOTTEN_A_STEP: u32 = 500;

/// Why a run ended before it was whole. It is taken up again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// The settings have no such provider.
    #[error("there is no provider {0}")]
    UnknownProvider(ProviderName),
    /// Another process is at it.
    #[error("another process reconciles with {0} at the moment")]
    UnderWay(ProviderName),
    /// The provider did not give its list.
    #[error("{0} does not give its list: {1}")]
    NoList(ProviderName, String),
    /// The provider did not say what it knows of an operation.
    #[error("{0} does not say what became of an operation: {1}")]
    NoWord(ProviderName, String),
    /// The provider's list has no end.
    #[error("the list of {0} has no end")]
    Endless(ProviderName),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Compares what providers did with what we hold. Any number of processes may run one.
pub struct Reconciler {
    means: Means,
    wake: EngineWake,
    entropy: Arc<dyn Entropy>,
}

/// How far the reconciliation with a provider is.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Mark {
    /// When the last whole run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_started_at: Option<Timestamp>,
    /// The run under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    run: Option<Run>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Run {
    report_id: ReportId,
    since: Timestamp,
    started_at: Timestamp,
    /// Where the provider's next page begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    pages: u32,
    is_listed: bool,
    /// The most pages that came, also before the list began anew.
    #[serde(default)]
    pages_most: u32,
    /// How often in a row the provider did not give that page.
    #[serde(default)]
    failures: u32,
    /// How often in a row a step ended because the provider did not give its word.
    #[serde(default)]
    silences: u32,
    /// Since when nothing has got on, and whether operators were told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stuck_since: Option<Timestamp>,
    #[serde(default)]
    is_told: bool,
    /// How far we are through our own operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    walked: Option<OperationId>,
    /// Whether we are through. What was listed is forgotten then: nothing can be compared with it any more.
    #[serde(default)]
    is_walked: bool,
}

impl Run {
    fn new(report_id: ReportId, since: Timestamp, started_at: Timestamp) -> Run {
        Run {
            report_id,
            since,
            started_at,
            after: None,
            pages: 0,
            is_listed: false,
            pages_most: 0,
            failures: 0,
            silences: 0,
            stuck_since: None,
            is_told: false,
            walked: None,
            is_walked: false,
        }
    }

    /// A page came, and was compared. One that had come before is no progress.
    fn has_page(&mut self) {
        self.pages += 1;
        self.failures = 0;
        if self.pages > self.pages_most {
            self.pages_most = self.pages;
            self.got_on();
        }
    }

    /// It is further than it ever was.
    fn got_on(&mut self) {
        (self.failures, self.silences, self.stuck_since, self.is_told) = (0, 0, None, false);
    }

    /// Nothing has got on, also now. Says whether operators must be told, which they are once.
    fn is_overdue(&mut self, now: Timestamp) -> bool {
        // A clock that was ahead does not put it off.
        let since = self.stuck_since.map_or(now, |since| since.min(now));
        self.stuck_since = Some(since);
        !self.is_told && since.plus(OVERDUE_AFTER) <= now
    }

    /// The provider did not give a page. It need not know for ever where a page begins: after some tries the
    /// run lists from its beginning again, and what it has is not counted twice.
    fn without_page(mut self) -> Run {
        self.failures += 1;
        if self.failures >= PAGE_TRIES {
            (self.after, self.pages, self.failures) = (None, 0, 0);
        }
        self
    }
}

/// A job in hand: its name, and the time that it is held until, which fences what is written.
struct Hand {
    job: String,
    fence: Timestamp,
}

/// Whether a run waits until it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// A day after the last one, or when one that failed is tried again.
    Due,
    /// Now, unless somebody is at it.
    Now,
}

impl Reconciler {
    /// A reconciler that looks up with the engine's own means.
    #[must_use]
    pub fn new(means: Means, wake: EngineWake, entropy: Arc<dyn Entropy>) -> Reconciler {
        Reconciler { means, wake, entropy }
    }

    /// Reconciles with a provider. `None` when nothing is due. Gives the whole report.
    pub async fn reconcile(
        &self,
        provider: &ProviderName,
        when: When,
    ) -> Result<Option<Report>, ReconcileError> {
        let station = self.means.providers.find(provider);
        let station = station.ok_or_else(|| ReconcileError::UnknownProvider(provider.clone()))?.clone();
        let job = format!("reconcile {provider}");
        let Some(taken) = within(CALL_TIMEOUT, self.take(&job, when)).await? else {
            return match when {
                When::Due => Ok(None),
                When::Now => Err(ReconcileError::UnderWay(provider.clone())),
            };
        };
        let mut hand = Hand { job, fence: taken.held_until };
        let mut mark: Mark = serde_json::from_str(&taken.mark).unwrap_or_default();
        match self.run_through(&station, &mut mark, &mut hand).await {
            Ok(report) => Ok(Some(report)),
            Err(fault) => {
                // If this fails as well, the run is free when its hold is over.
                let now = self.means.clock.now();
                let is_endless = matches!(fault, ReconcileError::Endless(_));
                let waits = if is_endless { INTERVAL } else { RETRY_AFTER };
                let is_stuck = mark.run.as_mut().is_some_and(|run| run.is_overdue(now));
                if let Some(run) = &mut mark.run {
                    run.is_told |= is_stuck;
                }
                let told = (is_endless || is_stuck).then(|| overdue(provider, &fault.to_string()));
                let state = JobState { due_at: now.plus(waits), held_until: now, mark: json(&mark) };
                let _ = within(CALL_TIMEOUT, self.let_go(&hand, &state, told.as_slice())).await;
                Err(fault)
            }
        }
    }

    async fn take(&self, job: &str, when: When) -> StoreResult<Option<TakenJob>> {
        let now = self.means.clock.now();
        let due = match when {
            When::Due => DueTime { by: now, beyond: now.plus(2 * INTERVAL) },
            When::Now => DueTime::by(Timestamp::MAX),
        };
        let mut tx = self.means.store.begin().await?;
        let taken = tx.job_take(job, now, due, HOLD).await?;
        tx.commit().await?;
        Ok(taken)
    }

    async fn run_through(
        &self,
        station: &Station,
        mark: &mut Mark,
        hand: &mut Hand,
    ) -> Result<Report, ReconcileError> {
        let mut run = match mark.run.clone() {
            Some(run) => run,
            None => self.begin(station.name(), mark, hand).await?,
        };
        while !run.is_listed {
            self.theirs(station, mark, &mut run, hand).await?;
        }
        while !run.is_walked {
            self.ours(station, mark, &mut run, hand).await?;
        }
        self.end(mark, &run, hand).await?;
        let report = within(CALL_TIMEOUT, self.means.store.report_find(run.report_id)).await?;
        Ok(report.ok_or_else(|| StoreError::unexpected("a report that was just made is gone"))?)
    }

    async fn begin(&self, provider: &ProviderName, mark: &mut Mark, hand: &mut Hand) -> StoreResult<Run> {
        let now = self.means.clock.now();
        let epoch = Timestamp::from_micros(0);
        let since = mark.last_started_at.map_or(epoch, |last| last.minus(OVERLAP));
        let run = Run::new(ReportId::new(now, &*self.entropy), since, now);
        let next = Mark { run: Some(run.clone()), ..mark.clone() };
        let report = Report {
            report_id: run.report_id,
            provider: provider.clone(),
            since: run.since,
            started_at: now,
            ended_at: None,
            listed: 0,
            findings: 0,
        };
        let kept = within(CALL_TIMEOUT, async {
            let mut tx = self.means.store.begin().await?;
            tx.report_begin(&report).await?;
            let held_until = self.keep_in(&mut *tx, hand, &next).await?;
            tx.commit().await?;
            Ok(held_until)
        });
        hand.fence = kept.await?;
        *mark = next;
        Ok(run)
    }

    /// Forgets what the provider has listed.
    async fn forget(&self, mark: &Mark, run: &Run, hand: &mut Hand) -> StoreResult<()> {
        loop {
            let forgotten = within(CALL_TIMEOUT, async {
                let mut tx = self.means.store.begin().await?;
                let forgotten = tx.report_forget(run.report_id, FORGOTTEN_A_STEP).await?;
                let held_until = self.keep_in(&mut *tx, hand, mark).await?;
                tx.commit().await?;
                Ok((forgotten, held_until))
            });
            let (forgotten, held_until) = forgotten.await?;
            hand.fence = held_until;
            if forgotten < u64::from(FORGOTTEN_A_STEP) {
                return Ok(());
            }
        }
    }

    async fn end(&self, mark: &Mark, run: &Run, hand: &mut Hand) -> StoreResult<()> {
        self.forget(mark, run, hand).await?;
        let ended = Mark { last_started_at: Some(run.started_at), run: None };
        let now = self.means.clock.now();
        let state = JobState { due_at: run.started_at.plus(INTERVAL), held_until: now, mark: json(&ended) };
        within(CALL_TIMEOUT, async {
            let mut tx = self.means.store.begin().await?;
            tx.report_end(run.report_id, now).await?;
            if !tx.job_keep(&hand.job, hand.fence, &state).await? {
                return Err(lost());
            }
            tx.commit().await
        })
        .await
    }

    /// Lets others take the job up, and tells operators.
    async fn let_go(&self, hand: &Hand, state: &JobState, told: &[Occurrence]) -> StoreResult<()> {
        let now = self.means.clock.now();
        let mut tx = self.means.store.begin().await?;
        if tx.job_keep(&hand.job, hand.fence, state).await? && !told.is_empty() {
            tx.alert_tell_many(None, told, now, ALERT_QUIET, &*self.entropy).await?;
        }
        tx.commit().await
    }

    /// Keeps the job while a page takes long: a provider may take its time for each look-up. If it takes
    /// hours, operators are told: nothing fails, and nothing gets on.
    async fn keep(
        &self,
        provider: &ProviderName,
        mark: &mut Mark,
        run: &mut Run,
        hand: &mut Hand,
    ) -> StoreResult<()> {
        let now = self.means.clock.now();
        let told = run.is_overdue(now).then(|| overdue(provider, "it takes hours to answer"));
        if told.is_none() && now.plus(HOLD / 2) < hand.fence {
            return Ok(());
        }
        let is_told = run.is_told || told.is_some();
        // The page is begun again by whoever takes the run over; since when it has been tried is kept.
        let mut next = mark.clone();
        if let Some(kept) = &mut next.run {
            (kept.stuck_since, kept.is_told) = (run.stuck_since, is_told);
        }
        hand.fence = within(CALL_TIMEOUT, async {
            let mut tx = self.means.store.begin().await?;
            if let Some(told) = told {
                tx.alert_tell_many(None, &[told], now, ALERT_QUIET, &*self.entropy).await?;
            }
            let held_until = self.keep_in(&mut *tx, hand, &next).await?;
            tx.commit().await?;
            Ok(held_until)
        })
        .await?;
        run.is_told = is_told;
        *mark = next;
        Ok(())
    }

    /// Keeps the job for another while, in the transaction that stores what was done.
    async fn keep_in(
        &self,
        tx: &mut dyn settle_store::Tx,
        hand: &Hand,
        mark: &Mark,
    ) -> StoreResult<Timestamp> {
        let now = self.means.clock.now();
        let held_until = now.plus(HOLD);
        let state = JobState { due_at: now, held_until, mark: json(mark) };
        if !tx.job_keep(&hand.job, hand.fence, &state).await? {
            return Err(lost());
        }
        Ok(held_until)
    }
}

fn lost() -> StoreError {
    StoreError::Unavailable("another process has taken the run over".into())
}

fn overdue(provider: &ProviderName, why: &str) -> Occurrence {
    Occurrence {
        merchant_id: None,
        kind: AlertKind::ReconciliationOverdue,
        subject: provider.to_string(),
        id: None,
        text: format!("nothing can be compared with {provider}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A provider that stumbles gives the same pages again and again.
    #[test]
    fn pages_that_had_come_before_are_no_progress() {
        let at = Timestamp::MIN;
        let mut run = Run::new(ReportId::NIL, at, at);
        run.has_page();
        run.has_page();
        (run.silences, run.stuck_since) = (2, Some(at));
        for _ in 0..PAGE_TRIES {
            run = run.without_page();
        }
        assert_eq!((run.pages, run.failures), (0, 0), "the list begins anew");
        run.has_page();
        run.has_page();
        assert_eq!((run.silences, run.stuck_since), (2, Some(at)));
        run.has_page();
        assert_eq!((run.silences, run.stuck_since), (0, None));
    }
}
