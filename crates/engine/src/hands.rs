//! What the engine has in hand, whose turn it is, and how many payments the next claim asks for.
//!
//! Merchants take turns, each with a bounded number of payments in hand, and all together have a bounded
//! number. While hands are full a claim waits until it is worth its statements: until some lives have ended,
//! or a moment has passed, because the others may take long. Whoever has room is asked for at once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_store::{Ask, Shard};
use tokio::time::Instant;

/// Merchants of one claim.
pub(crate) const MERCHANTS_MAX: usize = 128;
/// Payments of one claim.
const CLAIMED_MAX: usize = 512;
/// Payments in hand, of all merchants and of one.
const IN_HAND_MAX: usize = 1_024;
const IN_HAND_OF_ONE_MAX: usize = 128;
/// The room for which a claim is made at once, in all hands and in those of one merchant.
const ROOM_MIN: usize = 64;
const ROOM_OF_ONE_MIN: usize = 16;
/// How long a claim waits for that room at most.
const ROOM_WAIT: Duration = Duration::from_millis(20);

/// What is in hand, and who is next.
#[derive(Debug, Default)]
pub(crate) struct Hands {
    /// Merchants that may have something due, in turn.
    turns: VecDeque<MerchantId>,
    hungry: HashSet<MerchantId>,
    in_hand: HashMap<PaymentId, MerchantId>,
    of_merchant: BTreeMap<MerchantId, usize>,
    /// When somebody is asked for who has little room.
    patient_until: Option<Instant>,
}

impl Hands {
    /// A merchant may have something due.
    pub(crate) fn wake(&mut self, merchant: MerchantId) {
        if self.hungry.insert(merchant) {
            self.turns.push_back(merchant);
        }
    }

    /// Merchants that wait for their turn.
    pub(crate) fn hungry(&self) -> Vec<MerchantId> {
        self.hungry.iter().copied().collect()
    }

    /// When a claim is to be made although nothing has happened.
    pub(crate) fn patient_until(&self) -> Option<Instant> {
        self.patient_until
    }

    /// Whom to ask for, and for how many. Whoever is not served any more loses the turn.
    pub(crate) fn asks(&mut self, now: Instant, serves: impl Fn(MerchantId) -> bool) -> Vec<Ask> {
        let is_patient = self.patient_until.is_none_or(|until| now < until);
        let least = |room: usize| if is_patient { room } else { 1 };
        let mut room = IN_HAND_MAX.saturating_sub(self.in_hand.len()).min(CLAIMED_MAX);
        let (mut asks, mut passed_over, mut is_waiting) = (Vec::new(), Vec::new(), false);
        if room < least(ROOM_MIN) {
            is_waiting = room > 0 && !self.turns.is_empty();
            room = 0;
        }
        while asks.len() < MERCHANTS_MAX && room > 0 {
            let Some(merchant_id) = self.turns.pop_front() else { break };
            if !serves(merchant_id) {
                self.hungry.remove(&merchant_id);
                continue;
            }
            let own = IN_HAND_OF_ONE_MAX.saturating_sub(self.number_of(merchant_id));
            if own < least(ROOM_OF_ONE_MIN) {
                is_waiting |= own > 0;
                passed_over.push(merchant_id);
                continue;
            }
            let fair = (IN_HAND_MAX / (self.turns.len() + 1)).max(1);
            let number = 1_usize << own.min(fair).min(room).checked_ilog2().unwrap_or(0);
            self.hungry.remove(&merchant_id);
            room -= number;
            asks.push(Ask { merchant_id, number: u32::try_from(number).unwrap_or(u32::MAX) });
        }
        self.turns.extend(passed_over);
        let until = self.patient_until.filter(|_| is_patient).unwrap_or(now + ROOM_WAIT);
        self.patient_until = is_waiting.then_some(until);
        asks
    }

    /// What these merchants have in hand: a claim leaves it out.
    pub(crate) fn taken(&self, asks: &[Ask]) -> Vec<PaymentId> {
        let asked: HashSet<MerchantId> = asks.iter().map(|ask| ask.merchant_id).collect();
        let taken = self.in_hand.iter().filter(|(_, merchant)| asked.contains(merchant));
        taken.map(|(payment, _)| *payment).collect()
    }

