//! What the engine has in hand, whose turn it is, and how many payments the next claim asks for.
//!
//! Merchants take turns, and places in hand are bounded ([`places`]). While they are taken a claim waits
//! until it is worth its statements: until some lives have ended, or a moment has passed, because the others
//! may take long. Whoever has room is asked for at once.
//!
//! A merchant may have more payments due of a provider that is full than can be set aside. Claims pass
//! over them, so that they reach what is due behind them.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::provider::ProviderName;
use settle_store::{PaymentAsk, Shard};
use tokio::time::Instant;

mod places;

pub(crate) use places::Taken;
use places::{COMMON_MAX, OWN_MAX, Places};

/// Merchants of one claim.
pub(crate) const MERCHANTS_MAX: usize = 128;
/// Merchants that one claim passes over at most: they go to the end of the line, and the next claim goes on.
const PASSED_OVER_MAX: usize = 1_024;
/// Merchants of one claim of whom some payments are passed over: looking at those takes the database a while.
const WITHOUT_MAX: usize = 16;
/// Payments of one claim.
const CLAIMED_MAX: usize = 512;
/// What merchants that take turns share.
const SHARED: usize = COMMON_MAX + OWN_MAX;
/// The room for which a claim is made at once: in all hands, and in those of one merchant.
const ROOM_MIN: usize = 64;
const ROOM_OF_ONE_MIN: usize = 16;
/// How long a claim waits for that room at most.
const ROOM_WAIT: Duration = Duration::from_millis(50);

/// What is in hand, and who is next.
#[derive(Debug)]
pub(crate) struct Hands {
    /// Merchants that may have something due, in turn.
    turns: VecDeque<MerchantId>,
    /// The same merchants, and how many payments it is worth asking for.
    hungry: HashMap<MerchantId, usize>,
    /// Providers that a merchant's payments were refused for.
    refused: HashMap<MerchantId, BTreeSet<ProviderName>>,
    /// Those of the last claim that were asked for what had been set aside.
    resumed: HashSet<MerchantId>,
    places: Places,
    /// When somebody is asked for who has little room.
    patient_until: Option<Instant>,
}

impl Hands {
    /// Empty hands, for payments through these providers.
    pub(crate) fn new(providers: impl IntoIterator<Item = ProviderName>) -> Hands {
        Hands {
            turns: VecDeque::new(),
            hungry: HashMap::new(),
            refused: HashMap::new(),
            resumed: HashSet::new(),
            places: Places::new(providers),
            patient_until: None,
        }
    }

    /// A merchant may have something due.
    pub(crate) fn wake(&mut self, merchant: MerchantId) {
        self.expect(merchant, CLAIMED_MAX);
    }

    fn expect(&mut self, merchant: MerchantId, number: usize) {
        if let Some(expected) = self.hungry.get_mut(&merchant) {
            *expected = expected.saturating_add(number).min(CLAIMED_MAX);
        } else {
            self.hungry.insert(merchant, number);
            self.turns.push_back(merchant);
        }
    }

    /// Merchants that wait for their turn.
    pub(crate) fn hungry(&self) -> impl Iterator<Item = MerchantId> {
        self.hungry.keys().copied()
    }

    /// When a claim is to be made although nothing has happened.
    pub(crate) fn patient_until(&self) -> Option<Instant> {
        self.patient_until
    }

