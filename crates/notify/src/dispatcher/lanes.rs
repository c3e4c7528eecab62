//! Which merchant is served next: fairness between merchants, without I/O.
//!
//! Each merchant with something to send has a lane. The dispatcher serves the lanes in turn. Each lane has a
//! window: how many of its deliveries may be in flight, 8 at first. A success widens the window by one, a
//! failure halves it, so an endpoint that hangs soon holds one place. All lanes together share `in_flight`
//! places. A quarter of them is kept for merchants that have nothing in flight and whose endpoint has not
//! failed lately, one place each: hundreds of endpoints that hang leave room for another merchant's first
//! attempt. This has a limit: of 1,024 places, 256 endpoints that hang for the first time fill the quarter
//! for one timeout.
//!
//! An attempt that has ended frees its place in the window at once. Until its outcome is recorded, the
//! database shows the delivery as due. So the lane remembers it, and the delivery keeps its shared place:
//! after a crash no more deliveries are sent again than there are places.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZeroUsize;

use lru::LruCache;
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_store::{Ask, Claimed};

use settle_outbox::wake::{ClaimsEnded, JustCommitted};

/// The window of a new lane.
const WINDOW_FIRST: usize = 8;
/// Most merchants in one claim.
const MERCHANTS_ASKED_MAX: usize = 128;
/// Most deliveries in one claim.
const ROWS_ASKED_MAX: usize = 512;
/// Most merchants whose last claim is remembered.
const CLAIMS_KNOWN_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

/// The limits on deliveries in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlightLimits {
    /// Deliveries of all merchants, including those whose outcome is not recorded yet.
    pub total: usize,
    /// Deliveries of one merchant.
    pub per_merchant: usize,
}

/// What an attempt says about its endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The endpoint answered with 2xx in time.
    Well,
    /// The endpoint did not.
    Badly,
    /// Nothing: no attempt was made, or it does not count.
    Unknown,
}

#[derive(Debug, Default)]
struct Lane {
    window: usize,
    in_flight: HashSet<DeliveryId>,
    /// Deliveries that have landed, and whose outcome is not recorded yet.
    unrecorded: HashSet<DeliveryId>,
    /// How many deliveries the claim under way asks for.
    asked: usize,
    /// Whether more deliveries may be due.
    hungry: bool,
    /// Whether the lane waits for its turn.
    queued: bool,
}

impl Lane {
    fn first(limits: InFlightLimits) -> Lane {
        Lane { window: first_window(limits), ..Lane::default() }
    }

    /// How many shared places the lane may take when `taken` of them are taken. Of the kept quarter it may
    /// take one.
    fn places(&self, limits: InFlightLimits, taken: usize) -> usize {
        let open = (limits.total - limits.total / 4).saturating_sub(taken);
        let has_nothing = self.in_flight.is_empty() && self.unrecorded.is_empty();
        let is_first = has_nothing && self.window >= first_window(limits);
        open.max(usize::from(is_first && taken < limits.total))
    }

    fn room(&self) -> usize {
        self.window.saturating_sub(self.in_flight.len() + self.asked)
    }

    /// Whether to claim for this lane: at least half of its window is free, so that a claim pays.
    fn is_ready(&self, limits: InFlightLimits) -> bool {
        self.hungry && self.asked == 0 && self.room() * 2 >= self.window && !self.is_held_up(limits)
    }

    /// Whether the lane must wait until more of its outcomes are recorded.
    fn is_held_up(&self, limits: InFlightLimits) -> bool {
        self.unrecorded.len() >= 2 * limits.per_merchant
    }

    fn has_work(&self) -> bool {
        !self.in_flight.is_empty() || !self.unrecorded.is_empty() || self.asked > 0
    }
}

/// All lanes.
#[derive(Debug)]
pub struct Lanes {
    limits: InFlightLimits,
    lanes: HashMap<MerchantId, Lane>,
    /// Merchants that wait for their turn.
    turns: VecDeque<MerchantId>,
    /// Whether no merchant had room when a claim was last prepared: until something changes, none is made.
    has_no_room: bool,
    in_flight: usize,
    unrecorded: usize,
    /// How many deliveries the claim under way asks for, of all lanes.
    asked: usize,
    claims: Claims,
}

/// Which claims may have found a delivery that is handed over.
#[derive(Debug)]
struct Claims {
    /// The last claim that asked for each merchant, for the merchants asked for most recently.
    last: LruCache<MerchantId, ClaimsEnded>,
    /// Claims up to this one may be forgotten.
    forgotten_until: ClaimsEnded,
}

