//! Fairness between merchants, tested without I/O.

mod bounds;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::event::EventType;
use settle_domain::ids::SettlementId;
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use uuid::Uuid;

use super::*;
use settle_outbox::wake::Wake;

const LIMITS: InFlightLimits = InFlightLimits { total: 32, per_merchant: 16 };

fn merchant(number: u128) -> MerchantId {
    MerchantId(Uuid::from_u128(number))
}

fn lanes() -> Lanes {
    Lanes::new(LIMITS, ClaimsEnded::default())
}

/// A queue behind the lanes: each merchant's pending deliveries, those of them in flight, and those that have
/// landed.
#[derive(Default)]
struct Queue {
    wake: Wake,
    pending: BTreeMap<MerchantId, BTreeSet<DeliveryId>>,
    in_flight: BTreeMap<MerchantId, BTreeSet<DeliveryId>>,
    unrecorded: BTreeMap<MerchantId, BTreeSet<DeliveryId>>,
    /// All deliveries ever sent.
    sent: BTreeSet<DeliveryId>,
    /// Deliveries that are committed and will be handed over.
    committed: Vec<JustCommitted>,
    next: u128,
}

impl Queue {
    fn add(&mut self, lanes: &mut Lanes, merchant: MerchantId, number: usize) {
        for _ in 0..number {
            self.commit(merchant);
        }
        self.committed.clear();
        lanes.wake(merchant);
    }

    /// Commits a delivery: claims can find it from now on. It is handed over later.
    fn commit(&mut self, merchant: MerchantId) {
        let after = self.wake.claims_ended();
        self.next += 1;
        let id = DeliveryId(Uuid::from_u128(self.next));
        self.pending.entry(merchant).or_default().insert(id);
        self.committed.push(JustCommitted { claimed: claimed(merchant, id), after });
    }

    /// Hands over the delivery that was committed first. Says whether the lanes took it.
    fn hand_over(&mut self, lanes: &mut Lanes) -> bool {
        if self.committed.is_empty() {
            return false;
        }
        let committed = self.committed.remove(0);
        let is_taken = lanes.take(&committed);
        if is_taken {
            self.send(&committed.claimed);
        }
        is_taken
    }

    fn commit_and_hand_over(&mut self, lanes: &mut Lanes, merchant: MerchantId) -> bool {
        self.commit(merchant);
        self.hand_over(lanes)
    }

    fn send(&mut self, claimed: &Claimed) {
        let id = claimed.delivery.delivery_id;
        assert!(self.sent.insert(id), "{id} is sent twice");
        self.in_flight.entry(claimed.merchant_id).or_default().insert(id);
    }

    /// Makes one claim. Returns the merchants that it served, in order.
    fn claim(&mut self, lanes: &mut Lanes) -> Vec<MerchantId> {
        let (asks, taken) = ask(lanes);
        self.find(lanes, &asks, &taken);
        asks.into_iter().map(|ask| ask.merchant_id).collect()
    }

    fn find(&mut self, lanes: &mut Lanes, asks: &[Ask], taken: &BTreeSet<DeliveryId>) {
        let mut found = Vec::new();
        for ask in asks {
            let pending = self.pending.get(&ask.merchant_id).into_iter().flatten();
            let free = pending.filter(|id| !taken.contains(id)).take(usize::try_from(ask.number).unwrap());
            found.extend(free.map(|id| claimed(ask.merchant_id, *id)));
        }
        for claimed in &found {
            self.send(claimed);
        }
        lanes.claimed(self.wake.claim_ended(), asks, &found);
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
            self.pending.entry(merchant).or_default().remove(&id);
            lanes.forget(merchant, id);
        }
    }

    fn land_and_record(&mut self, lanes: &mut Lanes, merchant: MerchantId, verdict: Verdict) {
        self.land(lanes, merchant, verdict);
        self.record(lanes, merchant);
    }

    fn of(&self, merchant: MerchantId) -> usize {
        self.in_flight.get(&merchant).map_or(0, BTreeSet::len)
    }

    fn all_unrecorded(&self) -> usize {
        self.unrecorded.values().map(BTreeSet::len).sum()
    }
}

/// What a claim asks for, and the deliveries that it must not find, as of its beginning.
fn ask(lanes: &mut Lanes) -> (Vec<Ask>, BTreeSet<DeliveryId>) {
    let asks = lanes.asks();
    let taken = lanes.known_of(&asks).into_iter().collect();
    (asks, taken)
}

