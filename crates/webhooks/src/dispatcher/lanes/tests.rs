//! Fairness, shown on the bookkeeping alone.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::SettlementId;
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use uuid::Uuid;

use super::*;

const LIMITS: InFlightLimits = InFlightLimits { total: 32, per_merchant: 16 };

fn merchant(number: u128) -> MerchantId {
    MerchantId(Uuid::from_u128(number))
}

/// A queue behind the lanes: how many deliveries of each merchant wait, which are in flight, and which have
/// landed and are not recorded.
#[derive(Default)]
struct Queue {
    waiting: BTreeMap<MerchantId, usize>,
    in_flight: BTreeMap<MerchantId, BTreeSet<DeliveryId>>,
    unrecorded: BTreeMap<MerchantId, BTreeSet<DeliveryId>>,
    next: u128,
}

impl Queue {
    fn add(&mut self, lanes: &mut Lanes, merchant: MerchantId, number: usize) {
        *self.waiting.entry(merchant).or_default() += number;
        lanes.wake(merchant);
    }

    /// One claim: gives whom it served, in order.
    fn claim(&mut self, lanes: &mut Lanes) -> Vec<MerchantId> {
        let asks = lanes.asks();
        self.find(lanes, &asks);
        asks.into_iter().map(|ask| ask.merchant_id).collect()
    }

    fn find(&mut self, lanes: &mut Lanes, asks: &[Ask]) {
        let mut found = Vec::new();
        for ask in asks {
            let waiting = self.waiting.entry(ask.merchant_id).or_default();
            let number = usize::try_from(ask.number).unwrap().min(*waiting);
            *waiting -= number;
            for _ in 0..number {
                self.next += 1;
                let id = DeliveryId(Uuid::from_u128(self.next));
                self.in_flight.entry(ask.merchant_id).or_default().insert(id);
                found.push(claimed(ask.merchant_id, id));
            }
        }
        lanes.claimed(asks, &found);
    }

    /// A delivery is made, and handed over if it is taken.
    fn hand_over(&mut self, lanes: &mut Lanes, merchant: MerchantId) -> bool {
        self.next += 1;
        let id = DeliveryId(Uuid::from_u128(self.next));
        let is_taken = lanes.take(&claimed(merchant, id));
        if is_taken {
            self.in_flight.entry(merchant).or_default().insert(id);
        } else {
            self.add(lanes, merchant, 1);
        }
        is_taken
    }

    fn claim_all(&mut self, lanes: &mut Lanes) {
        while !self.claim(lanes).is_empty() {}
    }

    fn land(&mut self, lanes: &mut Lanes, merchant: MerchantId, verdict: Verdict) {
        if let Some(id) = self.in_flight.entry(merchant).or_default().pop_first() {
            lanes.landed(merchant, id, verdict);
            self.unrecorded.entry(merchant).or_default().insert(id);
        }
    }

    fn record(&mut self, lanes: &mut Lanes, merchant: MerchantId) {
        for id in std::mem::take(self.unrecorded.entry(merchant).or_default()) {
            lanes.recorded(merchant, id);
        }
    }

    fn land_and_record(&mut self, lanes: &mut Lanes, merchant: MerchantId, verdict: Verdict) {
        self.land(lanes, merchant, verdict);
        self.record(lanes, merchant);
    }

    fn of(&self, merchant: MerchantId) -> usize {
        self.in_flight.get(&merchant).map_or(0, BTreeSet::len)
    }
}

fn claimed(merchant_id: MerchantId, delivery_id: DeliveryId) -> Claimed {
    let delivery = Delivery {
        delivery_id,
        settlement_id: SettlementId::NIL,
        event_type: String::new(),
        status: DeliveryStatus::Pending,
        attempts: 0,
        created_at: Timestamp::MIN,
        delivered_at: None,
        next_attempt_at: Timestamp::MIN,
        response_status: None,
        last_error: None,
        url: String::new(),
    };
    Claimed { merchant_id, delivery, record: Record::from_stored(String::new()), secret: None }
}

#[test]
fn a_million_rows_of_one_do_not_delay_the_first_of_another() {
    let (mut lanes, mut queue) = (Lanes::new(LIMITS), Queue::default());
    queue.add(&mut lanes, merchant(1), 1_000_000);
    queue.claim_all(&mut lanes);
    assert_eq!(queue.of(merchant(1)), WINDOW_FIRST);
    queue.add(&mut lanes, merchant(2), 1);
    assert_eq!(queue.claim(&mut lanes), [merchant(2)]);
    assert_eq!(queue.of(merchant(2)), 1);
}

