//! Completing settlements: the transaction that records one enqueues its notification. Nothing is sent that
//! is not committed, and nothing committed is forgotten.
//!
//! [`Recorder`] lets callers that come at the same time share a transaction, so that a commit that waits for
//! the disk is paid once for all of them; each is answered only after it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use settle_domain::endpoint::Endpoint;
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::seams::{Clock, Entropy};
use settle_domain::time::Timestamp;
use settle_store::{
    BATCH_MAX, Claimed, MerchantLock, NewDelivery, NewSettlement, Store, StoreError, StoreResult, Tx,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::wake::{ClaimsEnded, FRESH_MAX, Fresh, Wake};

/// Callers that wait for their turn; the next one waits until there is room.
const WAITING_MAX: usize = 1_024;
/// How many callers at once make it worth to wait for them.
const EXPECTED_MIN: usize = 4;

/// Notifications that were enqueued, and the endpoints they go to.
#[derive(Debug)]
pub struct Enqueued {
    /// The notifications.
    pub deliveries: Vec<NewDelivery>,
    endpoints: HashMap<MerchantId, Endpoint>,
}

impl Enqueued {
    /// Tells the dispatcher, once the transaction is committed. A few it can send without reading them back,
    /// unless a claim has found them that ended after those given, which were counted before the commit.
    pub fn wake(&self, wake: &Wake, after: ClaimsEnded, settlements: &[NewSettlement]) {
        let fresh = if self.deliveries.len() <= FRESH_MAX { self.fresh(after, settlements) } else { None };
        match fresh {
            Some(fresh) => wake.fresh(fresh),
            None => wake.merchants(self.deliveries.iter().map(|delivery| delivery.merchant_id)),
        }
    }

    /// What claims would give, if all that was enqueued is told of by these settlements.
    fn fresh(&self, after: ClaimsEnded, settlements: &[NewSettlement]) -> Option<Vec<Fresh>> {
        let records: HashMap<_, _> =
            settlements.iter().map(|row| ((row.merchant_id, row.settlement_id), &row.record)).collect();
        let fresh = self.deliveries.iter().map(|new| {
            let merchant_id = new.merchant_id;
            let record = (*records.get(&(merchant_id, new.settlement_id))?).clone();
            let secret = Some(self.endpoints.get(&merchant_id)?.secret.clone());
            Some(Fresh { claimed: Claimed { merchant_id, delivery: new.into(), record, secret }, after })
        });
        fresh.collect()
    }
}

/// Enqueues a notification of each settlement just recorded whose merchant has an endpoint, in the
/// settlements' own transaction.
pub async fn enqueue(
    tx: &mut dyn Tx,
    lock: &MerchantLock,
    recorded: &[(MerchantId, SettlementId)],
    now: Timestamp,
    entropy: &dyn Entropy,
) -> StoreResult<Enqueued> {
    let merchants: BTreeSet<MerchantId> = recorded.iter().map(|(merchant, _)| *merchant).collect();
    let merchants: Vec<MerchantId> = merchants.into_iter().collect();
    let endpoints: HashMap<_, _> = tx.endpoint_find_locked(lock, &merchants).await?.into_iter().collect();
    let deliveries: Vec<NewDelivery> = recorded
        .iter()
        .filter_map(|(merchant, settlement)| {
            let endpoint = endpoints.get(merchant)?;
            Some(NewDelivery {
                merchant_id: *merchant,
                delivery_id: DeliveryId::new(now, entropy),
                settlement_id: *settlement,
                event_type: EventType::SettlementCompleted,
                url: endpoint.url.clone(),
                created_at: now,
            })
        })
        .collect();
    tx.delivery_enqueue_many(lock, &deliveries).await?;
    Ok(Enqueued { deliveries, endpoints })
}

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
pub enum RecordFault {
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

impl From<StoreError> for RecordFault {
    fn from(fault: StoreError) -> RecordFault {
        RecordFault::Store(Arc::new(fault))
    }
}

type Answer = Result<Recorded, RecordFault>;

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
    pub fn start(
        store: Arc<dyn Store>,
        wake: Wake,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Recorder {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(Worker { store, wake, clock, entropy }.run(waiting));
        Recorder { jobs }
    }

    /// Records completed settlements, at most [`BATCH_MAX`], and enqueues their notifications: all of them or
    /// none. Comes back when they are on the disk.
    pub async fn record(&self, settlements: Vec<NewSettlement>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let gone = || RecordFault::from(StoreError::Unavailable("the recorder has ended".into()));
        self.jobs.send(Job { settlements, answer }).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

struct Worker {
    store: Arc<dyn Store>,
    wake: Wake,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
}

impl Worker {
    /// A group is whoever came while the last one was written. Callers who were answered come back with the
    /// next settlement: as many as there were last are waited for, if the store is better off with that.
    async fn run(self, mut waiting: mpsc::Receiver<Job>) {
        let awaited = self.store.callers_awaited();
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
            Ok(outcomes) => {
                for (caller, recorded) in callers.into_iter().zip(outcomes) {
                    let _ = caller.send(Ok(recorded));
                }
            }
            // It is the only one's own fault, which running it again would only repeat.
            Err(fault) if callers.len() == 1 => {
                for caller in callers {
                    let _ = caller.send(Err(fault.clone()));
                }
            }
            Err(RecordFault::Store(fault)) => {
                for caller in callers {
                    let _ = caller.send(Err(RecordFault::Store(fault.clone())));
                }
            }
            Err(RecordFault::UnknownMerchants(_) | RecordFault::Conflicts(_)) => {
                let mut rest = settlements.as_slice();
                for (caller, size) in callers.into_iter().zip(sizes) {
                    let (own, others) = rest.split_at(size);
                    rest = others;
                    let answer = self.record(own, &[size]).await;
                    let _ =
                        caller.send(answer.map(|outcomes| outcomes.into_iter().next().unwrap_or_default()));
                }
            }
        }
    }

    /// Records settlements in one transaction: each caller's after the other's, as many as the sizes say.
    async fn record(
        &self,
        settlements: &[NewSettlement],
        sizes: &[usize],
    ) -> Result<Vec<Recorded>, RecordFault> {
        let merchants: BTreeSet<MerchantId> =
            settlements.iter().map(|settlement| settlement.merchant_id).collect();
        let merchants: Vec<MerchantId> = merchants.into_iter().collect();
        let mut tx = self.store.begin().await?;
        let lock = tx.merchant_lock(&merchants).await?;
        if lock.merchants().len() < merchants.len() {
            let unknown = merchants.into_iter().filter(|merchant| !lock.holds(*merchant));
            return Err(RecordFault::UnknownMerchants(unknown.collect()));
        }
        let outcome = tx.settlement_record_many(&lock, settlements).await?;
        if !outcome.conflicting.is_empty() {
            return Err(RecordFault::Conflicts(outcome.conflicting));
        }
        let enqueued = enqueue(&mut *tx, &lock, &outcome.recorded, self.clock.now(), &*self.entropy).await?;
        let claims_ended = self.wake.claims_ended();
        tx.commit().await?;
        enqueued.wake(&self.wake, claims_ended, settlements);
        let notified: HashSet<MerchantId> =
            enqueued.deliveries.iter().map(|delivery| delivery.merchant_id).collect();
        let mut fresh: HashSet<_> = outcome.recorded.into_iter().collect();
        let mut rest = settlements;
        let outcomes = sizes.iter().map(|size| {
            let (own, others) = rest.split_at(*size);
            rest = others;
            let mut outcome = Recorded::default();
            for row in own {
                // Of two callers with the same settlement the first has recorded it.
                if fresh.remove(&(row.merchant_id, row.settlement_id)) {
                    outcome.recorded += 1;
                    outcome.notified += usize::from(notified.contains(&row.merchant_id));
                } else {
                    outcome.unchanged += 1;
                }
            }
            outcome
        });
        Ok(outcomes.collect())
    }
}
