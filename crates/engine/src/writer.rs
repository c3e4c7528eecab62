//! Records new payments and advances, whatever is ready in one transaction.
//!
//! A group is whoever came while the last one was written, so a lone caller waits for nobody and many share a
//! commit. If the database refuses a group, each gets a transaction of its own: nobody pays for another. If
//! it is away, whoever is tried alone first learns it for the rest: nobody waits for others to hear the same.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::ledger::Postings;
use settle_domain::seams::Clock;
use settle_outbox::Outbox;
use settle_outbox::work::Work;
use settle_store::{
    CALL_TIMEOUT, MerchantLock, NewPayment, NewSettlement, Occurrence, OperationChange, OperationRow,
    PaymentChange, PaymentCreated, ShardLease, StepRow, StoreError, StoreResult, within,
};
use tokio::sync::{mpsc, oneshot};

use crate::advance::Advance;
use crate::wake::EngineWake;

/// Callers that wait for their turn; the next one waits until there is room.
const WAITING_MAX: usize = 1_024;
/// Payments of one transaction.
const GROUP_MAX: usize = 256;

/// What became of an advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is committed.
    Done,
    /// Somebody else has changed the payment since it was read: nothing was written.
    Stale,
    /// The shard has changed hands: nothing was written.
    Lost,
}

/// What became of one new payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Its id.
    pub payment_id: PaymentId,
    /// Whether it is new; if not, the same was there already.
    pub is_new: bool,
}

/// Why payments were not created: none of them were.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CreateError {
    /// There are no such merchants.
    #[error("there are no such merchants: {0:?}")]
    UnknownMerchants(Vec<MerchantId>),
    /// The pay-ins at these places are there already with other content.
    #[error("there already with other content: {0:?}")]
    Conflicts(Vec<usize>),
    /// Another transaction has locked one of the merchants. Trying again later may work.
    #[error("another transaction has locked the merchant")]
    Locked,
    /// The store failed.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl From<StoreError> for CreateError {
    fn from(fault: StoreError) -> CreateError {
        CreateError::Store(Arc::new(fault))
    }
}

type ToCreator = oneshot::Sender<Result<Vec<Created>, CreateError>>;
type ToWriter = oneshot::Sender<Result<Written, Arc<StoreError>>>;

enum Job {
    Create(Vec<Advance>, ToCreator),
    Write(Arc<Advance>, Option<ShardLease>, ToWriter),
}

/// Writes for many callers at once. Cheap to clone; ends when the last clone is dropped.
#[derive(Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Starts a writer. The engine of this process, if there is one, is woken for what comes in.
    #[must_use]
    pub fn start(outbox: Outbox, wake: EngineWake, clock: Arc<dyn Clock>) -> Writer {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(Worker { outbox, wake, clock }.run(waiting));
        Writer { jobs }
    }

    /// Waits until the writer has ended although somebody still needs it: it has panicked.
    pub async fn ended(&self) {
        self.jobs.closed().await;
    }

    /// Creates payments: all of them or none. Comes back when they are on the disk.
    pub async fn create(&self, received: Vec<Advance>) -> Result<Vec<Created>, CreateError> {
        let (answer, answered) = oneshot::channel();
        self.jobs.send(Job::Create(received, answer)).await.map_err(|_| ended())?;
        answered.await.unwrap_or_else(|_| Err(ended().into()))
    }

    /// Writes an advance, if the payment is as it was read and, with a lease, the shard is still ours.
    pub async fn write(
        &self,
        advance: impl Into<Arc<Advance>>,
        lease: Option<ShardLease>,
    ) -> Result<Written, Arc<StoreError>> {
        let (answer, answered) = oneshot::channel();
        let job = Job::Write(advance.into(), lease, answer);
        self.jobs.send(job).await.map_err(|_| Arc::new(ended()))?;
        answered.await.unwrap_or_else(|_| Err(Arc::new(ended())))
    }
}

fn ended() -> StoreError {
    StoreError::Unavailable("the writer has ended".into())
}