fn claimed(merchant_id: MerchantId, delivery_id: DeliveryId) -> Claimed {
    let delivery = Delivery {
        delivery_id,
        settlement_id: SettlementId::NIL,
        event_type: EventType::SettlementCompleted,
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
fn a_merchant_that_is_forgotten_after_a_full_claim_asks_no_more() {
    let mut lanes = lanes();
    let mut queue = Queue::default();
    let shop = merchant(1);
    queue.add(&mut lanes, shop, 100);
    let asks = lanes.asks();
    let found: Vec<Claimed> = (1..=asks[0].number)
        .map(|number| claimed(shop, DeliveryId(Uuid::from_u128(number.into()))))
        .collect();
    lanes.claimed(queue.wake.claim_ended(), &asks, &found);
    for one in &found {
        lanes.landed(shop, one.delivery.delivery_id, Verdict::Unknown);
    }
    assert!(lanes.may_ask(), "it got all it asked for");
    lanes.forget_due(shop);
    assert_eq!(lanes.asks(), [], "its shard is another's now");
    assert!(lanes.has_work(shop), "what has landed is not recorded yet");
}

#[test]
fn a_million_rows_of_one_do_not_delay_the_first_of_another() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    queue.add(&mut lanes, merchant(1), 1_000_000);
    queue.claim_all(&mut lanes);
    assert_eq!(queue.of(merchant(1)), WINDOW_FIRST);
    queue.add(&mut lanes, merchant(2), 1);
    assert_eq!(queue.claim(&mut lanes), [merchant(2)]);
    assert_eq!(queue.of(merchant(2)), 1);
}

#[test]
fn however_many_hang_the_first_of_another_finds_a_place() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    for number in 0..100 {
        queue.add(&mut lanes, merchant(number), 1_000);
        queue.claim_all(&mut lanes);
    }
    // Each endpoint has timed out, and hangs again on the next attempt.
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
    let (mut lanes, mut queue) = (lanes(), Queue::default());
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
    let (mut lanes, mut queue) = (lanes(), Queue::default());
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
    let limits = InFlightLimits { total: 1, per_merchant: 1 };
    let (mut lanes, mut queue) = (Lanes::new(limits, ClaimsEnded::default()), Queue::default());
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
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    let shop = merchant(1);
    queue.add(&mut lanes, shop, 10_000);
    let ask = [Ask { merchant_id: shop, number: 1 }];
    for _ in 0..10 {
        queue.claim_all(&mut lanes);
        queue.land(&mut lanes, shop, Verdict::Well);
    }
    assert_eq!(lanes.in_flight(), queue.of(shop));
    assert_eq!(queue.unrecorded[&shop].len(), 10);
    let taken: BTreeSet<DeliveryId> = lanes.known_of(&ask).into_iter().collect();
    assert_eq!(taken, queue.in_flight[&shop].union(&queue.unrecorded[&shop]).copied().collect());
    // No outcome is recorded, so the lanes stop serving the merchant.
    for _ in 0..1_000 {
        queue.claim_all(&mut lanes);
        queue.land(&mut lanes, shop, Verdict::Well);
    }
    assert!(lanes.has_work(shop));
    assert_eq!((queue.of(shop), queue.all_unrecorded()), (0, LIMITS.total - LIMITS.total / 4));
    queue.record(&mut lanes, shop);
    assert_eq!(queue.claim(&mut lanes), [shop], "it goes on");
}

#[test]
fn what_is_handed_over_is_taken_when_it_is_next() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    let shop = merchant(1);
    for _ in 0..WINDOW_FIRST {
        assert!(queue.commit_and_hand_over(&mut lanes, shop));
    }
    assert!(!queue.commit_and_hand_over(&mut lanes, shop), "its window is full");
    queue.land_and_record(&mut lanes, shop, Verdict::Well);
    assert!(!queue.commit_and_hand_over(&mut lanes, shop), "another one waits");
    while queue.of(shop) > 0 {
        queue.land_and_record(&mut lanes, shop, Verdict::Unknown);
    }
    let (asks, taken) = ask(&mut lanes);
    assert!(!queue.commit_and_hand_over(&mut lanes, shop), "the claim may find it");
    assert!(queue.commit_and_hand_over(&mut lanes, merchant(2)));
    queue.find(&mut lanes, &asks, &taken);
    assert_eq!(queue.of(shop), 3);
}

#[test]
fn what_a_claim_has_found_is_not_sent_when_it_is_handed_over() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    let (shop, other) = (merchant(1), merchant(2));
    // Once a delivery is sent, recorded and forgotten, only the number of claims shows that it was found.
    for _ in 0..3 {
        lanes.wake(shop);
        queue.commit(shop);
        queue.claim_all(&mut lanes);
        queue.land_and_record(&mut lanes, shop, Verdict::Well);
        assert!(!lanes.has_work(shop));
        assert!(!queue.hand_over(&mut lanes), "it was sent");
        queue.claim_all(&mut lanes);
        assert!(queue.commit_and_hand_over(&mut lanes, shop), "this one was not");
        queue.land_and_record(&mut lanes, shop, Verdict::Well);
    }
    // Another dispatcher may have found it, or the claim is forgotten.
    queue.commit(other);
    lanes = Lanes::new(LIMITS, queue.wake.claim_ended());
    assert!(!queue.hand_over(&mut lanes));
    queue.claim_all(&mut lanes);
    queue.commit(other);
    lanes.take_over(queue.wake.claim_ended());
    assert!(!queue.hand_over(&mut lanes));
    queue.claim_all(&mut lanes);
    queue.commit(merchant(3));
    for number in 0..=CLAIMS_KNOWN_MAX.get() as u128 {
        let merchant_id = merchant(10 + number);
        lanes.claimed(queue.wake.claim_ended(), &[Ask { merchant_id, number: 1 }], &[]);
    }
    assert!(!queue.hand_over(&mut lanes));
}

