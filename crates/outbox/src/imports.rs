//! Imports of more settlements than one transaction records, beside everybody's work: all of them or none.
//!
//! Whoever imports makes a [`Staging`], stages every settlement, and accepts it; the [`Steps`] that this
//! gives record them. `settle_store`'s imports say why nothing can come in between. Each call is one short
//! transaction, and after each one [`Pace`] rests: on SQLite, where one transaction writes at a time, others
//! get their turns then, and on PostgreSQL a processor.
//!
//! A transaction that is lost with the machine is made again, so most of them need not wait for the disk. Two
//! must: the one that accepts, which takes along what was staged before it, and a step that enqueues
//! notifications, because what is sent must be committed for good. On PostgreSQL all of them wait, because
//! otherwise the commits of others would wait for what they wrote.
//!
//! Whoever imports may die at any time. The [`finisher`] records what it had accepted, and discards what it
//! had not.

use std::time::Duration;

use settle_domain::ids::{ImportId, MerchantId, SettlementId};
use settle_store::{
    IMPORT_STEP_ROWS, Import, ImportState, ImportStep, NewSettlement, StagedBatch, StoreError, StoreResult,
};
use tokio::time::Instant;

use crate::Outbox;
use crate::recorder::merchants_of;

pub mod finisher;

/// How many times as long as a step the rest after it is: nobody waits for an import as others do for an
/// answer.
const REST_TIMES: u32 = 2;
/// The longest rest: whoever waited long for a lock would be taken for dead if it then rested twice as long.
const REST_MAX: Duration = Duration::from_secs(1);
/// How long steps leave merchants alone that somebody else has locked.
const LOCKED_WAIT: Duration = Duration::from_millis(20);

/// An import that is being staged. Dropped, it is abandoned, and the finisher discards it.
pub struct Staging {
    outbox: Outbox,
    import_id: ImportId,
    notifies: bool,
    staged: u64,
}

impl Staging {
    /// Begins an import. `None` if too many are under way.
    pub async fn begin(outbox: Outbox, notifies: bool) -> StoreResult<Option<Staging>> {
        let now = outbox.clock.now();
        let import_id = ImportId::new(now, &*outbox.entropy);
        let mut tx = outbox.store.begin_step().await?;
        if !tx.import_begin(import_id, notifies, now).await? {
            return Ok(None);
        }
        tx.commit().await?;
        Ok(Some(Staging { outbox, import_id, notifies, staged: 0 }))
    }

    /// Stages settlements, at most [`BATCH_MAX`](settle_store::BATCH_MAX): all of them, or none if one is in
    /// the way. `None` if somebody took the import for abandoned.
    pub async fn stage(&mut self, settlements: &[NewSettlement]) -> StoreResult<Option<StagedBatch>> {
        let mut tx = self.outbox.store.begin_step().await?;
        let lock = tx.merchant_lock(&merchants_of(settlements)).await?;
        // A sign of life from now on, however long it had to wait for the lock.
        let now = self.outbox.clock.now();
        let Some(batch) = tx.import_stage(&lock, self.import_id, settlements, now).await? else {
            return Ok(None);
        };
        if batch.conflicting.is_empty() && batch.reserved.is_empty() {
            tx.commit().await?;
            self.staged += batch.staged as u64;
        }
        Ok(Some(batch))
    }

    /// Settlements staged so far.
    #[must_use]
    pub fn staged(&self) -> u64 {
        self.staged
    }

    /// Accepts the import: from now on all of it will be recorded, whatever happens. `None` if not everything
    /// that was staged is there any more: then nothing will be.
    pub async fn accept(self) -> StoreResult<Option<Steps>> {
        let mut tx = self.outbox.store.begin().await?;
        if !tx.import_accept(self.import_id, self.staged, self.outbox.clock.now()).await? {
            return Ok(None);
        }
        tx.commit().await?;
        Ok(Some(Steps::new(self.outbox, self.import_id, self.notifies, Purpose::Record)))
    }

    /// Discards the import: nothing of it will be recorded. Gives the steps that delete what was staged.
    pub async fn discard(self) -> StoreResult<Steps> {
        let mut tx = self.outbox.store.begin_step().await?;
        tx.import_discard(self.import_id, self.outbox.clock.now()).await?;
        tx.commit().await?;
        Ok(Steps::new(self.outbox, self.import_id, self.notifies, Purpose::Delete))
    }
}

/// What steps do with the rows that they take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Record,
    Delete,
}

/// What one call of [`Steps::step`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It took rows; this is the import after it.
    Taken(Import),
    /// Another transaction has locked one of the merchants.
    Locked,
    /// Nothing is left.
    Ended,
}

