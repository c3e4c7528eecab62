//! What has happened, and what it changes in the books.

use std::time::Duration;

use settle_domain::delivery::{DeliveryEvent, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::{
    Ask, Claimed, DUE_LAG, DeliveryState, DueMerchant, Leases, Presence, QueueDepth, StoreResult,
};
use tokio::time::Instant;

use super::super::attempt::{self, Flight, Landing};
use super::super::lanes::Verdict;
use super::super::ledger::{Outcome, RecordedOutcomes};
use super::{
    BACKOFF_FIRST, BACKOFF_MAX, BUSY_WAIT, LOOK_AGAIN, LOOK_INTERVAL, MEASURE_INTERVAL, MERCHANTS_FOUND_MAX,
    RECORD_LINGER, RELEASE_WAIT, RENEW_INTERVAL, REST, Report, Run,
};

impl Run {
    /// Takes note of what a call gave.
    pub(super) fn take(&mut self, report: Report) {
        let now = Instant::now();
        match report {
            Report::Present(given) => {
                let given = self.checked(given, "to appear");
                self.present.ended(now + RENEW_INTERVAL);
                match given {
                    Some(Some(presence)) => {
                        self.is_present = true;
                        self.lease.due = now;
                        self.listen(presence);
                    }
                    Some(None) => tracing::debug!("another process sends: this one stands by"),
                    None => {}
                }
            }
            Report::Heard(presence, heard) => self.heard(presence, heard),
            Report::Leased(asked_at, leases) => {
                self.lease.ended(now + RENEW_INTERVAL);
                if let Some(leases) = self.checked(leases, "to renew the lease") {
                    self.renewed(&leases, asked_at);
                }
            }
            Report::Released(leases, released) => {
                self.release.ended(now);
                if self.checked(released, "to give shards back").is_some() {
                    self.holdings.released(&leases);
                }
            }
            Report::Looked(found) => {
                self.look.ended(now + LOOK_INTERVAL);
                let found = self.checked(found, "to look for what is due").unwrap_or_default();
                if found.len() >= MERCHANTS_FOUND_MAX as usize {
                    self.look.due = now + LOOK_AGAIN;
                }
                self.looked(found);
            }
            Report::Claimed(asks, found) => {
                self.claim.ended(now);
                match self.checked(found, "to claim") {
                    Some(found) => self.claimed(&asks, found),
                    None => self.lanes.not_claimed(&asks),
                }
            }
            Report::Recorded(outcomes, recorded) => {
                self.record.ended(now + RECORD_LINGER);
                match self.checked(recorded, "to record outcomes") {
                    Some(recorded) => self.recorded(outcomes, &recorded),
                    // A fault of ours: what was found out is not lost, and recorded as soon as it can be.
                    None => self.outcomes.splice(..0, outcomes).for_each(drop),
                }
            }
            Report::Measured(depth) => {
                self.measure.ended(now + MEASURE_INTERVAL);
                if let Some(depth) = self.checked(depth, "to measure the queue") {
                    self.measured(depth);
                }
            }
            Report::Told(told) => {
                self.tell.ended(now);
                self.checked(told, "to wake other dispatchers");
            }
            // Whoever still counts as due is found by the next look.
            Report::Refreshed(refreshed) => {
                self.refresh.ended(now);
                self.checked(refreshed, "to refresh when merchants are due");
            }
        }
    }

    /// What a call gave. A failure is told to the log, and everything that is asked of the database waits.
    fn checked<T>(&mut self, result: StoreResult<T>, what: &'static str) -> Option<T> {
        match result {
            Ok(value) => {
                self.failures = 0;
                Some(value)
            }
            Err(fault) => {
                let backoff =
                    BACKOFF_FIRST.saturating_mul(2u32.saturating_pow(self.failures)).min(BACKOFF_MAX);
                self.failures = self.failures.saturating_add(1);
                let cause = std::error::Error::source(&fault).map(ToString::to_string);
                tracing::warn!(%fault, cause, ?backoff, "the dispatcher failed {what}");
                let until = Instant::now() + backoff;
                let calls = [&mut self.claim, &mut self.record, &mut self.look, &mut self.tell];
                for call in calls.into_iter().chain([&mut self.release, &mut self.refresh]) {
                    call.due = call.due.max(until);
                }
                None
            }
        }
    }

    fn listen(&mut self, mut presence: Box<dyn Presence>) {
        self.call(async move {
            let heard = presence.woken().await;
            Report::Heard(presence, heard)
        });
    }

    fn heard(&mut self, presence: Box<dyn Presence>, heard: StoreResult<Vec<MerchantId>>) {
        match heard {
            Ok(merchants) if merchants.is_empty() => {
                self.look.due = Instant::now();
                self.listen(presence);
            }
            Ok(merchants) => {
                for merchant in merchants {
                    self.serve(merchant);
                }
                self.listen(presence);
            }
            Err(fault) => {
                drop(presence);
                self.is_present = false;
                self.checked::<()>(Err(fault), "to stay present");
            }
        }
    }

    fn renewed(&mut self, leases: &Leases, asked_at: Instant) {
        let was_leaving = self.holdings.is_leaving();
        let gained = self.holdings.renew(leases, asked_at, self.parts.settings.lease);
        if self.holdings.is_leaving() && !was_leaving {
            self.release.due = self.release.due.max(Instant::now() + RELEASE_WAIT);
        }
        if gained {
            tracing::info!(shards = leases.held.len(), share = leases.share, "shards are served");
            self.lanes.take_over(self.parts.wake.claim_ended());
            self.look.due = Instant::now();
        }
        let holdings = &self.holdings;
        self.lanes.rest(|merchant| !holdings.serves(merchant));
        self.suspects.retain(|merchant| holdings.serves(*merchant));
        // Whoever has the shard now makes these attempts again.
        for outcomes in [&mut self.outcomes, &mut self.busy] {
            for Outcome { state, .. } in outcomes.extract_if(.., |outcome| !holdings.holds(outcome.lease)) {
                self.lanes.recorded(state.merchant_id, state.delivery.delivery_id);
            }
        }
    }

    /// Merchants count as due. Of one that has for long it may only look so.
    fn looked(&mut self, found: Vec<DueMerchant>) {
        let late = self.parts.clock.now().minus(DUE_LAG);
        for due in found {
            if due.due_at < late {
                self.suspects.insert(due.merchant_id);
            }
            self.due(due);
        }
    }

    fn claimed(&mut self, asks: &[Ask], found: Vec<Claimed>) {
        self.lanes.claimed(self.parts.wake.claim_ended(), asks, &found);
        for Ask { merchant_id, .. } in asks {
            if self.suspects.remove(merchant_id) && !self.lanes.is_busy(*merchant_id) {
                self.idle.insert(*merchant_id);
            }
        }
        for claimed in found {
            self.send(claimed);
        }
    }

    fn due(&mut self, due: DueMerchant) {
        if due.due_at <= self.parts.clock.now() {
            self.serve(due.merchant_id);
        } else {
            self.timers.insert((due.due_at, due.merchant_id));
        }
    }

    /// Starts an attempt at what was claimed.
    pub(super) fn send(&mut self, claimed: Claimed) {
        let (merchant, delivery) = (claimed.merchant_id, claimed.delivery.delivery_id);
        let lease = self.holdings.lease_of(merchant);
        let covered = self.holdings.covers(Instant::now(), self.parts.settings.timeout);
        let Some(lease) = lease.filter(|_| covered && !self.stopping) else {
            self.come_to_nothing(merchant, delivery);
            return;
        };
        let flight = Flight { lease, claimed };
        let Some(sealed) = flight.claimed.secret.clone() else {
            let now = self.parts.clock.now();
            let gone = DeliveryEvent::EndpointGone;
            let (outcome, verdict) = attempt::judge(flight, gone, now, &self.parts.settings.retry);
            self.remember(outcome, verdict);
            return;
        };
        match self.secrets.open(&self.parts.ring, merchant, sealed) {
            Ok(secret) => {
                let (transport, clock) = (self.parts.transport.clone(), self.parts.clock.clone());
                self.attempts.spawn(attempt::fly(flight, secret, transport, clock));
                metrics::gauge!("settle_deliveries_in_flight").set(count(self.lanes.in_flight()));
            }
            Err(fault) => {
                tracing::error!(%merchant, %fault, "a webhook secret cannot be opened: nothing is sent");
                self.put_to_rest(merchant);
                self.come_to_nothing(merchant, delivery);
            }
        }
    }

    fn put_to_rest(&mut self, merchant: MerchantId) {
        self.resting.insert(merchant, Instant::now() + REST);
        self.lanes.rest(|resting| resting == merchant);
    }

    /// Attempts have ended; those that end at the same time are recorded together.
    pub(super) fn land_all(&mut self, first: Option<Landing>) {
        if let Some(landing) = first {
            self.land(landing);
        }
        while let Some(Ok(landing)) = self.attempts.try_join_next() {
            self.land(landing);
        }
    }

    /// An attempt has ended.
    fn land(&mut self, landing: Landing) {
        let Landing { flight, attempt, at, took } = landing;
        let (merchant, delivery) = (flight.claimed.merchant_id, flight.claimed.delivery.delivery_id);
        if !self.holdings.holds(flight.lease) {
            tracing::info!(%merchant, %delivery, "an attempt ended after its shard was lost: it does not count");
            self.come_to_nothing(merchant, delivery);
            return;
        }
        let Some(attempt) = attempt else {
            tracing::error!(%merchant, %delivery, "the sender panicked: the attempt does not count");
            self.put_to_rest(merchant);
            self.come_to_nothing(merchant, delivery);
            return;
        };
        let class = attempt.fault.as_ref().map_or("delivered", |fault| fault.class());
        metrics::counter!("settle_delivery_attempts_total", "outcome" => class).increment(1);
        metrics::histogram!("settle_delivery_attempt_duration_seconds").record(took.as_secs_f64());
        let (outcome, verdict) =
            attempt::judge(flight, attempt::event(attempt), at, &self.parts.settings.retry);
        tell(&outcome, at);
        self.remember(outcome, verdict);
    }

    /// Keeps an outcome until it is recorded, for a moment together with others.
    fn remember(&mut self, outcome: Outcome, verdict: Verdict) {
        let (merchant, delivery) = (outcome.state.merchant_id, outcome.state.delivery.delivery_id);
        self.landed(merchant, delivery, verdict);
        if self.outcomes.is_empty() {
            self.record.due = self.record.due.max(Instant::now() + RECORD_LINGER);
        }
        self.outcomes.push(outcome);
        if self.lanes.is_held_up(merchant) {
            self.record_at_once(Instant::now());
        }
    }

    fn recorded(&mut self, outcomes: Vec<Outcome>, recorded: &RecordedOutcomes) {
        let now = self.parts.clock.now();
        for outcome in outcomes {
            if recorded.busy.contains(&outcome.state.merchant_id) {
                if self.busy.is_empty() {
                    self.busy_until = Instant::now() + BUSY_WAIT;
                }
                self.busy.push(outcome);
                continue;
            }
            let DeliveryState { merchant_id, delivery, .. } = outcome.state;
            self.lanes.recorded(merchant_id, delivery.delivery_id);
            // What is due later is found by looking.
            if delivery.status == DeliveryStatus::Pending
                && delivery.next_attempt_at <= now.plus(LOOK_INTERVAL)
            {
                self.due(DueMerchant { merchant_id, due_at: delivery.next_attempt_at });
            }
        }
    }

    /// A delivery is not in flight any more, and there is nothing to record of it.
    fn come_to_nothing(&mut self, merchant: MerchantId, delivery: DeliveryId) {
        self.landed(merchant, delivery, Verdict::Unknown);
        self.lanes.recorded(merchant, delivery);
    }

    /// A delivery is not in flight any more.
    fn landed(&mut self, merchant: MerchantId, delivery: DeliveryId, verdict: Verdict) {
        self.lanes.landed(merchant, delivery, verdict);
        metrics::gauge!("settle_deliveries_in_flight").set(count(self.lanes.in_flight()));
    }

    fn measured(&self, depth: QueueDepth) {
        let age = depth.first_due_at.map_or(Duration::ZERO, |due| self.parts.clock.now().since(due));
        metrics::gauge!("settle_deliveries_pending").set(count(depth.pending));
        metrics::gauge!("settle_deliveries_dead").set(count(depth.dead));
        metrics::gauge!("settle_deliveries_oldest_due_seconds").set(age.as_secs_f64());
    }
}

/// Says in the log what came of an attempt: a success to who wants to see everything, a failure to everybody.
fn tell(outcome: &Outcome, at: Timestamp) {
    let merchant = outcome.state.merchant_id;
    let delivery = &outcome.state.delivery;
    let (id, attempts) = (delivery.delivery_id, delivery.attempts);
    let error = delivery.last_error.as_deref().unwrap_or("");
    match delivery.status {
        DeliveryStatus::Delivered => {
            // Never tried before and never asked for again.
            if outcome.state.seen.next_attempt_at == delivery.created_at {
                let delay = at.since(delivery.created_at).as_secs_f64();
                metrics::histogram!("settle_delivery_delay_seconds").record(delay);
            }
            tracing::debug!(%merchant, delivery = %id, attempts, "delivered");
        }
        DeliveryStatus::Pending => {
            let next = delivery.next_attempt_at;
            tracing::info!(%merchant, delivery = %id, attempts, error, %next, "an attempt failed");
        }
        DeliveryStatus::Dead => {
            metrics::counter!("settle_deliveries_died_total").increment(1);
            tracing::warn!(%merchant, delivery = %id, attempts, error, "the last attempt failed: dead");
        }
    }
}

/// A number as a metric wants it.
fn count(number: impl TryInto<u32>) -> f64 {
    f64::from(number.try_into().unwrap_or(u32::MAX))
}
