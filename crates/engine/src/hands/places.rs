//! The places in hand: who has them, and what waits for one.
//!
//! A payment has its place while it lives, also while its provider does not answer. So that one that hangs
//! takes nobody else's, each provider has places of its own and all have the rest in common. A payment that
//! finds none is set aside: claims leave it out, so that they reach what is due behind it, and it is claimed
//! again when its provider has room. Only what it is called is kept meanwhile, not what it was.
//!
//! A provider whose payments come to an end has room again soon: a merchant that has payments with it waits
//! for that, and nothing is read only to be set aside.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::provider::ProviderName;
use settle_store::Shard;
use tokio::time::Instant;

/// Places that each provider has for itself: twice the calls that it gets at once.
pub(super) const OWN_MAX: usize = 128;
/// Places that all providers have in common.
pub(super) const COMMON_MAX: usize = 896;
/// Places of one merchant, through one provider.
pub(super) const OF_ONE_MAX: usize = 128;
/// Payments that are set aside, of one provider, and of one merchant with it.
const ASIDE_MAX: usize = 4_096;
const ASIDE_OF_ONE_MAX: usize = 256;
/// How long after a payment has come to an end its provider counts as one that has room again soon.
const MOVES_FOR: Duration = Duration::from_secs(1);

/// What became of a payment that was to be taken in hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is in hand from now on.
    Now,
    /// It is in hand already.
    Already,
    /// There is no place for it now: it is set aside until there is.
    Aside,
    /// There is no place for it, and too much is set aside.
    Refused,
}

/// Who has which places.
#[derive(Debug, Default)]
pub(super) struct Places {
    in_hand: HashMap<PaymentId, Held>,
    of_merchant: BTreeMap<MerchantId, usize>,
    /// Every provider of the settings. Without a name: payments that no provider of the settings serves.
    crowds: BTreeMap<Option<ProviderName>, Crowd>,
    aside: HashMap<PaymentId, MerchantId>,
    aside_of_merchant: HashMap<MerchantId, usize>,
}

#[derive(Debug)]
struct Held {
    merchant: MerchantId,
    provider: Option<ProviderName>,
}

/// The payments of one provider.
#[derive(Debug, Default)]
struct Crowd {
    in_hand: usize,
    of_merchant: HashMap<MerchantId, usize>,
    aside: VecDeque<PaymentId>,
    aside_of_merchant: HashMap<MerchantId, usize>,
    /// When a payment came to an end, or the first one was taken in hand.
    moved_at: Option<Instant>,
}

impl Crowd {
    fn in_common(&self) -> usize {
        self.in_hand.saturating_sub(OWN_MAX)
    }

    fn is_moving(&self, now: Instant) -> bool {
        self.moved_at.is_some_and(|at| now < at + MOVES_FOR)
    }

    /// Whether it has a place for a payment of a merchant, if so many in common are free.
    fn has_place(&self, merchant: MerchantId, in_common: usize) -> bool {
        self.room_of(merchant) > 0 && (self.in_hand < OWN_MAX || in_common > 0)
    }

    /// Whether a payment of a merchant may be set aside.
    fn may_wait(&self, merchant: MerchantId) -> bool {
        let own = self.aside_of_merchant.get(&merchant).copied().unwrap_or(0);
        self.aside.len() < ASIDE_MAX && own < ASIDE_OF_ONE_MAX
    }

    fn room_of(&self, merchant: MerchantId) -> usize {
        OF_ONE_MAX.saturating_sub(self.of_merchant.get(&merchant).copied().unwrap_or(0))
    }
}

impl Places {
    pub(super) fn new(providers: impl IntoIterator<Item = ProviderName>) -> Places {
        let crowds = providers.into_iter().map(|provider| (Some(provider), Crowd::default()));
        Places { crowds: crowds.chain([(None, Crowd::default())]).collect(), ..Places::default() }
    }

    fn room_in_common(&self) -> usize {
        COMMON_MAX.saturating_sub(self.crowds.values().map(Crowd::in_common).sum())
    }

    /// The places that are free for somebody.
    pub(super) fn room(&self) -> usize {
        let named = self.crowds.iter().filter(|(provider, _)| provider.is_some());
        let own = named.map(|(_, crowd)| OWN_MAX.saturating_sub(crowd.in_hand)).sum::<usize>();
        own + self.room_in_common()
    }

    /// The places that a merchant may have through the provider through which it has the fewest.
    pub(super) fn room_of(&self, merchant: MerchantId) -> usize {
        let named = self.crowds.iter().filter(|(provider, _)| provider.is_some());
        named.map(|(_, crowd)| crowd.room_of(merchant)).max().unwrap_or(OF_ONE_MAX)
    }

    /// The places for a merchant that has payments with providers which move: those that are free there.
    /// `None` for everybody else.
    pub(super) fn room_soon(&self, merchant: MerchantId, now: Instant) -> Option<usize> {
        if !self.of_merchant.contains_key(&merchant) {
            return None;
        }
        let in_common = self.room_in_common();
        let own = self.crowds.values().filter(|crowd| crowd.of_merchant.contains_key(&merchant));
        let room = |crowd: &Crowd| OWN_MAX.saturating_sub(crowd.in_hand) + in_common;
        own.map(|crowd| crowd.is_moving(now).then(|| room(crowd)))
            .try_fold(0, |most, room| room.map(|room| most.max(room)))
    }

