//! What the dispatcher remembers, and what each thing that happens changes in it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use settle_domain::delivery::DeliveryStatus;
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::time::Timestamp;
use settle_outbox::wake::Woken;
use settle_shards::holdings::Holdings;
use settle_shards::tenancy::{Tenancy, Told};
use settle_shards::unreadable::Unreadable;
use settle_store::{
    Ask, Claimed, Claims, DUE_LAG, DeliveryState, DueMerchant, DueTime, QueueDepth, Shard, StoreError,
    StoreResult,
};
use tokio::time::Instant;

use super::Dispatcher;
use super::attempt::{Attempts, Flight, Judged, Landing, Started};
use super::drained::Drained;
use super::due_soon::{DueSoon, Resting};
use super::lanes::{Lanes, Verdict};
use super::queue::{Outcome, RecordedOutcomes};
use super::schedule::{Call, LOOK_INTERVAL, Schedule};
use super::unrecorded::{RECORD_AT_ONCE, RECORD_LINGER, Unrecorded};
use crate::sender::count_fault;

/// How many shards further on each look begins.
const LOOK_STRIDE: usize = 13;

/// Everything that a dispatcher remembers.
pub(super) struct State {
    pub(super) parts: Dispatcher,
    pub(super) tenancy: Tenancy,
    pub(super) holdings: Arc<Holdings>,
    pub(super) schedule: Schedule,
    pub(super) attempts: Attempts,
    pub(super) lanes: Lanes,
    pub(super) unrecorded: Unrecorded,
    due_soon: DueSoon,
    resting: Resting,
    unreadable: Unreadable<DeliveryId>,
    pub(super) drained: Drained,
    /// Merchants with something due that other processes serve: these are to be woken.
    pub(super) others: BTreeSet<MerchantId>,
    /// How far looks have come round the shards.
    look_start: usize,
    pub(super) is_stopping: bool,
}

impl State {
    pub(super) fn new(parts: Dispatcher, tenancy: Tenancy) -> State {
        let now = Instant::now();
        State {
            tenancy,
            holdings: Arc::new(Holdings::none(now)),
            schedule: Schedule::new(now),
            attempts: Attempts::none(),
            lanes: Lanes::new(parts.settings.in_flight, parts.wake.claims_ended()),
            unrecorded: Unrecorded::none(now),
            due_soon: DueSoon::default(),
            resting: Resting::default(),
            unreadable: Unreadable::none("delivery", crate::metrics::show_unreadable),
            drained: Drained::default(),
            others: BTreeSet::new(),
            look_start: 0,
            is_stopping: false,
            parts,
        }
    }

    /// Whether every attempt has ended and is recorded.
    pub(super) fn has_finished(&self) -> bool {
        let is_recording = self.schedule.is_under_way(Call::Record);
        let is_recording = is_recording || self.unrecorded.apart.is_under_way();
        self.attempts.is_empty() && self.unrecorded.len() == 0 && !is_recording
    }

    /// Makes due what must not wait any longer, before the calls are made.
    pub(super) fn before_calls(&mut self) {
        self.attempts.forget_secrets();
        self.unrecorded.unlock(Instant::now());
        let at_once = RECORD_AT_ONCE.min(self.parts.settings.in_flight.total / 4).max(1);
        if self.unrecorded.waiting() >= at_once {
            self.schedule.hurry(Call::Record);
        }
    }

    /// Tells the keeper in which leaving shards nothing is under way any more. Outcomes that the database
    /// refuses keep no shard: nobody would serve it meanwhile. Whoever gets it makes these attempts again.
    pub(super) fn let_go(&mut self) {
        if self.holdings.is_leaving() {
            let holdings = &self.holdings;
            let goes = |merchant| !holdings.serves(merchant);
            for Outcome { state, .. } in self.unrecorded.apart.give_up(goes, Instant::now()) {
                self.lanes.forget(state.merchant_id, state.delivery.delivery_id);
            }
            let occupied: BTreeSet<Shard> = self.lanes.at_work().map(Shard::of).collect();
            self.tenancy.let_go(self.holdings.departures_outside(&occupied));
        }
    }

    /// Tells the keeper since when nobody is served, although the lease holds.
    pub(super) fn tell_failing(&mut self) {
        let wanted = Call::ALL.map(|call| (call.row().is_wanted)(self));
        let since = self.schedule.fails_since(|call| wanted[call as usize]);
        self.tenancy.fails_since(since);
    }

