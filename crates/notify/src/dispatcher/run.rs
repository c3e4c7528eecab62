//! The loop: what has happened changes the books, and the books say what to start next.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::time::Duration;

use settle_domain::ids::{DispatcherId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::{
    Ask, Claimed, DueMerchant, Leases, Presence, QueueDepth, Shard, ShardLease, StoreError, StoreResult,
};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::attempt::{Landing, Secrets};
use super::holdings::Holdings;
use super::lanes::Lanes;
use super::ledger::{Outcome, RecordedOutcomes};
use super::{Dispatcher, RENEW_INTERVAL};
use crate::wake::Woken;

mod reports;

/// How often is looked for what nobody has told of: retries, and what another process has enqueued.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// When is looked again after a look that has found all it can: what it found is served meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often the queue is measured for the metrics.
const MEASURE_INTERVAL: Duration = Duration::from_secs(5);
/// Merchants found in one look, and shards from the beginning of one look to that of the next.
const MERCHANTS_FOUND_MAX: u32 = 4_096;
const LOOK_STRIDE: usize = 13;
/// Outcomes recorded in one transaction.
const OUTCOMES_RECORDED_MAX: usize = 1_000;
/// How long an outcome may wait for others to be recorded with it, and how many are recorded at once: fewer
/// where they would take more than a quarter of the places until then.
const RECORD_LINGER: Duration = Duration::from_millis(50);
const RECORD_AT_ONCE: usize = 256;
/// How long a database may take to answer: longer than it lets a statement wait for a lock.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// How long outcomes of a merchant wait that somebody else is changing.
const BUSY_WAIT: Duration = Duration::from_millis(100);
/// How long shards that leave are kept, so that what is in flight in them lands: given back at once, those
/// without work would go to whoever asks first, and all the work to the next.
const RELEASE_WAIT: Duration = Duration::from_millis(200);
/// How long nothing is asked of a database that has failed, at first and at most.
const BACKOFF_FIRST: Duration = Duration::from_millis(100);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How long a merchant rests whose deliveries cannot be attempted for a reason of ours.
const REST: Duration = Duration::from_mins(1);

/// What a call to the database gave.
enum Report {
    Present(StoreResult<Option<Box<dyn Presence>>>),
    Heard(Box<dyn Presence>, StoreResult<Vec<MerchantId>>),
    Leased(Instant, StoreResult<Leases>),
    Released(Vec<ShardLease>, StoreResult<()>),
    Looked(StoreResult<Vec<DueMerchant>>),
    Claimed(Vec<Ask>, StoreResult<Vec<Claimed>>),
    Recorded(Vec<Outcome>, StoreResult<RecordedOutcomes>),
    Measured(StoreResult<QueueDepth>),
    Told(StoreResult<()>),
    Refreshed(StoreResult<()>),
}

/// What a call gave. A panic in it is one of the dispatcher.
async fn reported(report: Result<Report, JoinError>) -> Report {
    match report.map_err(JoinError::try_into_panic) {
        Ok(report) => report,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime shuts down, and this task is next.
        Err(Err(_)) => std::future::pending().await,
    }
}

/// Calls of which one is under way at most, and when the next is due.
struct Call {
    running: bool,
    due: Instant,
}

impl Call {
    fn is_due(&self, now: Instant) -> bool {
        !self.running && self.due <= now
    }

    fn ended(&mut self, next: Instant) {
        self.running = false;
        self.due = next;
    }
}

pub(super) struct Run {
    parts: Dispatcher,
    id: DispatcherId,
    /// Each in a task of its own: a store may take the thread for as long as it waits for the disk.
    calls: JoinSet<Report>,
    attempts: JoinSet<Landing>,
    lanes: Lanes,
    holdings: Holdings,
    secrets: Secrets,
    /// Merchants that become due soon.
    timers: BTreeSet<(Timestamp, MerchantId)>,
    /// Merchants that rest.
    resting: HashMap<MerchantId, Instant>,
    /// What is to be recorded.
    outcomes: Vec<Outcome>,
    /// What is to be recorded later, because somebody else is changing the merchant.
    busy: Vec<Outcome>,
    busy_until: Instant,
    /// Merchants of other dispatchers that have something due.
    others: BTreeSet<MerchantId>,
    /// Merchants that have counted as due for so long that there may be nothing left.
    suspects: BTreeSet<MerchantId>,
    /// Merchants that count as due and have nothing left.
    idle: BTreeSet<MerchantId>,
    present: Call,
    is_present: bool,
    lease: Call,
    release: Call,
    look: Call,
    looks: usize,
    claim: Call,
    record: Call,
    measure: Call,
    tell: Call,
    refresh: Call,
    failures: u32,
    stopping: bool,
}

impl Run {
    pub(super) fn new(parts: Dispatcher) -> Run {
        let now = Instant::now();
        let call = || Call { running: false, due: now };
        Run {
            id: DispatcherId::new(parts.clock.now(), &*parts.entropy),
            calls: JoinSet::new(),
            attempts: JoinSet::new(),
            lanes: Lanes::new(parts.settings.in_flight, parts.wake.claims_ended()),
            holdings: Holdings::none(now),
            secrets: Secrets::default(),
            timers: BTreeSet::new(),
            resting: HashMap::new(),
            outcomes: Vec::new(),
            busy: Vec::new(),
            busy_until: now,
            others: BTreeSet::new(),
            suspects: BTreeSet::new(),
            idle: BTreeSet::new(),
            present: call(),
            is_present: false,
            lease: call(),
            release: call(),
            look: call(),
            looks: 0,
            claim: call(),
            record: call(),
            measure: call(),
            tell: call(),
            refresh: call(),
            failures: 0,
            stopping: false,
            parts,
        }
    }

    pub(super) async fn run(mut self, stop: impl Future<Output = ()> + Send) {
        let mut stop = Box::pin(stop);
        loop {
            self.start();
            let (wake, next_due) = (self.parts.wake.clone(), self.next_due());
            tokio::select! {
                // In this order, so that a simulation takes the same way every time. None of them is ready
                // without end: what is behind gets its turn.
                biased;
                () = &mut stop => break,
                woken = wake.woken() => self.wake(woken),
                () = sleep_until(next_due) => self.ring(),
                Some(report) = self.calls.join_next() => self.take(reported(report).await),
                Some(landed) = self.attempts.join_next() => self.land_all(landed.ok()),
            }
        }
        self.finish().await;
    }

    /// Attempts under way end and are recorded, then the shards are given back.
    async fn finish(&mut self) {
        self.stopping = true;
        let deadline = Instant::now() + self.parts.settings.shutdown_timeout;
        let ended = timeout_at(deadline, async {
            while !(self.attempts.is_empty() && self.unrecorded() == 0 && !self.record.running) {
                self.start();
                let next_due = self.next_due();
                tokio::select! {
                    biased;
                    () = sleep_until(next_due) => self.ring(),
                    Some(report) = self.calls.join_next() => self.take(reported(report).await),
                    Some(landed) = self.attempts.join_next() => self.land_all(landed.ok()),
                }
            }
        });
        if ended.await.is_err() {
            let (in_flight, unrecorded) = (self.lanes.in_flight(), self.unrecorded());
            tracing::warn!(in_flight, unrecorded, "stopped before every attempt had ended and was recorded");
            self.attempts.abort_all();
        }
        let leases = self.holdings.all();
        let ledger = self.parts.ledger.clone();
        let release = async {
            // A call that nobody waits for any more may hold what the release wants.
            self.calls.shutdown().await;
            if leases.is_empty() { Ok(()) } else { ledger.release(&leases).await }
        };
        let released = timeout_at(Instant::now() + BACKOFF_MAX, release).await;
        let fault = match released {
            Ok(Ok(())) => return,
            Ok(Err(fault)) => fault,
            Err(_) => StoreError::Unavailable("it does not answer in time".into()),
        };
        tracing::warn!(%fault, "shards were not given back: they are free when the lease ends");
    }

    /// Starts every call that is due.
    fn start(&mut self) {
        let now = Instant::now();
        let ledger = self.parts.ledger.clone();
        if !self.is_present && self.present.is_due(now) {
            self.present.running = true;
            let id = self.id;
            self.call({
                let ledger = ledger.clone();
                async move { Report::Present(within(ledger.presence(id)).await) }
            });
        }
        if self.is_present && self.lease.is_due(now) {
            self.lease.running = true;
            let (id, lease, ledger) = (self.id, self.parts.settings.lease, ledger.clone());
            self.call(async move { Report::Leased(now, within(ledger.lease(id, lease)).await) });
        }
        if self.busy_until <= now {
            self.outcomes.append(&mut self.busy);
        }
        let at_once = RECORD_AT_ONCE.min(self.parts.settings.in_flight.total / 4).max(1);
        if self.outcomes.len() >= at_once {
            self.record_at_once(now);
        }
        if !self.outcomes.is_empty() && self.record.is_due(now) {
            self.record.running = true;
            let number = self.outcomes.len().min(OUTCOMES_RECORDED_MAX);
            let outcomes: Vec<Outcome> = self.outcomes.drain(..number).collect();
            let (at, ledger) = (self.parts.clock.now(), ledger.clone());
            self.call(async move {
                let recorded = within(ledger.record(&outcomes, at)).await;
                Report::Recorded(outcomes, recorded)
            });
        }
        if !self.others.is_empty() && self.tell.is_due(now) {
            self.tell.running = true;
            let merchants: Vec<MerchantId> = std::mem::take(&mut self.others).into_iter().collect();
            self.call({
                let ledger = ledger.clone();
                async move { Report::Told(within(ledger.wake_others(&merchants)).await) }
            });
        }
        if !self.stopping {
            self.start_serving(now);
        }
    }

    /// Starts what leads to new attempts.
    fn start_serving(&mut self, now: Instant) {
        let ledger = self.parts.ledger.clone();
        let mut shards = if self.look.is_due(now) { self.holdings.served() } else { Vec::new() };
        if !shards.is_empty() {
            self.look.running = true;
            // Each look begins elsewhere: when one finds all it can, the last shards are not always left out.
            self.looks = self.looks.wrapping_add(LOOK_STRIDE);
            let first = self.looks % shards.len();
            shards.rotate_left(first);
            let until = self.parts.clock.now().plus(LOOK_INTERVAL);
            let resting = self.resting.keys().copied();
            let known: Vec<MerchantId> = self.lanes.hungry().chain(resting).collect();
            let ledger = ledger.clone();
            self.call(async move {
                Report::Looked(within(ledger.due(&shards, until, &known, MERCHANTS_FOUND_MAX)).await)
            });
        }
        if self.claim.is_due(now) && self.holdings.covers(now, self.parts.settings.timeout) {
            let asks = self.lanes.asks();
            if !asks.is_empty() {
                self.claim.running = true;
                let taken = self.lanes.taken_of(&asks);
                let (at, ledger) = (self.parts.clock.now(), ledger.clone());
                self.call(async move {
                    let found = within(ledger.claim(&asks, &taken, at)).await;
                    Report::Claimed(asks, found)
                });
            }
        }
        if self.release.is_due(now) && self.holdings.is_leaving() {
            let busy: BTreeSet<Shard> = self.lanes.busy().map(Shard::of).collect();
            let leases = self.holdings.to_release(&busy);
            if !leases.is_empty() {
                self.release.running = true;
                let ledger = ledger.clone();
                self.call(async move {
                    let released = within(ledger.release(&leases)).await;
                    Report::Released(leases, released)
                });
            }
        }
        if !self.idle.is_empty() && self.refresh.is_due(now) {
            self.refresh.running = true;
            let merchants: Vec<MerchantId> = std::mem::take(&mut self.idle).into_iter().collect();
            let (at, ledger) = (self.parts.clock.now(), ledger.clone());
            self.call(async move { Report::Refreshed(within(ledger.refresh(&merchants, at)).await) });
        }
        if self.measure.is_due(now) {
            self.measure.running = true;
            self.call(async move { Report::Measured(within(ledger.depth()).await) });
        }
    }

    /// Outcomes do not wait for others; but they do for a database that has failed.
    fn record_at_once(&mut self, now: Instant) {
        if self.failures == 0 {
            self.record.due = now;
        }
    }

    /// Outcomes that wait to be recorded, now or later.
    fn unrecorded(&self) -> usize {
        self.outcomes.len() + self.busy.len()
    }

    fn call(&mut self, call: impl Future<Output = Report> + Send + 'static) {
        self.calls.spawn(call);
    }

    /// When there is something to do even if nothing happens.
    fn next_due(&self) -> Instant {
        let calls = [
            (!self.is_present, &self.present),
            (self.is_present, &self.lease),
            (!self.outcomes.is_empty(), &self.record),
            (!self.others.is_empty(), &self.tell),
            (!self.idle.is_empty() && !self.stopping, &self.refresh),
            (!self.stopping && self.holdings.serves_any(), &self.look),
            (!self.stopping, &self.measure),
            (!self.stopping && self.claim.due > Instant::now(), &self.claim),
            (self.holdings.is_leaving() && self.release.due > Instant::now(), &self.release),
        ];
        let due =
            calls.into_iter().filter(|(wanted, call)| *wanted && !call.running).map(|(_, call)| call.due);
        let busy = (!self.busy.is_empty()).then_some(self.busy_until);
        let timer = self.timers.first().map(|(at, _)| self.instant(*at));
        let rest = self.resting.values().copied().min();
        let latest = Instant::now() + LOOK_INTERVAL;
        due.chain(busy).chain(timer).chain(rest).min().unwrap_or(latest).min(latest)
    }

    fn instant(&self, at: Timestamp) -> Instant {
        Instant::now() + at.since(self.parts.clock.now())
    }

    /// Wakes whom a timer was set for.
    fn ring(&mut self) {
        let now = self.parts.clock.now();
        while let Some(first) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&first);
            self.serve(first.1);
        }
        let rested = Instant::now();
        self.resting.retain(|_, until| *until > rested);
    }

    /// Merchants have something due, somebody says.
    fn wake(&mut self, woken: Woken) {
        let covered = self.holdings.covers(Instant::now(), self.parts.settings.timeout);
        for fresh in woken.fresh {
            let merchant = fresh.claimed.merchant_id;
            let is_served = self.holdings.serves(merchant) && !self.resting.contains_key(&merchant);
            if !(covered && is_served) {
                self.wake_one(merchant);
            } else if self.lanes.take(&fresh) {
                self.send(fresh.claimed);
            }
        }
        for merchant in woken.merchants {
            self.wake_one(merchant);
        }
    }

    fn wake_one(&mut self, merchant: MerchantId) {
        if self.holdings.serves(merchant) {
            self.serve(merchant);
        } else {
            self.others.insert(merchant);
        }
    }

    fn serve(&mut self, merchant: MerchantId) {
        if self.holdings.serves(merchant) && !self.resting.contains_key(&merchant) && !self.stopping {
            self.lanes.wake(merchant);
        }
    }
}

/// An answer of the database, or the fault that there was none in time.
async fn within<T>(call: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
    let late = |_| Err(StoreError::Unavailable("the database did not answer in time".into()));
    timeout(CALL_TIMEOUT, call).await.unwrap_or_else(late)
}
