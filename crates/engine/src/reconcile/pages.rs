//! The pages of a run: what the provider lists, then what we hold and it has not listed.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;
use settle_domain::alert::AlertKind;
use settle_domain::ids::OperationId;
use settle_domain::provider::ProviderName;
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;
use settle_provider::seen::Seen;
use settle_provider::wire::{Operation, UnreadableOperation};
use settle_store::{
    ALERT_QUIET, CALL_TIMEOUT, Finding, Occurrence, OperationRow, StoreError, StoreResult, Unlisted, within,
};

use super::comparison::{Comparison, compare, ours};
use super::patience::{Patience, Word};
use super::{Hand, Mark, ReconcileError, Reconciler, Run};
use crate::case::{Tracked, json};
use crate::providers::Station;

/// What came to its status so long before a run the provider must list; and so long after the time that it
/// lists from. The next run begins to look before this one stops.
const SETTLED_AFTER: Duration = Duration::from_mins(10);
const LISTED_AFTER: Duration = Duration::from_mins(30);
/// Our operations of one step.
const OURS_A_STEP: u32 = 2_000;
/// Pages of one run: a provider whose list has no end is told of, not followed.
const PAGES_MAX: u32 = 100_000;

impl Reconciler {
    /// One page of the provider's list.
    pub(super) async fn theirs(
        &self,
        station: &Station,
        mark: &mut Mark,
        run: &mut Run,
        hand: &mut Hand,
    ) -> Result<(), ReconcileError> {
        let provider = station.name();
        if run.pages >= PAGES_MAX {
            // Whatever it would list next: the next run begins anew.
            self.forget(mark, run, hand).await?;
            mark.run = None;
            return Err(ReconcileError::Endless(provider.clone()));
        }
        let page = match station.changes(run.since, run.after.as_deref()).await {
            Seen::Answered(page) => page,
            other => {
                mark.run = Some(run.clone().without_page());
                return Err(ReconcileError::NoList(provider.clone(), other.told()));
            }
        };
        let readable = page.operations.iter().map(|operation| operation.operation_id);
        let named = page.unreadable.iter().filter_map(|unread| unread.operation_id);
        let ids: Vec<OperationId> = readable.chain(named).map(OperationId).collect();
        let known = self.known(&ids).await?;
        let mut findings: Vec<Finding> =
            page.unreadable.iter().map(|unread| self.unread(unread, &known)).collect();
        let mut patience = Patience::after(run.silences);
        let comparing = async {
            for theirs in &page.operations {
                let id = OperationId(theirs.operation_id);
                self.keep(provider, mark, run, hand).await?;
                findings.extend(match known.get(&id).cloned() {
                    Some(row) => self.found(station, theirs, row, &mut patience).await?,
                    None => Some(self.unreadable(id, None, Some(theirs))),
                });
            }
            Ok(())
        };
        if let Err(fault) = comparing.await {
            return Err(self.leave(station, mark, run, hand, &findings, fault).await);
        }
        run.has_page();
        run.is_listed = page.next.is_none();
        run.after = page.next;
        self.store_page(provider, mark, run, hand, &ids, &findings).await?;
        Ok(())
    }

    /// A step ends before it is done. What it has found is kept: where payments have heard of it, whoever
    /// tries again finds nothing any more.
    async fn leave(
        &self,
        station: &Station,
        mark: &mut Mark,
        run: &mut Run,
        hand: &mut Hand,
        findings: &[Finding],
        fault: ReconcileError,
    ) -> ReconcileError {
        if matches!(fault, ReconcileError::NoWord(..)) {
            run.silences += 1;
        }
        mark.run = Some(run.clone());
        let provider = station.name();
        if !findings.is_empty()
            && let Err(error) = self.store_page(provider, mark, run, hand, &[], findings).await
        {
            tracing::warn!(%error, %provider, "what was found before a run failed is not kept");
        }
        fault
    }

    /// What we hold of the operations that a provider lists, if anything; without those that cannot be read.
    async fn known(&self, listed: &[OperationId]) -> StoreResult<HashMap<OperationId, Option<OperationRow>>> {
        let (store, now) = (&self.means.store, self.means.clock.now());
        let mut known: HashMap<_, _> = listed.iter().map(|id| (*id, None)).collect();
        match within(CALL_TIMEOUT, store.operation_find_many(listed, now)).await {
            Ok(rows) => known.extend(rows.into_iter().map(|row| (row.operation_id, Some(row)))),
            // Which one it is shows when each is asked for alone.
            Err(StoreError::Unexpected(_)) => {
                for id in listed {
                    match within(CALL_TIMEOUT, store.operation_find(*id, now)).await {
                        Err(StoreError::Unexpected(_)) => drop(known.remove(id)),
                        row => drop(known.insert(*id, row?)),
                    }
                }
            }
            Err(fault) => return Err(fault),
        }
        Ok(known)
    }