/// How long a transaction waits for merchants that another has locked.
#[derive(Debug, Clone, Copy)]
enum LockBy {
    /// Until it is its turn.
    Turn,
    /// A moment.
    Moment,
}

struct Worker {
    outbox: Outbox,
    wake: EngineWake,
    clock: Arc<dyn Clock>,
}

impl Worker {
    async fn run(self, mut waiting: mpsc::Receiver<Job>) {
        let mut group = Vec::new();
        while waiting.recv_many(&mut group, GROUP_MAX).await > 0 {
            let (mut creates, mut writes) = (Vec::new(), Vec::new());
            for job in group.drain(..) {
                match job {
                    Job::Create(received, answer) => creates.push((received, answer)),
                    Job::Write(advance, lease, answer) => writes.push((advance, lease, answer)),
                }
            }
            self.create_group(creates).await;
            self.write_group(writes).await;
        }
    }

    async fn create_group(&self, group: Vec<(Vec<Advance>, ToCreator)>) {
        if group.is_empty() {
            return;
        }
        let (jobs, answers): (Vec<Vec<Advance>>, Vec<_>) = group.into_iter().unzip();
        let all: Vec<&Advance> = jobs.iter().flatten().collect();
        let mut created = self.create_in_time(&all, LockBy::Turn).await;
        if jobs.len() == 1 {
            for answer in answers {
                let _ = answer.send(std::mem::replace(&mut created, Ok(Vec::new())));
            }
            return;
        }
        match created {
            Ok(created) => {
                let mut created = created.into_iter();
                for (job, answer) in jobs.iter().zip(answers) {
                    let _ = answer.send(Ok(created.by_ref().take(job.len()).collect()));
                }
            }
            Err(_) => self.create_each(&jobs, answers).await,
        }
    }

    /// A transaction for each, one after the other. A merchant that is locked is waited for a moment only,
    /// and once.
    async fn create_each(&self, jobs: &[Vec<Advance>], answers: Vec<ToCreator>) {
        let (mut away, mut locked) = (None, HashSet::new());
        for (job, answer) in jobs.iter().zip(answers) {
            let own: Vec<&Advance> = job.iter().collect();
            let merchants = merchants_of(&own);
            let created = match &away {
                Some(fault) => Err(CreateError::Store(Arc::clone(fault))),
                None if merchants.iter().any(|merchant| locked.contains(merchant)) => {
                    Err(CreateError::Locked)
                }
                None => self.create_in_time(&own, LockBy::Moment).await,
            };
            match &created {
                Err(CreateError::Store(fault)) if matches!(**fault, StoreError::Unavailable(_)) => {
                    away = Some(Arc::clone(fault));
                }
                // Of several nobody knows which one it is.
                Err(CreateError::Locked) if merchants.len() == 1 => locked.extend(merchants),
                _ => {}
            }
            let _ = answer.send(created);
        }
    }

    /// The result of [`Worker::create`], or an error if it takes too long; it is then dropped.
    async fn create_in_time(
        &self,
        received: &[&Advance],
        lock_by: LockBy,
    ) -> Result<Vec<Created>, CreateError> {
        let late = |_| Err(StoreError::Unavailable("the database did not answer in time".into()).into());
        tokio::time::timeout(CALL_TIMEOUT, self.create(received, lock_by)).await.unwrap_or_else(late)
    }