    pub(super) fn take(
        &mut self,
        merchant: MerchantId,
        payment: PaymentId,
        provider: Option<ProviderName>,
    ) -> Taken {
        if self.in_hand.contains_key(&payment) {
            return Taken::Already;
        }
        let in_common = self.room_in_common();
        let provider = provider.filter(|name| self.crowds.contains_key(&Some(name.clone())));
        let crowd = self.crowds.entry(provider.clone()).or_default();
        if crowd.has_place(merchant, in_common) {
            if crowd.in_hand == 0 {
                crowd.moved_at = Some(Instant::now());
            }
            crowd.in_hand += 1;
            *crowd.of_merchant.entry(merchant).or_default() += 1;
            *self.of_merchant.entry(merchant).or_default() += 1;
            self.in_hand.insert(payment, Held { merchant, provider });
            return Taken::Now;
        }
        if self.aside.contains_key(&payment) {
            return Taken::Aside;
        }
        if !crowd.may_wait(merchant) {
            return Taken::Refused;
        }
        *crowd.aside_of_merchant.entry(merchant).or_default() += 1;
        *self.aside_of_merchant.entry(merchant).or_default() += 1;
        crowd.aside.push_back(payment);
        self.aside.insert(payment, merchant);
        Taken::Aside
    }

    /// Whether a payment of a merchant through a provider would be refused.
    pub(super) fn refuses(&self, merchant: MerchantId, provider: &ProviderName) -> bool {
        let crowd = self.crowds.get(&Some(provider.clone())).or_else(|| self.crowds.get(&None));
        crowd.is_some_and(|crowd| {
            !crowd.has_place(merchant, self.room_in_common()) && !crowd.may_wait(merchant)
        })
    }

    pub(super) fn put_down(&mut self, payment: PaymentId) {
        let Some(Held { merchant, provider }) = self.in_hand.remove(&payment) else { return };
        if let Some(crowd) = self.crowds.get_mut(&provider) {
            crowd.in_hand = crowd.in_hand.saturating_sub(1);
            crowd.moved_at = Some(Instant::now());
            if let Some(number) = crowd.of_merchant.get_mut(&merchant) {
                *number -= 1;
                if *number == 0 {
                    crowd.of_merchant.remove(&merchant);
                }
            }
        }
        if let Some(number) = self.of_merchant.get_mut(&merchant) {
            *number -= 1;
            if *number == 0 {
                self.of_merchant.remove(&merchant);
            }
        }
    }

    /// Lets go of what was set aside, as far as there are places for it now: of providers with at least so
    /// much room, and merchants with so much. Gives how many of each merchant, and whether more could be let
    /// go with less room.
    pub(super) fn release(
        &mut self,
        least: usize,
        least_of_one: usize,
    ) -> (HashMap<MerchantId, usize>, bool) {
        let mut in_common = self.room_in_common();
        let (mut released, mut is_waiting) = (HashMap::new(), false);
        for crowd in self.crowds.values_mut().filter(|crowd| !crowd.aside.is_empty()) {
            let room = OWN_MAX.saturating_sub(crowd.in_hand) + in_common;
            if room < least.min(crowd.aside.len()) {
                is_waiting |= room > 0;
                continue;
            }
            let mut left = room;
            let mut kept = VecDeque::new();
            let mut own_released: HashMap<MerchantId, usize> = HashMap::new();
            for payment in std::mem::take(&mut crowd.aside) {
                let Some(merchant) = self.aside.get(&payment).copied() else { continue };
                let own_room = crowd.room_of(merchant);
                let own = own_released.entry(merchant).or_default();
                if left == 0 || own_room < least_of_one || *own >= own_room {
                    is_waiting |= left > 0 && own_room > 0 && own_room < least_of_one;
                    kept.push_back(payment);
                    continue;
                }
                *own += 1;
                left -= 1;
                self.aside.remove(&payment);
            }
            crowd.aside = kept;
            let taken_in_common = (room - left).saturating_sub(OWN_MAX.saturating_sub(crowd.in_hand));
            in_common -= taken_in_common;
            for (merchant, number) in own_released.into_iter().filter(|(_, number)| *number > 0) {
                *released.entry(merchant).or_default() += number;
                for aside_of_merchant in [&mut self.aside_of_merchant, &mut crowd.aside_of_merchant] {
                    let aside = aside_of_merchant.entry(merchant).or_default();
                    *aside = aside.saturating_sub(number);
                    if *aside == 0 {
                        aside_of_merchant.remove(&merchant);
                    }
                }
            }
        }
        (released, is_waiting)
    }

    /// What is in hand or set aside, with its merchant.
    pub(super) fn known(&self) -> impl Iterator<Item = (PaymentId, MerchantId)> {
        let in_hand = self.in_hand.iter().map(|(payment, held)| (*payment, held.merchant));
        in_hand.chain(self.aside.iter().map(|(payment, merchant)| (*payment, *merchant)))
    }

    pub(super) fn has_aside(&self, merchant: MerchantId) -> bool {
        self.aside_of_merchant.contains_key(&merchant)
    }

    pub(super) fn has_any(&self, merchant: MerchantId) -> bool {
        self.of_merchant.contains_key(&merchant) || self.has_aside(merchant)
    }

    pub(super) fn len(&self) -> usize {
        self.in_hand.len()
    }

    pub(super) fn occupied(&self) -> BTreeSet<Shard> {
        self.of_merchant.keys().map(|merchant| Shard::of(*merchant)).collect()
    }
}
