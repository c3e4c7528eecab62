//! Completes settlements for callers that come at the same time: they share a transaction, so that a commit
//! that waits for the disk is paid once for all of them. Each is answered only after it.
//!
//! A group forms by itself, from whoever came while the last one was written. Callers then fall into two
//! halves that take turns: one is answered and calls again while the other is written. On SQLite that is
//! best. On PostgreSQL, where a transaction is eight round trips whatever its size, the recorder waits a
//! millisecond or two for four callers and more, so that they share one (`Store::callers_awaited`). With 32
//! callers each store is a sixth faster its own way.
//!
//! A group waits a moment for merchants that somebody else has locked, such as the dispatcher that records
//! outcomes; it does not wait for one that hangs. Whoever has settlements of a merchant that is locked for
//! longer waits aside, in a transaction of his own, and holds up nobody.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use settle_domain::ids::{MerchantId, SettlementId};
use settle_store::{BATCH_MAX, CALL_TIMEOUT, MerchantLock, NewSettlement, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Outbox;
use crate::work::Work;

/// Callers that wait for their turn; the next one waits until there is room.
const WAITING_MAX: usize = 1_024;
/// From how many callers on it is worth waiting for them.
const EXPECTED_MIN: usize = 4;
/// How long callers of a merchant that a group found locked wait aside, unless one of them finds it free
/// before: each group that has to find out again is held up for a moment.
const HELD: Duration = Duration::from_secs(30);
/// Callers that wait aside for a merchant that is locked; the next one is told to come again.
const ASIDE_MAX: usize = 64;
/// Who has waited for longer behind a transaction that failed is told that it failed: the next one would
/// keep him waiting as long again.
const BEHIND_FAILURE_MAX: Duration = Duration::from_secs(1);

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
    /// The id or the pay-in of these is a payment's: the engine settles it.
    #[error("payments of the engine: {0:?}")]
    Payments(Vec<(MerchantId, SettlementId)>),
    /// An import has staged these with other content, and may still be discarded: trying again later may
    /// work.
    #[error("staged by an import with other content: {0:?}")]
    Reserved(Vec<(MerchantId, SettlementId)>),
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
    came_at: Instant,
}

/// Records settlements for many callers at once. Cheap to clone; ends when the last clone is dropped.
#[derive(Clone)]
pub struct Recorder {
    jobs: mpsc::Sender<Job>,
    busy_since: BusySince,
}

/// Since when a group is being written.
type BusySince = Arc<Mutex<Option<Instant>>>;

impl Recorder {
    /// Starts a recorder.
    #[must_use]
    pub fn start(outbox: Outbox) -> Recorder {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let busy_since = BusySince::default();
        let worker = Worker {
            outbox,
            busy_since: busy_since.clone(),
            held: Arc::default(),
            aside: Arc::new(Semaphore::new(ASIDE_MAX)),
        };
        tokio::spawn(worker.run(waiting));
        Recorder { jobs, busy_since }
    }

    /// Waits until the recorder has ended although somebody still needs it: it has panicked.
    pub async fn ended(&self) {
        self.jobs.closed().await;
    }

    /// Records completed settlements, at most [`BATCH_MAX`], and enqueues their notifications: all of them or
    /// none. Comes back when they are on the disk.
    pub async fn record(&self, settlements: Vec<NewSettlement>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let gone = || RecordError::from(StoreError::Unavailable("the recorder has ended".into()));
        let job = Job { settlements, answer, came_at: Instant::now() };
        self.jobs.send(job).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    /// How long the transaction under way has taken so far.
    #[must_use]
    pub fn busy_for(&self) -> Duration {
        let since = *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner);
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

#[derive(Clone)]
struct Worker {
    outbox: Outbox,
    busy_since: BusySince,
    /// Merchants that are locked for longer than a group waits, and until when that is believed.
    held: Arc<Mutex<HashMap<MerchantId, Instant>>>,
    /// Places for callers who wait aside.
    aside: Arc<Semaphore>,
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
            self.busy(Some(Instant::now()));
            let failed = self.record_group(group).await;
            self.busy(None);
            let all = callers + waiting.len();
            if let Some(fault) = failed {
                left_over = answer_behind(&fault, left_over, &mut waiting);
            }
            expected = if awaited.is_zero() || all < EXPECTED_MIN { 0 } else { all };
        }
    }