#[test]
fn what_is_not_recorded_does_not_take_what_is_kept_for_others() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    for number in 0..3 {
        queue.add(&mut lanes, merchant(number), 1_000);
    }
    for _ in 0..100 {
        queue.claim_all(&mut lanes);
        for number in 0..3 {
            queue.land(&mut lanes, merchant(number), Verdict::Well);
        }
    }
    assert!(lanes.in_flight() + queue.all_unrecorded() <= LIMITS.total - LIMITS.total / 4);
    queue.add(&mut lanes, merchant(9), 1);
    assert_eq!(queue.claim(&mut lanes), [merchant(9)]);
}

#[test]
fn one_that_has_very_much_to_be_recorded_is_held_up() {
    let limits = InFlightLimits { total: 1_000, per_merchant: 16 };
    let (mut lanes, mut queue) = (Lanes::new(limits, ClaimsEnded::default()), Queue::default());
    let shop = merchant(1);
    queue.add(&mut lanes, shop, 10_000);
    while !lanes.is_held_up(shop) {
        queue.claim_all(&mut lanes);
        queue.land(&mut lanes, shop, Verdict::Well);
    }
    while queue.of(shop) > 0 {
        assert_eq!(queue.claim(&mut lanes), []);
        queue.land(&mut lanes, shop, Verdict::Well);
    }
    assert!((2 * 16..3 * 16).contains(&queue.all_unrecorded()), "{}", queue.all_unrecorded());
    queue.record(&mut lanes, shop);
    assert_eq!(queue.claim(&mut lanes), [shop], "it goes on");
}

/// A random operation on the lanes.
#[derive(Debug, Clone, Copy)]
enum Step {
    Add(u128, usize),
    Commit(u128, bool),
    HandOver,
    HandOverDuringClaim,
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
        (0u128..6, any::<bool>()).prop_map(|(merchant, is_woken)| Step::Commit(merchant, is_woken)),
        Just(Step::HandOver),
        Just(Step::HandOverDuringClaim),
        Just(Step::Claim),
        Just(Step::Fail),
        (0u128..6, verdict).prop_map(|(merchant, verdict)| Step::Land(merchant, verdict)),
        (0u128..6).prop_map(Step::Record),
        (0u128..6).prop_map(Step::Rest),
    ]
}

proptest! {
    /// After any steps the limits hold, the counts agree, and in the end no merchant is left waiting.
    #[test]
    fn bounds_hold_and_nobody_starves(steps in prop::collection::vec(step(), 1..200)) {
        let (mut lanes, mut queue) = (lanes(), Queue::default());
        for step in steps {
            match step {
                Step::Add(number, rows) => queue.add(&mut lanes, merchant(number), rows),
                Step::Commit(number, is_woken) => {
                    queue.commit(merchant(number));
                    if is_woken {
                        lanes.wake(merchant(number));
                    }
                }
                Step::HandOver => drop(queue.hand_over(&mut lanes)),
                Step::HandOverDuringClaim => {
                    let (asks, taken) = ask(&mut lanes);
                    queue.hand_over(&mut lanes);
                    queue.find(&mut lanes, &asks, &taken);
                }
                Step::Claim => drop(queue.claim(&mut lanes)),
                Step::Fail => {
                    let asks = lanes.asks();
                    lanes.not_claimed(&asks);
                }
                Step::Land(number, verdict) => queue.land(&mut lanes, merchant(number), verdict),
                Step::Record(number) => queue.record(&mut lanes, merchant(number)),
                Step::Rest(number) => lanes.forget_due(merchant(number)),
            }
            let flying: usize = queue.in_flight.values().map(BTreeSet::len).sum();
            prop_assert_eq!(lanes.in_flight(), flying);
            prop_assert!(queue.in_flight.values().all(|own| own.len() <= LIMITS.per_merchant));
            prop_assert_eq!(lanes.unrecorded, queue.all_unrecorded());
            prop_assert!(flying + queue.all_unrecorded() <= LIMITS.total);
        }
        for number in 0..6 {
            lanes.wake(merchant(number));
        }
        let mut rounds = 0;
        while queue.pending.values().any(|pending| !pending.is_empty()) {
            rounds += 1;
            prop_assert!(rounds < 100_000, "somebody waits for ever: {:?}", queue.pending);
            queue.claim(&mut lanes);
            for number in 0..6 {
                queue.land_and_record(&mut lanes, merchant(number), Verdict::Well);
            }
        }
    }
}
