//! What a reconciler does by itself: once a day it checks the books, and reconciles with every provider.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{join, join_all};
use serde::{Deserialize, Serialize};
use settle_domain::alert::AlertKind;
use settle_domain::ids::MerchantId;
use settle_domain::provider::ProviderName;
use settle_domain::time::Timestamp;
use settle_store::{ALERT_QUIET, CALL_TIMEOUT, DueTime, JobState, Occurrence, StoreResult, TakenJob, within};
use tokio::time::{Instant, sleep};

use super::{HOLD, INTERVAL, Reconciler, When, lost};
use crate::books::{self, Disagreement};
use crate::case::json;

/// How often it looks whether something is due.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_mins(1);
/// The name of the job that checks the books.
const BOOKS: &str = "books";
/// Merchants whose books are checked before that is written down, and how long that may take.
const MERCHANTS_A_STEP: u32 = 20;
const STEP_MAX: Duration = Duration::from_mins(1);
/// How often the check says that it is still at a merchant that takes long.
const KEPT_EVERY: Duration = Duration::from_mins(2);
/// How long the check works at least before it rests, how many times as long it rests, and for how long at
/// most.
const RESTS_AFTER: Duration = Duration::from_millis(20);
const RESTS_TIMES: u32 = 9;
const REST_MAX: Duration = Duration::from_mins(1);

/// How far the check of the books is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Mark {
    /// The merchant that was checked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    after: Option<MerchantId>,
}

/// Keeps the check from being felt: it reads every payment there is and has the whole day for it, and whoever
/// pays and is paid meanwhile has not. It rests between merchants: while one is read its snapshot must not
/// grow old.
#[derive(Debug, Default)]
struct Pace {
    worked: Duration,
}

impl Pace {
    /// The rest that follows after this work, if it is time for one.
    fn worked(&mut self, took: Duration) -> Option<Duration> {
        self.worked += took;
        let is_due = self.worked >= RESTS_AFTER;
        is_due.then(|| (std::mem::take(&mut self.worked) * RESTS_TIMES).min(REST_MAX))
    }
}

