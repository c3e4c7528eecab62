//! How much a claim asks for, and what may be taken without one.

use super::*;

/// So many places that only the bounds of a claim count.
fn roomy(per_merchant: usize) -> Lanes {
    Lanes::new(InFlightLimits { total: 4 * ROWS_ASKED_MAX, per_merchant }, ClaimsEnded::default())
}

fn rows(asks: &[Ask]) -> usize {
    asks.iter().map(|ask| usize::try_from(ask.number).unwrap()).sum()
}

/// Takes every place: three merchants fill their windows, and eight more have their first delivery in flight.
fn fill(lanes: &mut Lanes, queue: &mut Queue) {
    for number in 0..3 {
        (0..WINDOW_FIRST).for_each(|_| assert!(queue.commit_and_hand_over(lanes, merchant(number))));
    }
    (3..11).for_each(|number| assert!(queue.commit_and_hand_over(lanes, merchant(number))));
    assert_eq!(lanes.in_flight(), LIMITS.total);
}

fn merchants(asks: &[Ask]) -> Vec<MerchantId> {
    asks.iter().map(|ask| ask.merchant_id).collect()
}

#[test]
fn a_claim_asks_for_so_many_merchants_and_the_others_keep_their_turn() {
    let (mut lanes, queue) = (roomy(2), Queue::default());
    let last = MERCHANTS_ASKED_MAX as u128;
    (0..=last).for_each(|number| lanes.wake(merchant(number)));
    let asks = lanes.asks();
    assert_eq!((asks.len(), rows(&asks)), (MERCHANTS_ASKED_MAX, 2 * MERCHANTS_ASKED_MAX));
    lanes.claimed(queue.wake.claim_ended(), &asks, &[]);
    assert_eq!(merchants(&lanes.asks()), [merchant(last)]);
}

#[test]
fn a_claim_asks_for_so_many_rows() {
    let (mut lanes, mut queue) = (roomy(2 * WINDOW_FIRST), Queue::default());
    let shop = merchant(0);
    queue.add(&mut lanes, shop, 100);
    queue.claim(&mut lanes);
    let others = ROWS_ASKED_MAX / WINDOW_FIRST - 1;
    (1..=others as u128).for_each(|number| lanes.wake(merchant(number)));
    for _ in 0..WINDOW_FIRST {
        queue.land_and_record(&mut lanes, shop, Verdict::Well);
    }
    let asks = lanes.asks();
    assert_eq!((asks.len(), rows(&asks)), (others + 1, ROWS_ASKED_MAX));
    let of_shop = asks.iter().find(|ask| ask.merchant_id == shop).map(|ask| ask.number);
    assert_eq!(of_shop, Some(8), "its window has room for twice as many");
}

#[test]
fn a_claim_asks_for_all_places_that_are_open() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    queue.add(&mut lanes, merchant(1), WINDOW_FIRST);
    queue.claim_all(&mut lanes);
    lanes.wake(merchant(2));
    lanes.wake(merchant(3));
    let asks = lanes.asks();
    assert_eq!((merchants(&asks), rows(&asks)), (vec![merchant(2), merchant(3)], 2 * WINDOW_FIRST));
}

#[test]
fn nothing_is_taken_when_every_place_is() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    fill(&mut lanes, &mut queue);
    assert!(!queue.commit_and_hand_over(&mut lanes, merchant(11)));
    assert_eq!(lanes.in_flight(), LIMITS.total);
}

#[test]
fn what_is_committed_after_the_last_claim_is_taken() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    lanes.wake(merchant(1));
    assert_eq!(queue.claim(&mut lanes), [merchant(1)], "it finds nothing");
    assert!(queue.commit_and_hand_over(&mut lanes, merchant(1)));
}

/// Otherwise nobody would know that the delivery is in flight, and the next claim would find it again.
#[test]
fn a_lane_stays_while_a_claim_asks_for_it() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    queue.add(&mut lanes, merchant(1), 1);
    let (asks, taken) = ask(&mut lanes);
    lanes.forget_due(merchant(1));
    assert!(lanes.has_work(merchant(1)));
    queue.find(&mut lanes, &asks, &taken);
    assert_eq!((queue.of(merchant(1)), lanes.in_flight()), (1, 1));
}

#[test]
fn a_failure_halves_a_window() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    queue.add(&mut lanes, merchant(1), 100);
    queue.claim(&mut lanes);
    queue.land_and_record(&mut lanes, merchant(1), Verdict::Badly);
    while queue.of(merchant(1)) > 0 {
        queue.land_and_record(&mut lanes, merchant(1), Verdict::Unknown);
    }
    assert_eq!(rows(&lanes.asks()), WINDOW_FIRST / 2);
}

#[test]
fn a_claim_is_made_only_for_a_merchant_with_a_turn_and_a_place() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    assert!(!lanes.may_ask(), "nobody has anything");
    lanes.wake(merchant(1));
    assert!(lanes.may_ask());
    queue.claim_all(&mut lanes);
    assert!(!lanes.may_ask(), "it had its turn");
    fill(&mut lanes, &mut queue);
    lanes.wake(merchant(11));
    assert_eq!(lanes.asks(), []);
    assert!(!lanes.may_ask(), "it has to wait for a place");
    queue.land_and_record(&mut lanes, merchant(1), Verdict::Well);
    assert!(lanes.may_ask());
}

/// The dispatcher lets go of a shard when none of its merchants is at work.
#[test]
fn a_merchant_is_at_work_until_its_outcomes_are_recorded() {
    let (mut lanes, mut queue) = (lanes(), Queue::default());
    let shop = merchant(1);
    queue.add(&mut lanes, shop, 1);
    assert_eq!((lanes.hungry().collect(), lanes.at_work().collect()), (vec![shop], vec![]));
    queue.claim_all(&mut lanes);
    assert_eq!((lanes.hungry().collect(), lanes.at_work().collect()), (vec![], vec![shop]));
    queue.land(&mut lanes, shop, Verdict::Well);
    assert_eq!(lanes.at_work().collect::<Vec<_>>(), [shop]);
    queue.record(&mut lanes, shop);
    assert_eq!(lanes.at_work().count(), 0);
}