    /// Whom to ask for, and for how many. Whoever is not served any more loses the turn.
    pub(crate) fn asks(&mut self, now: Instant, serves: impl Fn(MerchantId) -> bool) -> Vec<PaymentAsk> {
        let is_patient = self.patient_until.is_none_or(|until| now < until);
        let (least, least_of_one) = if is_patient { (ROOM_MIN, ROOM_OF_ONE_MIN) } else { (1, 1) };
        let (released, mut is_waiting) = self.places.release(least, least_of_one);
        for (merchant, number) in released {
            self.expect(merchant, number);
        }
        self.resumed.clear();
        let mut room = self.places.room().min(CLAIMED_MAX);
        let (mut asks, mut passed_over, mut with_full) = (Vec::new(), Vec::new(), 0);
        if room < least {
            is_waiting |= room > 0 && !self.turns.is_empty();
            room = 0;
        }
        while asks.len() < MERCHANTS_MAX && passed_over.len() < PASSED_OVER_MAX && room > 0 {
            let Some(merchant_id) = self.turns.pop_front() else { break };
            if !serves(merchant_id) {
                self.hungry.remove(&merchant_id);
                self.refused.remove(&merchant_id);
                continue;
            }
            let own = self.places.room_of(merchant_id);
            let soon = self.places.room_soon(merchant_id, now).unwrap_or(usize::MAX);
            if own < least_of_one || soon < least {
                is_waiting |= own > 0 && soon > 0;
                passed_over.push(merchant_id);
                continue;
            }
            let without = self.without(merchant_id);
            with_full += usize::from(!without.is_empty());
            if with_full > WITHOUT_MAX && !without.is_empty() {
                passed_over.push(merchant_id);
                continue;
            }
            let fair = (SHARED / (self.turns.len() + 1)).max(1);
            let expected = self.hungry.remove(&merchant_id).unwrap_or(1);
            if expected < CLAIMED_MAX {
                self.resumed.insert(merchant_id);
            }
            let number = own.min(soon).min(fair).min(room).min(expected);
            let number = 1_usize << number.checked_ilog2().unwrap_or(0);
            room -= number;
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            asks.push(PaymentAsk { merchant_id, number, without });
        }
        self.turns.extend(passed_over);
        let until = self.patient_until.filter(|_| is_patient).unwrap_or(now + ROOM_WAIT);
        self.patient_until = is_waiting.then_some(until);
        asks
    }

    /// The providers whose payments of a merchant would be refused again.
    fn without(&mut self, merchant: MerchantId) -> Vec<ProviderName> {
        let Some(refused) = self.refused.get_mut(&merchant) else { return Vec::new() };
        refused.retain(|provider| self.places.refuses(merchant, provider));
        let without: Vec<ProviderName> = refused.iter().cloned().collect();
        if without.is_empty() {
            self.refused.remove(&merchant);
        }
        without
    }

    /// What is in hand or set aside, with its merchant: a claim leaves it out.
    pub(crate) fn known(&self) -> impl Iterator<Item = (PaymentId, MerchantId)> {
        self.places.known()
    }

    /// Takes a payment in hand, if there is a place for it.
    pub(crate) fn take(
        &mut self,
        merchant: MerchantId,
        payment: PaymentId,
        provider: Option<ProviderName>,
    ) -> Taken {
        let taken = self.places.take(merchant, payment, provider.clone());
        if let (Taken::Refused, Some(provider)) = (taken, provider) {
            self.refused.entry(merchant).or_default().insert(provider);
        }
        taken
    }

    /// A claim found so many payments of a merchant. Whether it has more is asked for, unless that would find
    /// the same again or what has been set aside comes first. It would if something was refused that the next
    /// claim cannot pass over, or that this one was to pass over.
    pub(crate) fn asked(&mut self, ask: &PaymentAsk, found: usize, refused: &[Option<ProviderName>]) {
        let PaymentAsk { merchant_id, number, ref without } = *ask;
        let comes = |provider: &ProviderName| without.contains(provider);
        let is_refused = refused.iter().any(|provider| provider.as_ref().is_none_or(comes));
        let comes_again = self.resumed.contains(&merchant_id) && self.places.has_aside(merchant_id);
        if found >= usize::try_from(number).unwrap_or(usize::MAX) && !is_refused && !comes_again {
            self.wake(merchant_id);
        }
    }

    /// A payment has come to a rest.
    pub(crate) fn put_down(&mut self, payment: PaymentId) {
        self.places.put_down(payment);
    }

    /// How many payments are in hand.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether a merchant has a payment in hand, or one that waits for a place.
    pub(crate) fn has_any(&self, merchant: MerchantId) -> bool {
        self.places.has_any(merchant)
    }

    /// The shards of which something is in hand.
    pub(crate) fn occupied(&self) -> BTreeSet<Shard> {
        self.places.occupied()
    }
}

#[cfg(test)]
mod tests;