    /// Whether the provider and we agree on an operation that it lists. What is news to us is looked up.
    async fn found(
        &self,
        station: &Station,
        theirs: &Operation,
        row: Option<OperationRow>,
        patience: &mut Patience,
    ) -> Result<Option<Finding>, ReconcileError> {
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
        let held = match Tracked::read(row.clone()) {
            Err(StoreError::Unexpected(_)) => {
                return Ok(Some(self.unreadable(row.operation_id, Some(&row), Some(theirs))));
            }
            held => held?,
        };
        if held.operation.provider != *station.name() {
            return Ok(Some(finding(FindingKind::UnknownToUs, &held)));
        }
        let kind = match compare(theirs, &held) {
            Comparison::Agrees => return Ok(None),
            Comparison::Differs(kind) => return Ok(Some(finding(kind, &held))),
            Comparison::News(kind) => kind,
        };
        match self.look(station, &row, patience).await {
            // It cannot be let know, and is not listed again.
            Err(ReconcileError::Store(StoreError::Unexpected(cause))) => {
                tracing::error!(%cause, operation = %row.operation_id, "a payment cannot hear of it");
                return Ok(Some(finding(kind, &held)));
            }
            looked => looked?,
        }
        let is_told_anyway = kind == FindingKind::Returned || !held.operation.memory.status.is_open();
        let after = self.means.store.operation_find(row.operation_id, self.means.clock.now());
        let after = match within(CALL_TIMEOUT, after).await.and_then(|row| row.map(Tracked::read).transpose())
        {
            // What cannot be read does not agree.
            Err(StoreError::Unexpected(_)) => None,
            after => after?,
        };
        let agrees = after.as_ref().is_some_and(|after| compare(theirs, after) == Comparison::Agrees);
        Ok((is_told_anyway || !agrees).then(|| finding(kind, after.as_ref().unwrap_or(&held))))
    }

    /// Whether the provider has an operation that it must have listed, and has not. What was prepared before
    /// the time that it lists from may have ended there long before we heard of it: then its word, once it is
    /// asked, is what counts. Without its word it is asked again, until a person must ask.
    async fn unlisted(
        &self,
        station: &Station,
        row: OperationRow,
        from: Timestamp,
        patience: &mut Patience,
    ) -> Result<Option<Finding>, ReconcileError> {
        let found_at = self.means.clock.now();
        let held = match Tracked::read(row.clone()) {
            Err(StoreError::Unexpected(_)) => {
                return Ok(Some(self.unreadable(row.operation_id, Some(&row), None)));
            }
            held => held?,
        };
        let is_older = found_at.minus(row.age) < from;
        let seen = station.look_up(row.operation_id).await;
        patience.asked(station, &seen, if is_older { Word::Needed } else { Word::Wanted })?;
        let theirs = match seen {
            Seen::Answered(theirs) if is_older => {
                return self.found(station, &theirs, Some(row), patience).await;
            }
            Seen::Answered(theirs) => Some(json(&theirs)),
            _ => None,
        };
        Ok(Some(Finding {
            operation_id: row.operation_id,
            kind: FindingKind::UnknownToThem,
            merchant_id: Some(row.merchant_id),
            payment_id: Some(row.payment_id),
            found_at,
            ours: Some(ours(&held)),
            theirs,
        }))
    }

    /// What we hold of an operation cannot be read: a person must compare it.
    fn unreadable(
        &self,
        operation_id: OperationId,
        row: Option<&OperationRow>,
        theirs: Option<&Operation>,
    ) -> Finding {
        Finding {
            operation_id,
            kind: FindingKind::Unreadable,
            merchant_id: row.map(|row| row.merchant_id),
            payment_id: row.map(|row| row.payment_id),
            found_at: self.means.clock.now(),
            ours: None,
            theirs: theirs.map(json),
        }
    }

    /// What the provider lists of an operation cannot be read: a person must ask it.
    fn unread(
        &self,
        unread: &UnreadableOperation,
        known: &HashMap<OperationId, Option<OperationRow>>,
    ) -> Finding {
        // A report has room for one that nobody can name.
        let operation_id = OperationId(unread.operation_id.unwrap_or_default());
        let row = known.get(&operation_id).and_then(Option::as_ref);
        Finding {
            ours: row.and_then(|row| Tracked::read(row.clone()).ok()).map(|held| ours(&held)),
            theirs: Some(json(&Unread { fault: unread.fault.to_string(), told: &unread.told })),
            ..self.unreadable(operation_id, row, None)
        }
    }

    /// One step through our own operations: those that the provider must have listed, and has not.
    pub(super) async fn ours(
        &self,
        station: &Station,
        mark: &mut Mark,
        run: &mut Run,
        hand: &mut Hand,
    ) -> Result<(), ReconcileError> {
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
        let mut patience = Patience::after(run.silences);
        let asking = async {
            for row in unlisted {
                self.keep(station.name(), mark, run, hand).await?;
                findings.extend(self.unlisted(station, row, asked.from, &mut patience).await?);
            }
            Ok(())
        };
        if let Err(fault) = asking.await {
            return Err(self.leave(station, mark, run, hand, &findings, fault).await);
        }
        run.got_on();
        run.walked = next.or(run.walked);
        run.is_walked = next.is_none();
        self.store_page(station.name(), mark, run, hand, &[], &findings).await?;
        Ok(())
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
        let kept = within(CALL_TIMEOUT, async {
            let now = self.means.clock.now();
            let mut tx = self.means.store.begin().await?;
            // Where a list began anew, what it found before is told already.
            let new = tx.report_add(run.report_id, listed, findings).await?;
            let new = findings.iter().filter(|found| new.contains(&(found.operation_id, found.kind)));
            let occurrences: Vec<Occurrence> = new.map(|found| occurrence(provider, found)).collect();
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
}

/// What a provider says and nobody can read, for people.
#[derive(Serialize)]
struct Unread<'a> {
    fault: String,
    told: &'a str,
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
