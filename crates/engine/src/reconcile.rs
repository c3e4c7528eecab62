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
use settle_domain::reconciliation::FindingKind;
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;
use settle_provider::seen::Seen;
use settle_provider::wire::Operation;
use settle_store::{
    ALERT_QUIET, CALL_TIMEOUT, DueTime, Finding, JobState, Occurrence, OperationRow, Report, StoreError,
    StoreResult, TakenJob, Unlisted, within,
};

use crate::case::{Tracked, json};
use crate::life::Means;
use crate::providers::Station;
use crate::wake::EngineWake;

mod comparison;
mod daily;
mod look;

use comparison::{Comparison, compare, ours};

/// How often a provider is reconciled with by itself.
const INTERVAL: Duration = Duration::from_hours(24);
/// When a run that failed is taken up again.
const RETRY_AFTER: Duration = Duration::from_mins(10);
/// How long a process is alone with a run after each page.
const HOLD: Duration = Duration::from_mins(10);
/// What changed so long before the last run is listed again: clocks differ.
const OVERLAP: Duration = Duration::from_hours(1);
/// What we prepared so long before a run the provider must list; and so long after the time that it lists
/// from. The next run begins to look before this one stops.
const SETTLED_AFTER: Duration = Duration::from_mins(10);
const LISTED_AFTER: Duration = Duration::from_mins(30);
/// Our operations of one step.
const OURS_A_STEP: u32 = 2_000;
/// Rows that are forgotten in one transaction.
const FORGOTTEN_A_STEP: u32 = 500;
/// Pages of one run: a provider whose list has no end is told of, not followed.
const PAGES_MAX: u32 = 100_000;

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
    /// How far we are through our own operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    walked: Option<OperationId>,
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
                let state = JobState { due_at: now.plus(RETRY_AFTER), held_until: now, mark: json(&mark) };
                let _ = within(CALL_TIMEOUT, self.let_go(&hand, &state)).await;
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
        loop {
            let is_last = self.ours(station, mark, &mut run, hand).await?;
            if is_last {
                break;
            }
        }
        self.end(mark, &run, hand).await?;
        let report = within(CALL_TIMEOUT, self.means.store.report_find(run.report_id)).await?;
        Ok(report.ok_or_else(|| StoreError::unexpected("a report that was just made is gone"))?)
    }

    async fn begin(&self, provider: &ProviderName, mark: &mut Mark, hand: &mut Hand) -> StoreResult<Run> {
        let now = self.means.clock.now();
        let epoch = Timestamp::from_micros(0);
        let run = Run {
            report_id: ReportId::new(now, &*self.entropy),
            since: mark.last_started_at.map_or(epoch, |last| last.minus(OVERLAP)),
            started_at: now,
            after: None,
            pages: 0,
            is_listed: false,
            walked: None,
        };
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

    /// One page of the provider's list.
    async fn theirs(
        &self,
        station: &Station,
        mark: &mut Mark,
        run: &mut Run,
        hand: &mut Hand,
    ) -> Result<(), ReconcileError> {
        let provider = station.name();
        if run.pages >= PAGES_MAX {
            return Err(ReconcileError::Endless(provider.clone()));
        }
        let page = match station.changes(run.since, run.after.as_deref()).await {
            Seen::Answered(page) => page,
            other => return Err(ReconcileError::NoList(provider.clone(), other.told())),
        };
        let ids: Vec<OperationId> =
            page.operations.iter().map(|operation| OperationId(operation.operation_id)).collect();
        let now = self.means.clock.now();
        let known = within(CALL_TIMEOUT, self.means.store.operation_find_many(&ids, now)).await?;
        let mut findings = Vec::new();
        for theirs in &page.operations {
            let id = OperationId(theirs.operation_id);
            let row = known.iter().find(|row| row.operation_id == id).cloned();
            findings.extend(self.found(station, theirs, row).await?);
        }
        run.pages += 1;
        run.is_listed = page.next.is_none();
        run.after = page.next;
        self.store_page(provider, mark, run, hand, &ids, &findings).await?;
        Ok(())
    }

    /// Whether the provider and we agree on an operation that it lists. What is news to us is looked up.
    async fn found(
        &self,
        station: &Station,
        theirs: &Operation,
        row: Option<OperationRow>,
    ) -> StoreResult<Option<Finding>> {
        let found_at = self.means.clock.now();
        let told = Some(json(theirs));
        let Some(row) = row else {
            let (kind, operation_id) = (FindingKind::UnknownToUs, OperationId(theirs.operation_id));
            let (merchant_id, payment_id) = (None, None);
            return Ok(Some(Finding {
                operation_id,
                kind,
                merchant_id,
                payment_id,
                found_at,
                ours: None,
                theirs: told,
            }));
        };
        let finding = |kind, held: &Tracked| Finding {
            operation_id: row.operation_id,
            kind,
            merchant_id: Some(row.merchant_id),
            payment_id: Some(row.payment_id),
            found_at,
            ours: Some(ours(held)),
            theirs: told.clone(),
        };
        let held = Tracked::read(row.clone())?;
        if held.operation.provider != *station.name() {
            return Ok(Some(finding(FindingKind::UnknownToUs, &held)));
        }
        let kind = match compare(theirs, &held) {
            Comparison::Agrees => return Ok(None),
            Comparison::Differs(kind) => return Ok(Some(finding(kind, &held))),
            Comparison::News(kind) => kind,
        };
        self.look(station, &row).await?;
        let is_told_anyway = kind == FindingKind::Returned || !held.operation.memory.status.is_open();
        let after = self.means.store.operation_find(row.operation_id, self.means.clock.now());
        let after = within(CALL_TIMEOUT, after).await?.map(Tracked::read).transpose()?;
        let agrees = after.as_ref().is_some_and(|after| compare(theirs, after) == Comparison::Agrees);
        Ok((is_told_anyway || !agrees).then(|| finding(kind, after.as_ref().unwrap_or(&held))))
    }

    /// One step through our own operations: those that the provider must have listed, and has not. Says
    /// whether it was the last.
    async fn ours(
        &self,
        station: &Station,
        mark: &mut Mark,
        run: &mut Run,
        hand: &mut Hand,
    ) -> Result<bool, ReconcileError> {
        let asked = Unlisted {
            report_id: run.report_id,
            provider: station.name().clone(),
            from: run.since.plus(LISTED_AFTER),
            until: run.started_at.minus(SETTLED_AFTER),
        };
        let now = self.means.clock.now();
        let step = self.means.store.report_unlisted(&asked, run.walked, OURS_A_STEP, now);
        let (unlisted, next) = within(CALL_TIMEOUT, step).await?;
        let mut findings = Vec::with_capacity(unlisted.len());
        for row in unlisted {
            let theirs = match station.look_up(row.operation_id).await {
                Seen::Answered(operation) => Some(json(&operation)),
                _ => None,
            };
            findings.push(Finding {
                operation_id: row.operation_id,
                kind: FindingKind::UnknownToThem,
                merchant_id: Some(row.merchant_id),
                payment_id: Some(row.payment_id),
                found_at: self.means.clock.now(),
                ours: Some(ours(&Tracked::read(row)?)),
                theirs,
            });
        }
        run.walked = next.or(run.walked);
        self.store_page(station.name(), mark, run, hand, &[], &findings).await?;
        Ok(next.is_none())
    }

    /// Stores findings, their alerts and how far the run is, in one transaction.
    async fn store_page(
        &self,
        provider: &ProviderName,
        mark: &mut Mark,
        run: &Run,
        hand: &mut Hand,
        listed: &[OperationId],
        findings: &[Finding],
    ) -> StoreResult<()> {
        let next = Mark { run: Some(run.clone()), ..mark.clone() };
        let occurrences: Vec<Occurrence> = findings.iter().map(|found| occurrence(provider, found)).collect();
        let kept = within(CALL_TIMEOUT, async {
            let now = self.means.clock.now();
            let mut tx = self.means.store.begin().await?;
            tx.report_add(run.report_id, listed, findings).await?;
            if !occurrences.is_empty() {
                tx.alert_tell_many(None, &occurrences, now, ALERT_QUIET, &*self.entropy).await?;
            }
            let held_until = self.keep_in(&mut *tx, hand, &next).await?;
            tx.commit().await?;
            Ok(held_until)
        });
        // Only what is committed is done: a run that fails now begins this page again.
        hand.fence = kept.await?;
        *mark = next;
        Ok(())
    }

    async fn end(&self, mark: &Mark, run: &Run, hand: &mut Hand) -> StoreResult<()> {
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
                break;
            }
        }
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

    async fn let_go(&self, hand: &Hand, state: &JobState) -> StoreResult<()> {
        let mut tx = self.means.store.begin().await?;
        tx.job_keep(&hand.job, hand.fence, state).await?;
        tx.commit().await
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

fn occurrence(provider: &ProviderName, finding: &Finding) -> Occurrence {
    let whose = finding.payment_id.map(|payment| format!(" of payment {payment}")).unwrap_or_default();
    Occurrence {
        merchant_id: None,
        kind: AlertKind::ReconciliationFinding,
        subject: provider.to_string(),
        id: Some(finding.operation_id.0),
        text: format!("{provider}: operation {}{whose}: {}", finding.operation_id, finding.kind.words()),
    }
}
