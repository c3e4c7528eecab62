//! Outcomes that are not recorded yet.
//!
//! Outcomes wait a moment for each other, so that many are recorded in one transaction. Those of a merchant
//! that somebody else has locked wait aside: they would hold up everybody else's. If its lock is not free the
//! next time either, they are recorded [`Apart`], in their turn.

use std::collections::HashMap;
use std::time::Duration;

use settle_domain::ids::MerchantId;
use tokio::time::Instant;

use super::apart::{Apart, RECORDED_MAX};
use super::queue::Outcome;

/// How long an outcome may wait for others to be recorded with it.
pub(super) const RECORD_LINGER: Duration = Duration::from_millis(50);
/// So many outcomes are recorded without waiting for more; with few places, a quarter of the places.
pub(super) const RECORD_AT_ONCE: usize = 256;
/// How long outcomes of a locked merchant wait before the dispatcher tries to record them again.
const LOCKED_WAIT: Duration = Duration::from_millis(100);
/// How often in a row a merchant may be locked before its outcomes wait for the lock.
const LOCKED_ROUNDS_MAX: u32 = 2;

/// What is to be recorded, in the order in which attempts ended.
#[derive(Debug)]
pub(super) struct Unrecorded {
    waiting: Vec<Outcome>,
    locked: Vec<Outcome>,
    /// When the outcomes of locked merchants are tried again.
    locked_until: Instant,
    /// How often in a row each merchant was locked.
    locked_rounds: HashMap<MerchantId, u32>,
    pub(super) apart: Apart,
}

impl Unrecorded {
    pub(super) fn none(now: Instant) -> Unrecorded {
        Unrecorded {
            waiting: Vec::new(),
            locked: Vec::new(),
            locked_until: now,
            locked_rounds: HashMap::new(),
            apart: Apart::default(),
        }
    }

    pub(super) fn push(&mut self, outcome: Outcome) {
        self.waiting.extend(self.apart.push(outcome));
    }

    /// Outcomes that can be recorded now, together.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// All outcomes.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.locked.len() + self.apart.len()
    }

    /// When outcomes of locked merchants can be tried again, if there are any.
    pub(super) fn locked_until(&self) -> Option<Instant> {
        (!self.locked.is_empty()).then_some(self.locked_until)
    }

    /// Outcomes of locked merchants that have waited long enough are tried again.
    pub(super) fn unlock(&mut self, now: Instant) {
        if self.locked_until <= now {
            self.waiting.append(&mut self.locked);
        }
        self.apart.end(now);
    }

    /// The next outcomes to record.
    pub(super) fn take(&mut self) -> Vec<Outcome> {
        let number = self.waiting.len().min(RECORDED_MAX);
        self.waiting.drain(..number).collect()
    }

    /// Nothing was recorded: the outcomes come first again, for what was found out must not be lost.
    pub(super) fn put_back(&mut self, outcomes: Vec<Outcome>) {
        self.waiting.splice(..0, outcomes);
    }

    /// Nothing was recorded, because the database refuses something: each merchant's outcomes are tried
    /// apart.
    pub(super) fn split(&mut self, outcomes: Vec<Outcome>, now: Instant) {
        for outcome in outcomes {
            self.apart.begin(outcome.state.merchant_id, now);
            self.push(outcome);
        }
    }

    /// Whether somebody else had locked a merchant when its outcomes were to be recorded.
    pub(super) fn note_locked(&mut self, merchant: MerchantId, was_locked: bool, now: Instant) {
        if !was_locked {
            self.locked_rounds.remove(&merchant);
            return;
        }
        let rounds = self.locked_rounds.entry(merchant).or_insert(0);
        *rounds += 1;
        if *rounds >= LOCKED_ROUNDS_MAX {
            self.locked_rounds.remove(&merchant);
            self.apart.begin(merchant, now);
        }
    }

    /// Somebody else has locked the merchant of this outcome.
    pub(super) fn put_off(&mut self, outcome: Outcome, now: Instant) {
        let Some(outcome) = self.apart.push(outcome) else { return };
        if self.locked.is_empty() {
            self.locked_until = now + LOCKED_WAIT;
        }
        self.locked.push(outcome);
    }

    /// Removes outcomes that the dispatcher must not record any more.
    pub(super) fn remove(&mut self, is_lost: impl Fn(&Outcome) -> bool) -> Vec<Outcome> {
        let mut removed: Vec<Outcome> = self.waiting.extract_if(.., |outcome| is_lost(outcome)).collect();
        removed.extend(self.locked.extract_if(.., |outcome| is_lost(outcome)));
        removed.extend(self.apart.remove(is_lost));
        removed
    }
}

#[cfg(test)]
mod tests {
    use settle_domain::delivery::{Delivery, DeliveryStatus};
    use settle_domain::event::EventType;
    use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
    use settle_domain::time::Timestamp;
    use settle_store::{DeliveryState, LeaseToken, Seen, Shard, ShardLease};
    use uuid::Uuid;

    use super::*;