    /// When the loop must go round again for something other than a call.
    pub(super) fn next_due(&self) -> Option<Instant> {
        // Not before the call may be made: while a failing database is left alone, the loop must not spin.
        let may_record = self.schedule.due(Call::RecordApart);
        let apart = self.unrecorded.apart.first_due().map(|due| due.max(may_record));
        let unrecorded = [self.unrecorded.locked_until(), apart];
        let due = [self.due_soon.first(), self.resting.first()];
        unrecorded.into_iter().chain(due).flatten().min()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// What is due within this time, or should have been: see [`RetryPolicy::latest`].
    pub(super) fn due_within(&self, time: Duration) -> DueTime {
        let now = self.now();
        DueTime { by: now.plus(time), beyond: self.parts.settings.retry.latest(now) }
    }

    /// Whether an attempt that starts now ends while the shards are ours.
    pub(super) fn is_covered(&self) -> bool {
        self.holdings.covers(Instant::now(), self.parts.settings.timeout)
    }

    /// Somebody signals that merchants have something due, and hands over what was just committed.
    pub(super) fn wake(&mut self, woken: Woken) {
        let is_covered = self.is_covered();
        for committed in woken.committed {
            let merchant = committed.claimed.merchant_id;
            let is_served = self.holdings.serves(merchant) && !self.resting.contains(merchant);
            if !(is_covered && is_served) {
                self.wake_one(merchant);
            } else if self.lanes.take(&committed) {
                self.send(committed.claimed);
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

    /// A merchant may have something due: it gets its turn, if it is this dispatcher's to serve.
    fn serve(&mut self, merchant: MerchantId) {
        if self.holdings.serves(merchant) && !self.resting.contains(merchant) && !self.is_stopping {
            self.lanes.wake(merchant);
        }
    }

    /// The keeper of shards tells what it holds, and what it heard from other processes.
    pub(super) fn take_told(&mut self, told: Told) {
        if let Some(holdings) = told.holdings {
            self.renewed(&holdings);
        }
        for merchant in told.heard {
            self.serve(merchant);
        }
        if told.heard_of_many {
            self.schedule.hurry(Call::Look);
        }
    }

    fn renewed(&mut self, holdings: &Arc<Holdings>) {
        let has_gained = holdings.has_gained(&self.holdings);
        self.holdings = holdings.clone();
        if has_gained {
            // Draws a line: whatever was committed before it, a claim of the earlier holder may have found.
            self.lanes.take_over(self.parts.wake.claim_ended());
            self.schedule.hurry(Call::Look);
        }
        for merchant in self.lanes.hungry().filter(|merchant| !holdings.serves(*merchant)).collect::<Vec<_>>()
        {
            self.lanes.forget_due(merchant);
        }
        self.drained.retain(|merchant| holdings.serves(merchant));
        self.unreadable.keep(|merchant| holdings.serves(merchant));
        // Whoever has the shard now makes these attempts again.
        for Outcome { state, .. } in self.unrecorded.remove(|outcome| !holdings.holds(outcome.lease)) {
            self.lanes.forget(state.merchant_id, state.delivery.delivery_id);
        }
    }

    /// A time has come: merchants become due, others have rested.
    pub(super) fn time_has_come(&mut self) {
        for merchant in self.due_soon.take(Instant::now()) {
            self.serve(merchant);
        }
        self.resting.end(Instant::now());
    }

    /// The shards to look into, and the merchants that a look need not find. Each look begins elsewhere: when
    /// one finds all it may, it does not always leave out the same shards.
    pub(super) fn next_look(&mut self) -> (Vec<Shard>, Vec<MerchantId>) {
        let mut shards = self.holdings.served();
        self.look_start = self.look_start.wrapping_add(LOOK_STRIDE);
        let first = self.look_start % shards.len().max(1);
        shards.rotate_left(first);
        (shards, self.lanes.hungry().chain(self.resting.merchants()).collect())
    }

    /// A look found merchants that count as due. One that has for longer than [`DUE_LAG`] may have nothing
    /// left: it is suspected.
    pub(super) fn looked(&mut self, found: Vec<DueMerchant>) {
        // It counts as due for longer than the lag, or since a clock has stepped.
        let (late, beyond) = (self.now().minus(DUE_LAG), self.due_within(Duration::ZERO).beyond);
        for due in found {
            if due.due_at < late || due.due_at > beyond {
                self.drained.suspect(due.merchant_id);
            }
            self.note_due(due);
        }
    }

    fn note_due(&mut self, due: DueMerchant) {
        if self.due_within(Duration::ZERO).has_come(due.due_at) {
            self.serve(due.merchant_id);
        } else {
            self.due_soon.add(Instant::now() + due.due_at.since(self.now()), due.merchant_id);
        }
    }

    /// Deliveries of the given merchants that a claim must leave out: known ones, and those that rest because
    /// they cannot be read.
    pub(super) fn taken(&self, asks: &[Ask]) -> Vec<DeliveryId> {
        let asked: HashSet<MerchantId> = asks.iter().map(|ask| ask.merchant_id).collect();
        let unreadable = self.unreadable.resting().filter(|(_, merchant)| asked.contains(merchant));
        let unreadable = unreadable.map(|(delivery, _)| delivery);
        self.lanes.known_of(asks).into_iter().chain(unreadable).collect()
    }

    /// A claim found deliveries that are due.
    pub(super) fn claimed(&mut self, asks: &[Ask], claims: Claims) {
        let Claims { found, unreadable } = claims;
        self.lanes.claimed(self.parts.wake.claim_ended(), asks, &found);
        for claimed in &found {
            self.unreadable.was_read(claimed.delivery.delivery_id);
        }
        for (merchant, delivery, error) in unreadable {
            count_fault("unreadable");
            if self.unreadable.rest(merchant, delivery, &error) {
                // What stands behind it may be due as well: the next claim leaves it out.
                self.serve(merchant);
            } else {
                self.put_to_rest(merchant);
            }
        }
        self.forget_unserved(asks);
        for Ask { merchant_id, .. } in asks {
            let has_more = self.lanes.has_work(*merchant_id) || self.unreadable.is_of(*merchant_id);
            self.drained.claimed(*merchant_id, has_more);
        }
        for claimed in found {
            self.send(claimed);
        }
    }

    /// A claim failed: its merchants ask again.
    pub(super) fn not_claimed(&mut self, asks: &[Ask]) {
        self.lanes.not_claimed(asks);
        self.forget_unserved(asks);
    }

    /// While a claim was under way its merchants may have got to other hands, or to rest: they ask no more.
    fn forget_unserved(&mut self, asks: &[Ask]) {
        for Ask { merchant_id, .. } in asks {
            if !self.holdings.serves(*merchant_id) || self.resting.contains(*merchant_id) {
                self.lanes.forget_due(*merchant_id);
            }
        }
    }

    /// Starts an attempt at what a claim has found, or was handed over.
    fn send(&mut self, claimed: Claimed) {
        let (merchant, delivery) = (claimed.merchant_id, claimed.delivery.delivery_id);
        // A claim that began before its shard left may end here: the lane is at work, so the shard is not let
        // go of yet.
        let is_allowed = self.is_covered() && !self.is_stopping;
        let Some(lease) = self.holdings.lease_of(merchant).filter(|_| is_allowed) else {
            self.come_to_nothing(merchant, delivery);
            return;
        };
        let flight = Flight { lease, claimed };
        let Dispatcher { ring, transport, clock, .. } = &self.parts;
        match self.attempts.start(flight, ring, transport, clock) {
            Started::Flying => self.show_in_flight(),
            Started::EndpointGone(outcome) => self.remember(*outcome, Verdict::Unknown),
            Started::SecretClosed(fault) => {
                count_fault("secret");
                tracing::error!(%merchant, %fault, "a webhook secret cannot be opened: nothing is sent");
                self.put_to_rest(merchant);
                self.come_to_nothing(merchant, delivery);
            }
        }
    }

    /// Attempts have ended. Those that end at the same time are recorded together.
    pub(super) fn land(&mut self, landings: Vec<Landing>) {
        for landing in landings {
            let (merchant, delivery) = landing.flight.key();
            if !self.holdings.holds(landing.flight.lease) {
                tracing::info!(%merchant, %delivery, "an attempt ended after its shard was lost: it does not count");
                self.come_to_nothing(merchant, delivery);
                continue;
            }
            match landing.judge(&self.parts.settings.retry) {
                Judged::Counts(outcome, verdict) => {
                    self.resting.attempted(merchant);
                    self.remember(*outcome, verdict);
                }
                Judged::Ours(error) => {
                    count_fault(error.cause());
                    if !self.resting.contains(merchant) {
                        tracing::warn!(%merchant, %delivery, %error, "an attempt that does not count");
                    }
                    self.put_to_rest(merchant);
                    self.come_to_nothing(merchant, delivery);
                }
                Judged::Panicked => {
                    count_fault("panic");
                    tracing::error!(%merchant, %delivery, "the sender panicked: the attempt does not count");
                    self.put_to_rest(merchant);
                    self.come_to_nothing(merchant, delivery);
                }
            }
        }
    }

    /// Keeps an outcome until it is recorded, together with others that come soon.
    fn remember(&mut self, outcome: Outcome, verdict: Verdict) {
        let (merchant, delivery) = (outcome.state.merchant_id, outcome.state.delivery.delivery_id);
        self.lanes.landed(merchant, delivery, verdict);
        self.show_in_flight();
        if self.unrecorded.waiting() == 0 {
            self.schedule.put_off(Call::Record, Instant::now() + RECORD_LINGER);
        }
        self.unrecorded.push(outcome);
        if self.lanes.is_held_up(merchant) {
            self.schedule.hurry(Call::Record);
        }
    }

    /// Outcomes are recorded, or a fence has refused them for good. Those of merchants that somebody else has
    /// locked wait.
    pub(super) fn recorded(&mut self, outcomes: Vec<Outcome>, recorded: &RecordedOutcomes) {
        let now = Instant::now();
        let merchants: BTreeSet<MerchantId> =
            outcomes.iter().map(|outcome| outcome.state.merchant_id).collect();
        for merchant in merchants {
            self.unrecorded.note_locked(merchant, recorded.locked.contains(&merchant), now);
        }
        let soon = self.now().plus(LOOK_INTERVAL);
        for outcome in outcomes {
            if recorded.locked.contains(&outcome.state.merchant_id) {
                self.unrecorded.put_off(outcome, now);
                continue;
            }
            let DeliveryState { merchant_id, delivery, .. } = outcome.state;
            self.lanes.forget(merchant_id, delivery.delivery_id);
            // A look finds what is due later.
            if delivery.status == DeliveryStatus::Pending && delivery.next_attempt_at <= soon {
                self.note_due(DueMerchant { merchant_id, due_at: delivery.next_attempt_at });
            }
        }
    }

    /// The database refuses outcomes for another reason than that it is away. Those of one merchant must not
    /// keep all others from being recorded, so each merchant's are tried apart.
    pub(super) fn refused(&mut self, outcomes: Vec<Outcome>, error: &StoreError) {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        tracing::warn!(%error, cause, "outcomes cannot be recorded together: each merchant's are tried apart");
        self.unrecorded.split(outcomes, Instant::now());
    }

    /// The outcomes of one merchant are recorded, or must wait: for its lock, or because the database refuses
    /// them.
    pub(super) fn recorded_apart(&mut self, outcomes: Vec<Outcome>, recorded: StoreResult<()>) {
        let now = Instant::now();
        let Some(merchant) = outcomes.first().map(|outcome| outcome.state.merchant_id) else { return };
        match recorded {
            Ok(()) => {
                self.schedule.succeeded(Call::RecordApart);
                self.unrecorded.apart.recorded(merchant, now);
                self.recorded(outcomes, &RecordedOutcomes::default());
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                let is_refused = !matches!(error, StoreError::Unavailable(_));
                if is_refused {
                    let number = outcomes.len();
                    tracing::error!(%merchant, number, %error, cause, "a merchant's outcomes cannot be recorded");
                    metrics::counter!("settle_outcomes_refused_total").increment(1);
                    self.put_to_rest(merchant);
                } else {
                    tracing::info!(%merchant, %error, cause, "a merchant's outcomes wait");
                }
                self.unrecorded.apart.put_back(merchant, outcomes, is_refused, now);
            }
        }
    }

    /// A delivery is not in flight any more, and there is nothing to record of it.
    fn come_to_nothing(&mut self, merchant: MerchantId, delivery: DeliveryId) {
        self.lanes.landed(merchant, delivery, Verdict::Unknown);
        self.lanes.forget(merchant, delivery);
        self.show_in_flight();
    }

    /// A merchant is not served for a while, for a reason of ours.
    fn put_to_rest(&mut self, merchant: MerchantId) {
        self.resting.add(merchant, Instant::now());
        self.lanes.forget_due(merchant);
    }

    fn show_in_flight(&self) {
        metrics::gauge!("settle_deliveries_in_flight").set(count(self.lanes.in_flight()));
    }

    /// Whether this node measures the queue for all of them: the holder of the first shard does.
    pub(super) fn measures(&self) -> bool {
        self.holdings.served().contains(&Shard(0))
    }

    /// Shows how full the queue is; a node that does not measure it shows nothing waiting.
    pub(super) fn measured(&self, depth: QueueDepth) {
        let age = depth.first_due_at.map_or(0.0, |due| self.now().since(due).as_secs_f64());
        metrics::gauge!("settle_deliveries_pending").set(count(depth.pending));
        metrics::gauge!("settle_deliveries_dead").set(count(depth.dead));
        metrics::gauge!("settle_deliveries_oldest_due_seconds").set(age);
    }
}

/// A number as a metric wants it.
fn count(number: impl TryInto<u32>) -> f64 {
    f64::from(number.try_into().unwrap_or(u32::MAX))
}