    fn busy(&self, since: Option<Instant>) {
        *self.busy_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// One transaction for all. If one of them is at fault each gets its own: nobody pays for another. Gives
    /// the fault if the store failed.
    async fn record_group(&self, group: Vec<Job>) -> Option<RecordError> {
        let mut settlements = Vec::with_capacity(group.iter().map(|job| job.settlements.len()).sum());
        let (mut sizes, mut callers) = (Vec::new(), Vec::new());
        for mut job in group {
            if self.is_held(&job.settlements) {
                self.wait_aside(job.answer, job.settlements);
                continue;
            }
            sizes.push(job.settlements.len());
            settlements.append(&mut job.settlements);
            callers.push(job.answer);
        }
        if callers.is_empty() {
            return None;
        }
        match in_time(self.record_shared(&settlements, &sizes)).await {
            Ok(answers) => {
                for ((caller, own), answer) in
                    callers.into_iter().zip(parts(&settlements, &sizes)).zip(answers)
                {
                    self.answer(caller, own, Ok(answer));
                }
            }
            // A lone caller: trying again would only repeat the fault.
            Err(fault) if callers.len() == 1 || matches!(fault, RecordError::Store(_)) => {
                for caller in callers {
                    answer(caller, Err(fault.clone()));
                }
                return Some(fault).filter(|fault| matches!(fault, RecordError::Store(_)));
            }
            Err(_) => {
                for (caller, own) in callers.into_iter().zip(parts(&settlements, &sizes)) {
                    let answers = in_time(self.record_shared(own, &[own.len()])).await;
                    self.answer(caller, own, answers.map(|answers| answers.into_iter().next().flatten()));
                }
            }
        }
        None
    }

    /// Answers a caller, or lets him wait aside if nothing was done because a merchant was not free.
    fn answer(
        &self,
        caller: oneshot::Sender<Answer>,
        own: &[NewSettlement],
        done: Result<Option<Recorded>, RecordError>,
    ) {
        match done.transpose() {
            Some(done) => answer(caller, done),
            None => self.wait_aside(caller, own.to_vec()),
        }
    }

    fn wait_aside(&self, caller: oneshot::Sender<Answer>, own: Vec<NewSettlement>) {
        if let Ok(place) = self.aside.clone().try_acquire_owned() {
            let worker = self.clone();
            tokio::spawn(async move {
                answer(caller, in_time(worker.record_when_free(&own)).await);
                drop(place);
            });
        } else {
            let crowded = "too many callers wait for merchants that are locked";
            answer(caller, Err(StoreError::Unavailable(crowded.into()).into()));
        }
    }

    /// Records in one transaction what belongs to merchants that are free within a moment: each caller's
    /// after the other's, as many as the sizes say. Gives `None` for a caller with a merchant that is locked
    /// or unknown.
    async fn record_shared(
        &self,
        settlements: &[NewSettlement],
        sizes: &[usize],
    ) -> Result<Vec<Option<Recorded>>, RecordError> {
        let merchants = merchants_of(settlements);
        let mut work = self.outbox.begin().await?;
        let lock = if let Some(lock) = work.merchant_lock_soon(&merchants).await? {
            lock
        } else {
            work = self.outbox.begin().await?;
            let free = work.merchant_lock_free(&merchants).await?;
            self.hold(merchants.iter().filter(|merchant| !free.holds(**merchant)));
            free
        };
        if lock.merchants().len() == merchants.len() {
            let recorded = complete(work, &lock, settlements, sizes).await?;
            return Ok(recorded.into_iter().map(Some).collect());
        }
        let is_free = |own: &[NewSettlement]| own.iter().all(|row| lock.holds(row.merchant_id));
        let free: Vec<&[NewSettlement]> = parts(settlements, sizes).filter(|own| is_free(own)).collect();
        let free_sizes: Vec<usize> = free.iter().map(|own| own.len()).collect();
        let mut recorded = complete(work, &lock, &free.concat(), &free_sizes).await?.into_iter();
        Ok(parts(settlements, sizes).map(|own| if is_free(own) { recorded.next() } else { None }).collect())
    }

    /// Records one caller's settlements when their merchants are free.
    async fn record_when_free(&self, settlements: &[NewSettlement]) -> Answer {
        let merchants = merchants_of(settlements);
        let mut work = self.outbox.begin().await?;
        let lock = work.merchant_lock(&merchants).await?;
        self.held().retain(|merchant, _| !lock.holds(*merchant));
        if lock.merchants().len() < merchants.len() {
            let unknown = merchants.into_iter().filter(|merchant| !lock.holds(*merchant));
            return Err(RecordError::UnknownMerchants(unknown.collect()));
        }
        let recorded = complete(work, &lock, settlements, &[settlements.len()]).await?;
        Ok(recorded.into_iter().next().unwrap_or_default())
    }

    fn held(&self) -> MutexGuard<'_, HashMap<MerchantId, Instant>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hold<'m>(&self, merchants: impl Iterator<Item = &'m MerchantId>) {
        let until = Instant::now() + HELD;
        self.held().extend(merchants.map(|merchant| (*merchant, until)));
    }

    fn is_held(&self, settlements: &[NewSettlement]) -> bool {
        let (mut held, now) = (self.held(), Instant::now());
        held.retain(|_, until| *until > now);
        !held.is_empty() && settlements.iter().any(|row| held.contains_key(&row.merchant_id))
    }
}

/// Whoever has gone away does not wait for the answer: what cannot be sent is let go.
fn answer(caller: oneshot::Sender<Answer>, answer: Answer) {
    let _ = caller.send(answer);
}

/// Answers those who have waited too long behind a transaction that failed. Gives the first of the others.
fn answer_behind(
    fault: &RecordError,
    left_over: Option<Job>,
    waiting: &mut mpsc::Receiver<Job>,
) -> Option<Job> {
    let mut next = left_over;
    loop {
        let job = next.take().or_else(|| waiting.try_recv().ok())?;
        if job.came_at.elapsed() <= BEHIND_FAILURE_MAX {
            return Some(job);
        }
        answer(job.answer, Err(fault.clone()));
    }
}

/// The result of a transaction, or an error if it takes too long; it is then dropped.
async fn in_time<T>(transaction: impl Future<Output = Result<T, RecordError>>) -> Result<T, RecordError> {
    let late = |_| Err(StoreError::Unavailable("the database did not answer in time".into()).into());
    timeout(CALL_TIMEOUT, transaction).await.unwrap_or_else(late)
}

/// The merchants of settlements, each once, in the order of their ids.
pub(crate) fn merchants_of(settlements: &[NewSettlement]) -> Vec<MerchantId> {
    let merchants: BTreeSet<MerchantId> =
        settlements.iter().map(|settlement| settlement.merchant_id).collect();
    merchants.into_iter().collect()
}

/// Each caller's settlements, which stand one after the other.
fn parts<'a>(
    settlements: &'a [NewSettlement],
    sizes: &'a [usize],
) -> impl Iterator<Item = &'a [NewSettlement]> {
    let mut rest = settlements;
    sizes.iter().map(move |size| {
        let (own, others) = rest.split_at(*size);
        rest = others;
        own
    })
}

/// Completes the settlements of callers, and commits.
async fn complete(
    mut work: Work,
    lock: &MerchantLock,
    settlements: &[NewSettlement],
    sizes: &[usize],
) -> Result<Vec<Recorded>, RecordError> {
    let completed = work.complete(lock, settlements).await?;
    if !completed.payments.is_empty() {
        return Err(RecordError::Payments(completed.payments));
    }
    if !completed.conflicting.is_empty() {
        return Err(RecordError::Conflicts(completed.conflicting));
    }
    if !completed.reserved.is_empty() {
        return Err(RecordError::Reserved(completed.reserved));
    }
    work.commit().await?;
    let mut new: HashSet<_> = completed.recorded.into_iter().collect();
    let recorded = parts(settlements, sizes).map(|own| {
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