impl Claims {
    fn ended(&mut self, ended: ClaimsEnded, asks: &[Ask]) {
        for ask in asks {
            if let Some((merchant, forgotten)) = self.last.push(ask.merchant_id, ended)
                && merchant != ask.merchant_id
            {
                self.forgotten_until = self.forgotten_until.max(forgotten);
            }
        }
    }

    fn forget(&mut self, ended: ClaimsEnded) {
        self.last.clear();
        self.forgotten_until = ended;
    }

    fn may_have_found(&self, committed: &JustCommitted) -> bool {
        let last = self.last.peek(&committed.claimed.merchant_id);
        committed.after < self.forgotten_until || last.is_some_and(|last| committed.after < *last)
    }
}

impl Lanes {
    /// No lanes yet. Claims that have ended before were another dispatcher's.
    #[must_use]
    pub fn new(limits: InFlightLimits, ended: ClaimsEnded) -> Lanes {
        let claims = Claims { last: LruCache::new(CLAIMS_KNOWN_MAX), forgotten_until: ended };
        Lanes {
            limits,
            lanes: HashMap::new(),
            turns: VecDeque::new(),
            has_no_room: false,
            in_flight: 0,
            unrecorded: 0,
            asked: 0,
            claims,
        }
    }

    /// Notes that a merchant may have something due.
    pub fn wake(&mut self, merchant: MerchantId) {
        let lane = self.lanes.entry(merchant).or_insert_with(|| Lane::first(self.limits));
        lane.hungry = true;
        self.has_no_room = false;
        queue(lane, merchant, &mut self.turns);
    }

    /// Takes a delivery without a claim, if nothing of its merchant waits before it, there is room, and no
    /// claim has found it or may still find it. Otherwise wakes its merchant.
    pub fn take(&mut self, committed: &JustCommitted) -> bool {
        let (merchant, taken) = (committed.claimed.merchant_id, self.places_taken());
        let lane = self.lanes.entry(merchant).or_insert_with(|| Lane::first(self.limits));
        let is_alone = lane.asked == 0 && !self.claims.may_have_found(committed);
        let is_next = !lane.hungry && !lane.is_held_up(self.limits);
        let has_room = lane.room() > 0 && lane.places(self.limits, taken) > 0;
        if is_alone && is_next && has_room {
            lane.in_flight.insert(committed.claimed.delivery.delivery_id);
            self.in_flight += 1;
            return true;
        }
        self.wake(merchant);
        false
    }

    /// The dispatcher now also serves merchants for which another one made the claims until now.
    pub fn take_over(&mut self, ended: ClaimsEnded) {
        self.claims.forget(ended);
    }

    /// What to claim now, each merchant in its turn. The caller passes the result to [`Lanes::claimed`] or
    /// [`Lanes::not_claimed`] before it asks again.
    pub fn asks(&mut self) -> Vec<Ask> {
        let mut asks = Vec::new();
        let taken = self.places_taken();
        let mut rows = 0;
        let mut passed_over = VecDeque::new();
        while asks.len() < MERCHANTS_ASKED_MAX && rows < ROWS_ASKED_MAX && taken + rows < self.limits.total {
            let Some(merchant_id) = self.turns.pop_front() else { break };
            let Some(lane) = self.lanes.get_mut(&merchant_id) else { continue };
            lane.queued = false;
            if !lane.is_ready(self.limits) {
                // The lane gets another turn when its window has room.
                continue;
            }
            let places = lane.places(self.limits, taken + rows);
            let number = power_of_two_below(lane.room().min(places).min(ROWS_ASKED_MAX - rows));
            if number == 0 {
                lane.queued = true;
                passed_over.push_back(merchant_id);
                continue;
            }
            lane.asked = number;
            lane.hungry = false;
            rows += number;
            asks.push(Ask { merchant_id, number: u32::try_from(number).unwrap_or(u32::MAX) });
        }
        // Merchants for which there was no room keep their turn.
        while let Some(merchant) = passed_over.pop_back() {
            self.turns.push_front(merchant);
        }
        self.asked = rows;
        self.has_no_room = asks.is_empty();
        asks
    }

    /// How many shared places are taken.
    fn places_taken(&self) -> usize {
        self.in_flight + self.unrecorded + self.asked
    }

    /// A claim has ended: the deliveries that it found are in flight from now on.
    pub fn claimed(&mut self, ended: ClaimsEnded, asks: &[Ask], found: &[Claimed]) {
        self.claims.ended(ended, asks);
        self.asked = 0;
        for claimed in found {
            if let Some(lane) = self.lanes.get_mut(&claimed.merchant_id)
                && lane.in_flight.insert(claimed.delivery.delivery_id)
            {
                self.in_flight += 1;
                lane.asked = lane.asked.saturating_sub(1);
            }
        }
        for ask in asks {
            if let Some(lane) = self.lanes.get_mut(&ask.merchant_id) {
                // The claim found all that it asked for: there may be more.
                lane.hungry |= lane.asked == 0;
                lane.asked = 0;
            }
            self.adjust(ask.merchant_id);
        }
    }