    /// One transaction for all of these, or an error and nothing.
    async fn create(&self, received: &[&Advance], lock_by: LockBy) -> Result<Vec<Created>, CreateError> {
        let merchants = merchants_of(received);
        let mut work = self.outbox.begin().await?;
        let lock = match lock_by {
            LockBy::Turn => work.merchant_lock(&merchants).await?,
            LockBy::Moment => work.merchant_lock_soon(&merchants).await?.ok_or(CreateError::Locked)?,
        };
        if lock.merchants().len() < merchants.len() {
            let unknown = merchants.into_iter().filter(|merchant| !lock.holds(*merchant));
            return Err(CreateError::UnknownMerchants(unknown.collect()));
        }
        let new: Vec<NewPayment> = received.iter().map(|advance| advance.case.new_payment()).collect();
        let created = work.payment_create_many(&lock, &new).await?;
        let conflicts =
            created.iter().enumerate().filter(|(_, created)| **created == PaymentCreated::Conflict);
        let conflicts: Vec<usize> = conflicts.map(|(place, _)| place).collect();
        if !conflicts.is_empty() {
            return Err(CreateError::Conflicts(conflicts));
        }
        let mut batch = Batch::default();
        let mut likely_doubles = Vec::new();
        for (advance, created) in received.iter().zip(&created) {
            match created {
                PaymentCreated::New => batch.add(advance),
                PaymentCreated::NewAlike(other) => {
                    let told = advance
                        .received_alike(*other)
                        .map_err(|stuck| StoreError::unexpected(stuck.to_string()))?;
                    batch.add(&told);
                    likely_doubles.push(told);
                }
                PaymentCreated::Same | PaymentCreated::Conflict => {}
            }
        }
        let woken: BTreeSet<MerchantId> = batch.steps.iter().map(|step| step.merchant_id).collect();
        batch.write(&mut work, &lock, self.clock.now()).await?;
        work.commit().await?;
        self.wake.merchants(woken);
        likely_doubles.iter().for_each(Advance::report);
        let ids = new
            .iter()
            .zip(&created)
            .map(|(new, created)| Created { payment_id: new.row.payment_id, is_new: created.is_new() });
        Ok(ids.collect())
    }

    async fn write_group(&self, group: Vec<(Arc<Advance>, Option<ShardLease>, ToWriter)>) {
        if group.is_empty() {
            return;
        }
        let mut jobs = Vec::with_capacity(group.len());
        let mut answers = Vec::with_capacity(group.len());
        for (advance, lease, answer) in group {
            jobs.push((advance, lease));
            answers.push(answer);
        }
        match within(CALL_TIMEOUT, self.write(&jobs)).await {
            Ok(fates) => {
                // Whoever waits has the last hold on its advance then, and goes on with it as it is.
                drop(jobs);
                for (fate, answer) in fates.into_iter().zip(answers) {
                    let _ = answer.send(fate.written());
                }
            }
            Err(fault) if jobs.len() == 1 || matches!(fault, StoreError::Unavailable(_)) => {
                let fault = Arc::new(fault);
                for answer in answers {
                    let _ = answer.send(Err(fault.clone()));
                }
            }
            Err(_) => {
                for (job, answer) in jobs.into_iter().zip(answers) {
                    let written = within(CALL_TIMEOUT, self.write(std::slice::from_ref(&job))).await;
                    let _ = answer.send(match written.map(|fates| fates.into_iter().next()) {
                        Ok(Some(fate)) => fate.written(),
                        Ok(None) => Ok(Written::Stale),
                        Err(fault) => Err(Arc::new(fault)),
                    });
                }
            }
        }
    }

    /// One transaction for all of these. Gives the fate of each.
    async fn write(&self, jobs: &[(Arc<Advance>, Option<ShardLease>)]) -> StoreResult<Vec<Fate>> {
        let advances: Vec<&Advance> = jobs.iter().map(|(advance, _)| &**advance).collect();
        let merchants = merchants_of(&advances);
        let mut leases: Vec<ShardLease> = jobs.iter().filter_map(|(_, lease)| *lease).collect();
        leases.sort_by_key(|lease| (lease.shard, lease.token.0));
        leases.dedup();
        let mut work = self.outbox.begin().await?;
        // A lock that must be waited for comes before the fence, which keeps the shard from changing hands.
        // Whoever is locked for longer than a moment holds up nobody else.
        let lock = if let Some(lock) = work.merchant_lock_soon(&merchants).await? {
            lock
        } else {
            work = self.outbox.begin().await?;
            work.merchant_lock_free(&merchants).await?
        };
        let held: HashSet<ShardLease> = work.queue_fence(&leases).await?.into_iter().collect();
        let is_locked = |advance: &Advance| !lock.holds(advance.case.merchant_id());
        let is_held = |lease: &Option<ShardLease>| lease.is_none_or(|lease| held.contains(&lease));
        let fenced = jobs.iter().filter(|(advance, lease)| !is_locked(advance) && is_held(lease));
        let fenced: Vec<&Advance> = fenced.map(|(advance, _)| &**advance).collect();
        let changes: Vec<PaymentChange> = fenced.iter().map(|advance| advance.change()).collect();
        let written = work.payment_change_many(&lock, &changes).await?;
        let mut batch = Batch::default();
        for (advance, _) in fenced.iter().zip(&written).filter(|(_, written)| **written) {
            batch.add(advance);
        }
        batch.write(&mut work, &lock, self.clock.now()).await?;
        work.commit().await?;
        let mut written = written.into_iter();
        let fate = |(advance, lease): &(Arc<Advance>, Option<ShardLease>)| {
            if is_locked(advance) {
                Fate::Locked
            } else if !is_held(lease) {
                Fate::Lost
            } else if written.next() == Some(true) {
                Fate::Done
            } else {
                Fate::Stale
            }
        };
        Ok(jobs.iter().map(fate).collect())
    }
}