    /// Takes a payment in hand. Says whether it was not there yet.
    pub(crate) fn take(&mut self, merchant: MerchantId, payment: PaymentId) -> bool {
        if self.in_hand.insert(payment, merchant).is_some() {
            return false;
        }
        *self.of_merchant.entry(merchant).or_default() += 1;
        true
    }

    /// A payment has come to a rest.
    pub(crate) fn put_down(&mut self, payment: PaymentId) {
        let Some(merchant) = self.in_hand.remove(&payment) else { return };
        if let Some(number) = self.of_merchant.get_mut(&merchant) {
            *number -= 1;
            if *number == 0 {
                self.of_merchant.remove(&merchant);
            }
        }
    }

    /// How many payments are in hand.
    pub(crate) fn len(&self) -> usize {
        self.in_hand.len()
    }

    /// How many payments of a merchant are in hand.
    pub(crate) fn number_of(&self, merchant: MerchantId) -> usize {
        self.of_merchant.get(&merchant).copied().unwrap_or(0)
    }

    /// The shards of which something is in hand.
    pub(crate) fn occupied(&self) -> BTreeSet<Shard> {
        self.of_merchant.keys().map(|merchant| Shard::of(*merchant)).collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn merchant(number: usize) -> MerchantId {
        MerchantId(Uuid::from_u128(number as u128))
    }

    fn payment(number: usize) -> PaymentId {
        PaymentId(Uuid::from_u128(number as u128))
    }

    /// Hands with the first payments of merchants that take turns.
    fn hands(payments: usize, merchants: usize) -> Hands {
        let mut hands = Hands::default();
        for number in 0..payments {
            assert!(hands.take(merchant(number % merchants), payment(number)));
        }
        hands
    }

    fn asked(hands: &mut Hands, now: Instant) -> Vec<(MerchantId, u32)> {
        hands.asks(now, |_| true).into_iter().map(|ask| (ask.merchant_id, ask.number)).collect()
    }

    #[test]
    fn full_hands_wait_until_a_claim_is_worth_it() {
        let now = Instant::now();
        let mut hands = hands(IN_HAND_MAX, 100);
        let next = merchant(200);
        hands.wake(next);
        assert_eq!((asked(&mut hands, now), hands.patient_until()), (vec![], None), "nothing can be taken");
        for number in 1..ROOM_MIN {
            hands.put_down(payment(number));
            assert_eq!(asked(&mut hands, now), [], "{number} have ended");
        }
        hands.put_down(payment(0));
        assert_eq!(asked(&mut hands, now), [(next, 64)]);
        assert_eq!(hands.patient_until(), None);
    }

    #[test]
    fn full_hands_do_not_wait_for_lives_that_take_long() {
        let now = Instant::now();
        let mut hands = hands(IN_HAND_MAX, 100);
        let next = merchant(200);
        hands.wake(next);
        hands.put_down(payment(0));
        assert_eq!(asked(&mut hands, now), []);
        hands.put_down(payment(1));
        let later = now + ROOM_WAIT / 2;
        assert_eq!((asked(&mut hands, later), hands.patient_until()), (vec![], Some(now + ROOM_WAIT)));
        assert_eq!(asked(&mut hands, now + ROOM_WAIT), [(next, 2)]);
        assert_eq!(hands.patient_until(), None);
    }

    #[test]
    fn a_merchant_with_full_hands_waits_and_the_others_do_not() {
        let now = Instant::now();
        let mut hands = hands(IN_HAND_OF_ONE_MAX, 1);
        let (busy, other) = (merchant(0), merchant(1));
        hands.wake(busy);
        hands.put_down(payment(0));
        hands.wake(other);
        assert_eq!(asked(&mut hands, now), [(other, 128)], "it has room");
        for number in 1..ROOM_OF_ONE_MIN {
            hands.put_down(payment(number));
        }
        assert_eq!(asked(&mut hands, now), [(busy, 16)]);
    }

    #[test]
    fn whoever_is_not_served_loses_the_turn() {
        let now = Instant::now();
        let mut hands = Hands::default();
        hands.wake(merchant(0));
        assert_eq!(hands.asks(now, |_| false), []);
        assert_eq!((asked(&mut hands, now), hands.hungry()), (vec![], vec![]));
    }
}