#[test]
fn however_many_hang_the_first_of_another_finds_a_place() {
    let (mut lanes, mut queue) = (Lanes::new(LIMITS), Queue::default());
    for number in 0..100 {
        queue.add(&mut lanes, merchant(number), 1_000);
        queue.claim_all(&mut lanes);
    }
    // Each has timed out, and what it has next hangs too.
    for number in (0..100).cycle().take(10_000) {
        queue.land_and_record(&mut lanes, merchant(number), Verdict::Badly);
        queue.claim_all(&mut lanes);
    }
    assert!(lanes.in_flight() >= LIMITS.total - LIMITS.total / 4, "every place they may have is taken");
    queue.add(&mut lanes, merchant(1_000), 1);
    queue.claim(&mut lanes);
    assert_eq!(queue.of(merchant(1_000)), 1);
}

#[test]
fn a_quarter_of_the_places_is_for_those_with_nothing_in_flight() {
    let (mut lanes, mut queue) = (Lanes::new(LIMITS), Queue::default());
    for number in 0..4 {
        queue.add(&mut lanes, merchant(number), 1_000);
    }
    for _ in 0..200 {
        queue.claim_all(&mut lanes);
        for number in 0..4 {
            queue.land_and_record(&mut lanes, merchant(number), Verdict::Well);
        }
    }
    queue.claim_all(&mut lanes);
    assert!(lanes.in_flight() <= LIMITS.total - LIMITS.total / 4, "{}", lanes.in_flight());
    queue.add(&mut lanes, merchant(9), 1);
    assert_eq!(queue.claim(&mut lanes), [merchant(9)]);
}

#[test]
fn a_window_grows_with_success_and_shrinks_with_failure() {
    let (mut lanes, mut queue) = (Lanes::new(LIMITS), Queue::default());
    let shop = merchant(1);
    queue.add(&mut lanes, shop, 10_000);
    for _ in 0..100 {
        queue.claim_all(&mut lanes);
        queue.land_and_record(&mut lanes, shop, Verdict::Well);
    }
    queue.claim_all(&mut lanes);
    assert!(queue.of(shop) > LIMITS.per_merchant / 2, "{}", queue.of(shop));
    while queue.of(shop) > 0 {
        queue.land_and_record(&mut lanes, shop, Verdict::Badly);
    }
    queue.claim_all(&mut lanes);
    assert_eq!(queue.of(shop), 1, "an endpoint that fails is asked one at a time");
}

#[test]
fn turns_go_round() {
    let (mut lanes, mut queue) = (Lanes::new(InFlightLimits { total: 1, per_merchant: 1 }), Queue::default());
    for number in 0..3 {
        queue.add(&mut lanes, merchant(number), 10);
    }
    let mut served = Vec::new();
    for _ in 0..6 {
        let turn = queue.claim(&mut lanes);
        served.extend(turn.iter().copied());
        for shop in turn {
            queue.land_and_record(&mut lanes, shop, Verdict::Well);
        }
    }
    assert_eq!(served, [0, 1, 2, 0, 1, 2].map(merchant));
}

#[test]
fn what_has_landed_frees_its_place_and_is_not_claimed_again() {
    let (mut lanes, mut queue) = (Lanes::new(LIMITS), Queue::default());
    let shop = merchant(1);
    queue.add(&mut lanes, shop, 10_000);
    let ask = [Ask { merchant_id: shop, number: 1 }];
    for _ in 0..10 {
        queue.claim_all(&mut lanes);
        queue.land(&mut lanes, shop, Verdict::Well);
    }
    assert_eq!(lanes.in_flight(), queue.of(shop));
    assert_eq!(queue.unrecorded[&shop].len(), 10);
    let taken: BTreeSet<DeliveryId> = lanes.taken_of(&ask).into_iter().collect();
    assert_eq!(taken, queue.in_flight[&shop].union(&queue.unrecorded[&shop]).copied().collect());
    assert!(!lanes.is_held_up(shop));
    // Nothing of it is recorded, and so there is an end to it.
    for _ in 0..1_000 {
        queue.claim_all(&mut lanes);
        queue.land(&mut lanes, shop, Verdict::Well);
    }
    assert!(lanes.is_held_up(shop) && lanes.is_busy(shop));
    assert_eq!(queue.of(shop), 0);
    assert!(queue.unrecorded[&shop].len() <= 3 * LIMITS.per_merchant);
    queue.record(&mut lanes, shop);
    assert_eq!(queue.claim(&mut lanes), [shop], "it goes on");
}