    fn outcome(number: u128) -> Outcome {
        let delivery = Delivery {
            delivery_id: DeliveryId(Uuid::from_u128(number)),
            settlement_id: SettlementId(Uuid::nil()),
            event_type: EventType::SettlementCompleted,
            status: DeliveryStatus::Pending,
            attempts: 1,
            created_at: Timestamp::from_micros(0),
            delivered_at: None,
            next_attempt_at: Timestamp::from_micros(0),
            response_status: None,
            last_error: None,
            url: String::new(),
        };
        let state =
            DeliveryState { merchant_id: MerchantId(Uuid::nil()), seen: Seen::from(&delivery), delivery };
        let lease = ShardLease { shard: Shard(0), token: LeaseToken(Uuid::nil()) };
        Outcome { lease, state, alert: false }
    }

    fn numbers(outcomes: &[Outcome]) -> Vec<u128> {
        outcomes.iter().map(|outcome| outcome.state.delivery.delivery_id.0.as_u128()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_not_recorded_comes_first_again() {
        let mut unrecorded = Unrecorded::none(Instant::now());
        (1..=2).for_each(|number| unrecorded.push(outcome(number)));
        let taken = unrecorded.take();
        unrecorded.push(outcome(3));
        unrecorded.put_back(taken);
        assert_eq!(numbers(&unrecorded.take()), [1, 2, 3]);
        assert_eq!(unrecorded.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_transaction_has_a_bound() {
        let mut unrecorded = Unrecorded::none(Instant::now());
        (0..=RECORDED_MAX as u128).for_each(|number| unrecorded.push(outcome(number)));
        assert_eq!((unrecorded.take().len(), unrecorded.waiting()), (RECORDED_MAX, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn outcomes_of_locked_merchants_wait_apart_and_come_back() {
        let now = Instant::now();
        let mut unrecorded = Unrecorded::none(now);
        unrecorded.put_off(outcome(1), now);
        unrecorded.push(outcome(2));
        assert_eq!((unrecorded.waiting(), unrecorded.len()), (1, 2));
        unrecorded.unlock(now);
        assert_eq!(numbers(&unrecorded.take()), [2]);
        let until = unrecorded.locked_until().unwrap();
        unrecorded.unlock(until);
        assert_eq!((numbers(&unrecorded.take()), unrecorded.locked_until()), (vec![1], None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_merchant_that_is_locked_twice_waits_for_its_turn_and_for_a_while_at_once() {
        let now = Instant::now();
        let merchant = MerchantId(Uuid::nil());
        let mut unrecorded = Unrecorded::none(now);
        for (round, is_apart) in [(1, false), (2, true)] {
            unrecorded.push(outcome(round));
            let taken = unrecorded.take();
            unrecorded.note_locked(merchant, true, now);
            for outcome in taken {
                unrecorded.put_off(outcome, now);
            }
            assert_eq!(unrecorded.apart.first_due().is_some(), is_apart, "round {round}");
            let until = unrecorded.locked_until().unwrap_or(now);
            unrecorded.unlock(until);
        }
        unrecorded.push(outcome(3));
        assert_eq!((unrecorded.waiting(), unrecorded.len()), (0, 3));
        let taken = unrecorded.apart.take(now).unwrap();
        assert_eq!(numbers(&taken), [1, 2, 3]);
        unrecorded.push(outcome(4));
        assert!(unrecorded.apart.take(now).is_none(), "one transaction a merchant at a time");
        unrecorded.apart.put_back(merchant, taken, false, now);
        let rested = unrecorded.apart.first_due().unwrap();
        assert!(rested > now && unrecorded.apart.take(now).is_none());
        assert_eq!(numbers(&unrecorded.apart.take(rested).unwrap()), [1, 2, 3, 4]);
        unrecorded.apart.recorded(merchant, rested);
        unrecorded.unlock(rested + Duration::from_mins(1));
        unrecorded.push(outcome(5));
        assert_eq!((unrecorded.waiting(), unrecorded.apart.len()), (1, 0), "together with others again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batch_that_the_database_refuses_is_split_by_merchant() {
        let now = Instant::now();
        let mut unrecorded = Unrecorded::none(now);
        let of = |merchant, number| {
            let mut outcome = outcome(number);
            outcome.state.merchant_id = MerchantId(Uuid::from_u128(merchant));
            outcome
        };
        unrecorded.split(vec![of(1, 1), of(2, 2), of(1, 3)], now);
        let mut taken = [unrecorded.apart.take(now).unwrap(), unrecorded.apart.take(now).unwrap()];
        taken.sort_by_key(Vec::len);
        assert_eq!(taken.each_ref().map(|taken| numbers(taken)), [vec![2], vec![1, 3]]);
        assert!(unrecorded.apart.take(now).is_none() && unrecorded.apart.is_under_way());
    }

    #[tokio::test(start_paused = true)]
    async fn outcomes_of_lost_shards_are_removed_wherever_they_wait() {
        let now = Instant::now();
        let mut unrecorded = Unrecorded::none(now);
        unrecorded.put_off(outcome(1), now);
        (2..=3).for_each(|number| unrecorded.push(outcome(number)));
        let removed = unrecorded.remove(|one| numbers(std::slice::from_ref(one)) != [3]);
        assert_eq!((numbers(&removed), unrecorded.len()), (vec![2, 1], 1));
    }
}