/// The steps in which the rows of an import that is decided are recorded, or deleted.
pub struct Steps {
    outbox: Outbox,
    import_id: ImportId,
    notifies: bool,
    purpose: Purpose,
    /// The last row taken. PostgreSQL would walk over all rows taken before, until they are vacuumed.
    after: Option<(MerchantId, SettlementId)>,
}

impl Steps {
    fn new(outbox: Outbox, import_id: ImportId, notifies: bool, purpose: Purpose) -> Steps {
        Steps { outbox, import_id, notifies, purpose, after: None }
    }

    /// Takes the next rows, in one transaction.
    pub async fn step(&mut self) -> StoreResult<Step> {
        let store = &self.outbox.store;
        let mut rows = store.import_rows(self.import_id, self.after, IMPORT_STEP_ROWS).await?;
        if rows.is_empty() && self.after.take().is_some() {
            // A transaction that did not wait for the disk may have been lost: its rows are there again.
            rows = store.import_rows(self.import_id, None, IMPORT_STEP_ROWS).await?;
        }
        let Some(last) = rows.last().map(|row| (row.merchant_id, row.settlement_id)) else {
            return Ok(Step::Ended);
        };
        let records = self.purpose == Purpose::Record;
        let mut work = if records && self.notifies {
            self.outbox.begin().await?
        } else {
            self.outbox.begin_step().await?
        };
        let Some(lock) = work.merchant_lock_soon(&merchants_of(&rows)).await? else {
            return Ok(Step::Locked);
        };
        let taken = work.import_take(&lock, self.import_id, rows).await?;
        let mut step = ImportStep { taken: taken.len() as u64, ..ImportStep::default() };
        if records {
            let completed = if self.notifies {
                work.complete(&lock, &taken).await?
            } else {
                work.record(&lock, &taken).await?
            };
            if let Some((_, id)) = completed.conflicting.first() {
                let conflict = format!("settlement {id} of an accepted import is there with other content");
                return Err(StoreError::unexpected(conflict));
            }
            step.recorded = completed.recorded.len() as u64;
            step.notified = completed.notifications as u64;
        }
        let Some(import) = work.import_count(self.import_id, step, self.outbox.clock.now()).await? else {
            return Ok(Step::Ended);
        };
        work.commit().await?;
        self.after = Some(last);
        Ok(Step::Taken(import))
    }

    /// Takes steps until nothing is left, with a rest after each, and tells after each how many rows are
    /// left. Gives the import at its end, as far as anybody knows: another one may have ended it.
    pub async fn take_all(&mut self, mut tell: impl FnMut(u64)) -> StoreResult<Option<Import>> {
        let mut last = None;
        loop {
            let pace = Pace::begin(&self.outbox);
            match self.step().await? {
                Step::Taken(import) => {
                    tell(import.waiting);
                    last = Some(import);
                    pace.rest().await;
                }
                Step::Locked => tokio::time::sleep(LOCKED_WAIT).await,
                Step::Ended => break,
            }
        }
        let import = self.import().await?.or(last);
        self.forget().await?;
        Ok(import)
    }

    async fn import(&self) -> StoreResult<Option<Import>> {
        let list = self.outbox.store.import_list().await?;
        Ok(list.into_iter().find(|import| import.import_id == self.import_id))
    }

    /// Forgets an import that has ended.
    async fn forget(&self) -> StoreResult<()> {
        let mut tx = self.outbox.store.begin_step().await?;
        tx.import_forget(self.import_id).await?;
        tx.commit().await
    }
}

/// How long to rest after a transaction, so that others get a turn.
pub struct Pace {
    began: Instant,
    rest_min: Duration,
}

impl Pace {
    /// A transaction begins.
    #[must_use]
    pub fn begin(outbox: &Outbox) -> Pace {
        Pace { began: Instant::now(), rest_min: outbox.store.step_rest_min() }
    }

    /// Rests, twice as long as the transaction took, for a second at most; or as long as others need to
    /// notice.
    pub async fn rest(self) {
        tokio::time::sleep(self.after(self.began.elapsed())).await;
    }

    fn after(&self, worked: Duration) -> Duration {
        worked.saturating_mul(REST_TIMES).min(REST_MAX).max(self.rest_min)
    }
}

/// Whether an import has ended, so that nothing is left but its entry.
fn has_ended(import: &Import) -> bool {
    import.waiting == 0 && matches!(import.state, ImportState::Done | ImportState::Discarded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_rests_twice_as_long_as_it_worked_within_limits() {
        let (began, least) = (Instant::now(), Duration::from_millis(8));
        let pace = Pace { began, rest_min: least };
        assert_eq!(pace.after(Duration::from_millis(10)), Duration::from_millis(20));
        assert_eq!(pace.after(Duration::ZERO), least);
        assert_eq!(pace.after(Duration::from_hours(1)), REST_MAX, "nobody takes it for dead meanwhile");
    }
}