/// What a group's transaction made of an advance.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Done,
    Stale,
    Lost,
    /// Another transaction has locked the merchant.
    Locked,
}

impl Fate {
    fn written(self) -> Result<Written, Arc<StoreError>> {
        match self {
            Fate::Done => Ok(Written::Done),
            Fate::Stale => Ok(Written::Stale),
            Fate::Lost => Ok(Written::Lost),
            Fate::Locked => Err(Arc::new(StoreError::Unavailable("the merchant is locked".into()))),
        }
    }
}

/// Everything but the payments' rows that a transaction writes: a statement for each kind.
#[derive(Default)]
struct Batch {
    steps: Vec<StepRow>,
    postings: Vec<(MerchantId, Postings)>,
    prepared: Vec<OperationRow>,
    learnt: Vec<OperationChange>,
    pricing: Vec<(MerchantId, PaymentId, String)>,
    settlements: Vec<NewSettlement>,
    notices: Vec<Occurrence>,
}

impl Batch {
    fn add(&mut self, advance: &Advance) {
        let (merchant, payment) = (advance.case.merchant_id(), advance.case.payment.payment_id);
        self.steps.extend_from_slice(advance.steps());
        self.postings.extend(advance.postings().iter().map(|postings| (merchant, postings.clone())));
        self.prepared.extend(advance.prepared());
        self.learnt.extend(advance.learnt());
        self.pricing.extend(advance.pricing().map(|pricing| (merchant, payment, pricing)));
        self.settlements.extend(advance.settlement().cloned());
        self.notices.extend(advance.notices());
    }

    async fn write(
        self,
        work: &mut Work,
        lock: &MerchantLock,
        now: settle_domain::time::Timestamp,
    ) -> StoreResult<()> {
        // What was learnt first: an operation that has ended makes room for the next.
        if !self.learnt.is_empty() {
            work.operation_change_many(lock, &self.learnt, now).await?;
        }
        if !self.prepared.is_empty() {
            work.operation_prepare_many(lock, &self.prepared, now).await?;
        }
        if !self.steps.is_empty() {
            work.payment_step_many(lock, &self.steps).await?;
            work.balance_post_many(lock, &self.postings).await?;
        }
        if !self.pricing.is_empty() {
            work.payment_price_many(lock, &self.pricing).await?;
        }
        if !self.settlements.is_empty() {
            let completed = work.complete(lock, &self.settlements).await?;
            if !completed.conflicting.is_empty() {
                let known = format!("settlements are there already: {:?}", completed.conflicting);
                return Err(StoreError::unexpected(known));
            }
            if !completed.reserved.is_empty() {
                // An import under way has staged them with other content: it is accepted or discarded soon.
                return Err(StoreError::Unavailable("an import has staged these settlements".into()));
            }
        }
        work.tell(lock, &self.notices).await
    }
}

/// The merchants of advances, each once, in the order of their ids.
fn merchants_of(advances: &[&Advance]) -> Vec<MerchantId> {
    let merchants: BTreeSet<MerchantId> = advances.iter().map(|advance| advance.case.merchant_id()).collect();
    merchants.into_iter().collect()
}