#[test]
fn what_is_handed_over_is_taken_when_a_claim_would_take_it() {
    let (mut lanes, mut queue) = (Lanes::new(LIMITS), Queue::default());
    let shop = merchant(1);
    for _ in 0..WINDOW_FIRST {
        assert!(queue.hand_over(&mut lanes, shop));
    }
    assert!(!queue.hand_over(&mut lanes, shop), "its window is full");
    queue.land_and_record(&mut lanes, shop, Verdict::Well);
    assert!(!queue.hand_over(&mut lanes, shop), "another one waits");
    while queue.of(shop) > 0 {
        queue.land_and_record(&mut lanes, shop, Verdict::Well);
    }
    let asks = lanes.asks();
    assert!(!queue.hand_over(&mut lanes, shop), "the claim may find it too");
    assert!(queue.hand_over(&mut lanes, merchant(2)));
    queue.find(&mut lanes, &asks);
    assert_eq!((queue.of(shop), queue.waiting[&shop]), (3, 0));
}

/// What may happen to lanes.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add(u128, usize),
    Take(u128),
    TakeDuringClaim(u128),
    Claim,
    Fail,
    Land(u128, Verdict),
    Record(u128),
    Rest(u128),
}

fn step() -> impl Strategy<Value = Step> {
    let verdict = prop_oneof![Just(Verdict::Well), Just(Verdict::Badly), Just(Verdict::Unknown)];
    prop_oneof![
        (0u128..6, 0usize..40).prop_map(|(merchant, number)| Step::Add(merchant, number)),
        (0u128..6).prop_map(Step::Take),
        (0u128..6).prop_map(Step::TakeDuringClaim),
        Just(Step::Claim),
        Just(Step::Fail),
        (0u128..6, verdict).prop_map(|(merchant, verdict)| Step::Land(merchant, verdict)),
        (0u128..6).prop_map(Step::Record),
        (0u128..6).prop_map(Step::Rest),
    ]
}

proptest! {
    /// Whatever happens: the bounds hold, the counts agree, and in the end nobody is left waiting.
    #[test]
    fn bounds_hold_and_nobody_starves(steps in prop::collection::vec(step(), 1..200)) {
        let (mut lanes, mut queue) = (Lanes::new(LIMITS), Queue::default());
        for step in steps {
            match step {
                Step::Add(number, rows) => queue.add(&mut lanes, merchant(number), rows),
                Step::Take(number) => drop(queue.hand_over(&mut lanes, merchant(number))),
                Step::TakeDuringClaim(number) => {
                    let asks = lanes.asks();
                    let is_taken = queue.hand_over(&mut lanes, merchant(number));
                    let is_asked = asks.iter().any(|ask| ask.merchant_id == merchant(number));
                    prop_assert!(!(is_taken && is_asked), "the claim may find it too");
                    queue.find(&mut lanes, &asks);
                }
                Step::Claim => drop(queue.claim(&mut lanes)),
                Step::Fail => {
                    let asks = lanes.asks();
                    lanes.not_claimed(&asks);
                }
                Step::Land(number, verdict) => queue.land(&mut lanes, merchant(number), verdict),
                Step::Record(number) => queue.record(&mut lanes, merchant(number)),
                Step::Rest(number) => lanes.rest(|resting| resting == merchant(number)),
            }
            let flying: usize = queue.in_flight.values().map(BTreeSet::len).sum();
            prop_assert_eq!(lanes.in_flight(), flying);
            prop_assert!(queue.in_flight.values().all(|own| own.len() <= LIMITS.per_merchant));
            let unrecorded: usize = queue.unrecorded.values().map(BTreeSet::len).sum();
            prop_assert!(flying + unrecorded <= LIMITS.total);
        }
        for number in 0..6 {
            lanes.wake(merchant(number));
        }
        let mut rounds = 0;
        while queue.waiting.values().any(|waiting| *waiting > 0) {
            rounds += 1;
            prop_assert!(rounds < 100_000, "somebody waits for ever: {:?}", queue.waiting);
            queue.claim(&mut lanes);
            for number in 0..6 {
                queue.land_and_record(&mut lanes, merchant(number), Verdict::Well);
            }
        }
    }
}