    /// The claim failed: the lanes will ask again.
    pub fn not_claimed(&mut self, asks: &[Ask]) {
        self.asked = 0;
        for ask in asks {
            if let Some(lane) = self.lanes.get_mut(&ask.merchant_id) {
                lane.asked = 0;
                lane.hungry = true;
            }
            self.adjust(ask.merchant_id);
        }
    }

    /// A delivery is no longer in flight. Its lane remembers it until it is [`Lanes::forget`].
    pub fn landed(&mut self, merchant: MerchantId, delivery: DeliveryId, verdict: Verdict) {
        let Some(lane) = self.lanes.get_mut(&merchant) else { return };
        if !lane.in_flight.remove(&delivery) {
            return;
        }
        self.in_flight -= 1;
        self.unrecorded += usize::from(lane.unrecorded.insert(delivery));
        lane.window = match verdict {
            Verdict::Well => (lane.window + 1).min(self.limits.per_merchant),
            Verdict::Badly => (lane.window / 2).max(1),
            Verdict::Unknown => lane.window,
        };
        self.adjust(merchant);
    }

    /// The outcome of a delivery that has landed is recorded, or never will be.
    pub fn forget(&mut self, merchant: MerchantId, delivery: DeliveryId) {
        let Some(lane) = self.lanes.get_mut(&merchant) else { return };
        if lane.unrecorded.remove(&delivery) {
            self.unrecorded -= 1;
            self.adjust(merchant);
        }
    }

    /// Forgets that a merchant may have something due, but not what it has in flight.
    pub fn forget_due(&mut self, merchant: MerchantId) {
        if let Some(lane) = self.lanes.get_mut(&merchant) {
            lane.hungry = false;
        }
        self.adjust(merchant);
    }

    /// Deliveries of the given merchants that a claim must not find again.
    #[must_use]
    pub fn known_of(&self, asks: &[Ask]) -> Vec<DeliveryId> {
        let lanes = asks.iter().filter_map(|ask| self.lanes.get(&ask.merchant_id));
        lanes.flat_map(|lane| lane.in_flight.iter().chain(&lane.unrecorded).copied()).collect()
    }

    /// Deliveries in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Merchants that may have something due.
    pub fn hungry(&self) -> impl Iterator<Item = MerchantId> + '_ {
        self.lanes.iter().filter(|(_, lane)| lane.hungry).map(|(merchant, _)| *merchant)
    }

    /// Whether a merchant has deliveries asked for, in flight or to be recorded.
    #[must_use]
    pub fn has_work(&self, merchant: MerchantId) -> bool {
        self.lanes.get(&merchant).is_some_and(Lane::has_work)
    }

    /// Merchants with deliveries asked for, in flight or to be recorded.
    pub fn at_work(&self) -> impl Iterator<Item = MerchantId> + '_ {
        self.lanes.iter().filter(|(_, lane)| lane.has_work()).map(|(merchant, _)| *merchant)
    }

    /// Whether [`Lanes::asks`] may return something.
    #[must_use]
    pub fn may_ask(&self) -> bool {
        !self.turns.is_empty() && !self.has_no_room
    }

    /// Whether a merchant must wait until more of its outcomes are recorded.
    #[must_use]
    pub fn is_held_up(&self, merchant: MerchantId) -> bool {
        self.lanes.get(&merchant).is_some_and(|lane| lane.is_held_up(self.limits))
    }

    /// Gives a lane a turn if it is ready, and removes it if it has nothing left to do.
    fn adjust(&mut self, merchant: MerchantId) {
        self.has_no_room = false;
        let Some(lane) = self.lanes.get_mut(&merchant) else { return };
        if !lane.hungry && !lane.has_work() {
            self.lanes.remove(&merchant);
        } else if lane.is_ready(self.limits) {
            queue(lane, merchant, &mut self.turns);
        }
    }
}

fn first_window(limits: InFlightLimits) -> usize {
    WINDOW_FIRST.min(limits.per_merchant)
}

fn queue(lane: &mut Lane, merchant: MerchantId, turns: &mut VecDeque<MerchantId>) {
    if !lane.queued {
        lane.queued = true;
        turns.push_back(merchant);
    }
}

/// Rounds down, so that many merchants ask for few different numbers: SQLite needs a statement for each
/// number.
fn power_of_two_below(number: usize) -> usize {
    number.checked_ilog2().map_or(0, |exponent| 1 << exponent)
}

#[cfg(test)]
mod tests;