impl Reconciler {
    /// Works until `stop` ends. What is cut off is taken up where it was, here or in another process. Each
    /// provider of the settings and the books have rounds of their own: a run goes on for as long as its
    /// provider takes to answer, and nobody else waits for it.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let providers = join_all(self.providers().map(|provider| self.provider_rounds(provider)));
        tokio::select! {
            biased;
            () = stop => {}
            _ = join(providers, self.book_rounds()) => {}
        }
    }

    /// Does what is due.
    pub async fn work(&self) {
        let providers = join_all(self.providers().map(|provider| self.reconcile_due(provider)));
        join(providers, self.check_books_due()).await;
    }

    fn providers(&self) -> impl Iterator<Item = &ProviderName> {
        self.means.providers.all().map(|station| station.name())
    }

    async fn provider_rounds(&self, provider: &ProviderName) {
        loop {
            self.reconcile_due(provider).await;
            sleep(LOOK_INTERVAL).await;
        }
    }

    async fn book_rounds(&self) {
        loop {
            self.check_books_due().await;
            sleep(LOOK_INTERVAL).await;
        }
    }

    async fn reconcile_due(&self, provider: &ProviderName) {
        match self.reconcile(provider, When::Due).await {
            Ok(Some(report)) => {
                let (listed, findings) = (report.listed, report.findings);
                tracing::info!(%provider, listed, findings, "reconciled");
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, %provider, "reconciliation is tried again"),
        }
    }

    async fn check_books_due(&self) {
        if let Err(error) = self.check_books().await {
            tracing::warn!(%error, "the check of the books is tried again");
        }
    }

    /// Checks the books of all merchants, if that is due and nobody else is at it, and tells operators what
    /// does not agree.
    pub async fn check_books(&self) -> StoreResult<()> {
        let Some(taken) = within(CALL_TIMEOUT, self.take_books()).await? else { return Ok(()) };
        let mut fence = taken.held_until;
        let Mark { mut after } = serde_json::from_str(&taken.mark).unwrap_or_default();
        let mut pace = Pace::default();
        loop {
            let checked_to = after;
            let merchants = self.means.store.merchant_list(after, MERCHANTS_A_STEP);
            let merchants = within(CALL_TIMEOUT, merchants).await?;
            let mut disagreements = Vec::new();
            after = None;
            let begun_at = Instant::now();
            for merchant in &merchants {
                let started_at = Instant::now();
                let mark = Mark { after: checked_to };
                let checked = self.check_held(merchant.merchant_id, mark, &mut fence).await?;
                disagreements.extend(checked.disagreements);
                after = Some(merchant.merchant_id);
                if let Some(rest) = pace.worked(started_at.elapsed()) {
                    sleep(rest).await;
                }
                if begun_at.elapsed() >= STEP_MAX {
                    break;
                }
            }
            let now = self.means.clock.now();
            let (due_at, held_until) =
                if after.is_some() { (now, now.plus(HOLD)) } else { (now.plus(INTERVAL), now) };
            let state = JobState { due_at, held_until, mark: json(&Mark { after }) };
            within(CALL_TIMEOUT, self.tell_of_books(&disagreements, fence, &state)).await?;
            fence = held_until;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Checks the books of one merchant, and keeps the job however long that takes.
    async fn check_held(
        &self,
        merchant: MerchantId,
        mark: Mark,
        fence: &mut Timestamp,
    ) -> StoreResult<books::Checked> {
        let check = books::check_merchant(&*self.means.store, &*self.means.clock, merchant);
        tokio::pin!(check);
        loop {
            tokio::select! {
                biased;
                checked = &mut check => return checked,
                () = sleep(KEPT_EVERY) => {}
            }
            let now = self.means.clock.now();
            let state = JobState { due_at: now, held_until: now.plus(HOLD), mark: json(&mark) };
            within(CALL_TIMEOUT, self.tell_of_books(&[], *fence, &state)).await?;
            *fence = state.held_until;
        }
    }

    async fn take_books(&self) -> StoreResult<Option<TakenJob>> {
        let now = self.means.clock.now();
        let due = DueTime { by: now, beyond: now.plus(2 * INTERVAL) };
        let mut tx = self.means.store.begin().await?;
        let taken = tx.job_take(BOOKS, now, due, HOLD).await?;
        tx.commit().await?;
        Ok(taken)
    }

    async fn tell_of_books(
        &self,
        disagreements: &[Disagreement],
        fence: Timestamp,
        state: &JobState,
    ) -> StoreResult<()> {
        let merchants: BTreeSet<MerchantId> = disagreements.iter().map(|found| found.merchant_id).collect();
        let merchants: Vec<MerchantId> = merchants.into_iter().collect();
        let occurrences: Vec<Occurrence> = disagreements.iter().map(occurrence).collect();
        let now = self.means.clock.now();
        let mut tx = self.means.store.begin().await?;
        let lock = tx.merchant_lock(&merchants).await?;
        if !occurrences.is_empty() {
            tx.alert_tell_many(Some(&lock), &occurrences, now, ALERT_QUIET, &*self.entropy).await?;
        }
        if !tx.job_keep(BOOKS, fence, state).await? {
            return Err(lost());
        }
        tx.commit().await
    }
}

fn occurrence(found: &Disagreement) -> Occurrence {
    Occurrence {
        merchant_id: Some(found.merchant_id),
        kind: AlertKind::BooksDisagree,
        subject: "the books".to_owned(),
        id: found.payment_id.map(|payment| payment.0),
        text: found.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn a_rest_is_as_long_as_all_the_work_before_it_asks_for() {
        let mut pace = Pace::default();
        assert_eq!(pace.worked(millis(7)), None);
        assert_eq!(pace.worked(millis(12)), None);
        assert_eq!(pace.worked(millis(1)), Some(millis(180)), "of 20 ms of work");
        assert_eq!(pace.worked(millis(19)), None, "what was rested for counts once");
        assert_eq!(pace.worked(millis(300)), Some(millis(2_871)));
    }

    #[test]
    fn whoever_takes_long_keeps_the_others_waiting_for_a_minute_at_most() {
        assert_eq!(Pace::default().worked(Duration::from_hours(1)), Some(REST_MAX));
    }

    #[test]
    fn the_job_is_not_lost_while_the_check_rests() {
        assert!(STEP_MAX + REST_MAX + KEPT_EVERY + CALL_TIMEOUT < HOLD);
    }
}
