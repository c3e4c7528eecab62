//! Completes settlements for callers that come at the same time: they share a transaction, so that a commit
//! that waits for the disk is paid once for all of them. Each is answered only after it.
//!
//! A group forms by itself, from whoever came while the last one was written. Callers then fall into two
//! halves that take turns: one is answered and calls again while the other is written. On SQLite that is
//! best. On PostgreSQL, where a transaction is eight round trips whatever its size, the recorder waits a
//! millisecond or two for four callers and more, so that they share one (`Store::callers_awaited`). With 32
//! callers each store is a sixth faster its own way.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use settle_domain::ids::{MerchantId, SettlementId};
use settle_store::{BATCH_MAX, NewSettlement, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::Outbox;

/// Callers that wait for their turn; the next one waits until there is room.
const WAITING_MAX: usize = 1_024;
/// From how many callers on it is worth waiting for them.
const EXPECTED_MIN: usize = 4;

/// What became of one caller's settlements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Settlements that were new.
    pub recorded: usize,
    /// Settlements that were there already, with the same content.
    pub unchanged: usize,
    /// Notifications enqueued.
    pub notified: usize,
}

/// Why one caller's settlements were not recorded: none of them were.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RecordError {
    /// There are no such merchants.
    #[error("there are no such merchants: {0:?}")]
    UnknownMerchants(Vec<MerchantId>),
    /// These are there already with other content, or were given with two.
    #[error("there already with other content: {0:?}")]
    Conflicts(Vec<(MerchantId, SettlementId)>),
    /// The store failed.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl From<StoreError> for RecordError {
    fn from(fault: StoreError) -> RecordError {
        RecordError::Store(Arc::new(fault))
    }
}

type Answer = Result<Recorded, RecordError>;

struct Job {
    settlements: Vec<NewSettlement>,
    answer: oneshot::Sender<Answer>,
}

/// Records settlements for many callers at once. Cheap to clone; ends when the last clone is dropped.
#[derive(Clone)]
pub struct Recorder {
    jobs: mpsc::Sender<Job>,
}

impl Recorder {
    /// Starts a recorder.
    #[must_use]
    pub fn start(outbox: Outbox) -> Recorder {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(Worker { outbox }.run(waiting));
        Recorder { jobs }
    }

    /// Records completed settlements, at most [`BATCH_MAX`], and enqueues their notifications: all of them or
    /// none. Comes back when they are on the disk.
    pub async fn record(&self, settlements: Vec<NewSettlement>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let gone = || RecordError::from(StoreError::Unavailable("the recorder has ended".into()));
        self.jobs.send(Job { settlements, answer }).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

struct Worker {
    outbox: Outbox,
}

impl Worker {
    /// A group is whoever came while the last one was written. Callers who were answered come back with the
    /// next settlement: as many as there were last are waited for, if the store is better off with that.
    async fn run(self, mut waiting: mpsc::Receiver<Job>) {
        let awaited = self.outbox.store.callers_awaited();
        let mut left_over = None;
        let mut expected = 0;
        loop {
            let first = match left_over.take() {
                Some(job) => job,
                None => match waiting.recv().await {
                    Some(job) => job,
                    None => return,
                },
            };
            let mut rows = first.settlements.len();
            let mut group = vec![first];
            let until = Instant::now() + awaited;
            loop {
                let job = match waiting.try_recv() {
                    Ok(job) => job,
                    Err(_) if group.len() < expected && rows < BATCH_MAX => {
                        match timeout_at(until, waiting.recv()).await {
                            Ok(Some(job)) => job,
                            Ok(None) | Err(_) => break,
                        }
                    }
                    Err(_) => break,
                };
                if rows + job.settlements.len() > BATCH_MAX {
                    left_over = Some(job);
                    break;
                }
                rows += job.settlements.len();
                group.push(job);
            }
            let callers = group.len();
            self.record_group(group).await;
            let all = callers + waiting.len();
            expected = if awaited.is_zero() || all < EXPECTED_MIN { 0 } else { all };
        }
    }

    /// One transaction for all. If one of them is at fault each gets its own: nobody pays for another.
    async fn record_group(&self, group: Vec<Job>) {
        let mut settlements = Vec::with_capacity(group.iter().map(|job| job.settlements.len()).sum());
        let (mut sizes, mut callers) = (Vec::new(), Vec::new());
        for mut job in group {
            sizes.push(job.settlements.len());
            settlements.append(&mut job.settlements);
            callers.push(job.answer);
        }
        // Whoever has gone away does not wait for the answer: what cannot be sent is let go.
        match self.record(&settlements, &sizes).await {
            Ok(answers) => {
                for (caller, recorded) in callers.into_iter().zip(answers) {
                    let _ = caller.send(Ok(recorded));
                }
            }
            // A lone caller: trying again would only repeat the fault.
            Err(fault) if callers.len() == 1 => {
                for caller in callers {
                    let _ = caller.send(Err(fault.clone()));
                }
            }
            Err(RecordError::Store(fault)) => {
                for caller in callers {
                    let _ = caller.send(Err(RecordError::Store(fault.clone())));
                }
            }
            Err(RecordError::UnknownMerchants(_) | RecordError::Conflicts(_)) => {
                let mut rest = settlements.as_slice();
                for (caller, size) in callers.into_iter().zip(sizes) {
                    let (own, others) = rest.split_at(size);
                    rest = others;
                    let answer = self.record(own, &[size]).await;
                    let _ = caller.send(answer.map(|answers| answers.into_iter().next().unwrap_or_default()));
                }
            }
        }
    }

    /// Records settlements in one transaction: each caller's after the other's, as many as the sizes say.
    async fn record(
        &self,
        settlements: &[NewSettlement],
        sizes: &[usize],
    ) -> Result<Vec<Recorded>, RecordError> {
        let merchants: BTreeSet<MerchantId> =
            settlements.iter().map(|settlement| settlement.merchant_id).collect();
        let merchants: Vec<MerchantId> = merchants.into_iter().collect();
        let mut work = self.outbox.begin().await?;
        let lock = work.merchant_lock(&merchants).await?;
        if lock.merchants().len() < merchants.len() {
            let unknown = merchants.into_iter().filter(|merchant| !lock.holds(*merchant));
            return Err(RecordError::UnknownMerchants(unknown.collect()));
        }
        let completed = work.complete(&lock, settlements).await?;
        if !completed.conflicting.is_empty() {
            return Err(RecordError::Conflicts(completed.conflicting));
        }
        work.commit().await?;
        let mut new: HashSet<_> = completed.recorded.into_iter().collect();
        let mut rest = settlements;
        let recorded = sizes.iter().map(|size| {
            let (own, others) = rest.split_at(*size);
            rest = others;
            let mut recorded = Recorded::default();
            for row in own {
                // Of two callers with the same settlement the first has recorded it.
                if new.remove(&(row.merchant_id, row.settlement_id)) {
                    recorded.recorded += 1;
                    recorded.notified += usize::from(completed.notified.contains(&row.merchant_id));
                } else {
                    recorded.unchanged += 1;
                }
            }
            recorded
        });
        Ok(recorded.collect())
    }
}
