//! Hands that are full of many merchants' payments, of one's, and of one provider's.

use uuid::Uuid;

use super::places::OF_ONE_MAX;
use super::*;

const ALL: usize = COMMON_MAX + OWN_MAX;

fn merchant(number: usize) -> MerchantId {
    MerchantId(Uuid::from_u128(number as u128))
}

fn payment(number: usize) -> PaymentId {
    PaymentId(Uuid::from_u128(number as u128))
}

fn provider(name: &str) -> ProviderName {
    name.parse().unwrap()
}

/// Hands of these providers, with the first payments of merchants that take turns, all through the first.
fn hands(providers: &[&str], payments: usize, merchants: usize) -> Hands {
    let mut hands = Hands::new(providers.iter().map(|name| provider(name)));
    for number in 0..payments {
        let taken = hands.take(merchant(number % merchants), payment(number), Some(provider(providers[0])));
        assert_eq!(taken, Taken::Now, "{number}");
    }
    hands
}

fn asked(hands: &mut Hands, now: Instant) -> Vec<(MerchantId, u32)> {
    hands.asks(now, |_| true).into_iter().map(|ask| (ask.merchant_id, ask.number)).collect()
}

#[test]
fn full_hands_wait_until_a_claim_is_worth_it() {
    let now = Instant::now();
    let mut hands = hands(&["one"], ALL, 100);
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
    let mut hands = hands(&["one"], ALL, 100);
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
    let mut hands = hands(&["one"], OF_ONE_MAX, 1);
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
    let mut hands = hands(&["one"], 0, 1);
    hands.wake(merchant(0));
    assert_eq!(hands.asks(now, |_| false), []);
    assert_eq!((asked(&mut hands, now), hands.hungry().count()), (vec![], 0));
}

/// One provider takes what it may: its own places and all that are in common.
#[test]
fn a_provider_leaves_the_places_of_another() {
    let mut hands = hands(&["one", "other"], ALL, 100);
    assert_eq!(hands.take(merchant(0), payment(ALL), Some(provider("one"))), Taken::Aside);
    for number in 0..OWN_MAX {
        let taken = hands.take(merchant(number % 2), payment(2_000 + number), Some(provider("other")));
        assert_eq!(taken, Taken::Now, "{number}");
    }
    assert_eq!(hands.take(merchant(5), payment(3_000), Some(provider("other"))), Taken::Aside);
    assert_eq!(hands.take(merchant(5), payment(3_001), Some(provider("unheard_of"))), Taken::Now);
}

/// Through another provider a merchant goes on, also if one has all that the merchant may have there.
#[test]
fn a_merchant_that_waits_for_one_provider_goes_on_through_another() {
    let now = Instant::now();
    let mut hands = hands(&["one", "other"], OF_ONE_MAX, 1);
    hands.wake(merchant(0));
    assert_eq!(asked(&mut hands, now), [(merchant(0), 128)]);
    assert_eq!(hands.take(merchant(0), payment(500), Some(provider("one"))), Taken::Aside);
    assert_eq!(hands.take(merchant(0), payment(501), Some(provider("other"))), Taken::Now);
    assert!(
        hands.known().any(|(known, _)| known == payment(500)),
        "the next claim reaches what is behind it"
    );
}

/// As many as there are places for, once that is worth a claim, and not what is behind them.
#[test]
fn what_was_set_aside_is_asked_for_when_its_provider_has_room() {
    let now = Instant::now();
    let mut hands = hands(&["one", "other"], ALL, 100);
    let waiting = merchant(200);
    for number in 0..100 {
        assert_eq!(hands.take(waiting, payment(2_000 + number), Some(provider("one"))), Taken::Aside);
    }
    assert_eq!((asked(&mut hands, now), hands.patient_until()), (vec![], None), "no place is free");
    for number in 1..ROOM_MIN {
        hands.put_down(payment(number));
        assert_eq!(asked(&mut hands, now), [], "{number} have ended");
    }
    assert_eq!(hands.patient_until(), Some(now + ROOM_WAIT));
    hands.put_down(payment(0));
    assert_eq!(asked(&mut hands, now), [(waiting, 64)]);
    let ask = PaymentAsk::new(waiting, 64);
    assert_eq!(
        hands.known().filter(|(_, owner)| *owner == waiting).count(),
        36,
        "what still waits is left out"
    );
    for number in 0..64 {
        assert_eq!(hands.take(waiting, payment(2_000 + number), Some(provider("one"))), Taken::Now);
    }
    hands.asked(&ask, 64, &[]);
    assert_eq!(asked(&mut hands, now), [], "the others are asked for when there is room again");
}

/// Then nobody asks for the same again and again: the next look does.
#[test]
fn what_is_set_aside_is_bounded() {
    let now = Instant::now();
    let mut hands = hands(&["one", "other"], ALL, 100);
    let waiting = merchant(200);
    let taken: Vec<Taken> =
        (0..300).map(|number| hands.take(waiting, payment(2_000 + number), Some(provider("one")))).collect();
    assert_eq!(taken.iter().filter(|taken| **taken == Taken::Aside).count(), 256);
    assert_eq!(taken[256..], vec![Taken::Refused; 44]);
    for unavoidable in [None, Some(provider("one"))] {
        let ask = PaymentAsk { without: vec![provider("one")], ..PaymentAsk::new(waiting, 1) };
        hands.asked(&ask, 1, &[unavoidable]);
        assert_eq!(asked(&mut hands, now), []);
    }
    hands.asked(&PaymentAsk::new(waiting, 1), 1, &[]);
    assert_eq!(asked(&mut hands, now), [(waiting, 128)], "what is due behind it may be another provider's");
}

/// The next claim passes over them until there is room again, for them alone and for their merchant alone.
#[test]
fn what_was_refused_is_passed_over_while_it_would_be_again() {
    let now = Instant::now();
    let mut hands = hands(&["one", "other"], OF_ONE_MAX, 1);
    let (busy, free) = (merchant(0), merchant(1));
    for number in 0..300 {
        hands.take(busy, payment(2_000 + number), Some(provider("one")));
    }
    let full: Vec<_> = (0..44).map(|_| Some(provider("one"))).collect();
    hands.asked(&PaymentAsk::new(busy, 128), 128, &full);
    hands.wake(free);
    let asks = hands.asks(now, |_| true);
    let passed_over = PaymentAsk { without: vec![provider("one")], ..PaymentAsk::new(busy, 128) };
    assert_eq!(asks, [passed_over, PaymentAsk::new(free, 128)]);
    for number in 0..OF_ONE_MAX + 200 {
        let taken = hands.take(busy, payment(3_000 + number), Some(provider("other")));
        assert_eq!(
            taken,
            if number < OF_ONE_MAX { Taken::Now } else { Taken::Aside },
            "it waits for its own"
        );
    }
    for number in 0..OF_ONE_MAX {
        hands.put_down(payment(number));
    }
    assert_eq!(hands.asks(now, |_| true), [PaymentAsk::new(busy, 128)], "there is room again");
}

/// The others have their turn in a later claim; whoever is free has it in this one.
#[test]
fn few_merchants_of_a_claim_have_payments_that_are_passed_over() {
    let later = Instant::now() + Duration::from_secs(2);
    let mut hands = hands(&["one", "other", "third"], ALL, 100);
    let full: Vec<MerchantId> = (0..WITHOUT_MAX + 4).map(merchant).collect();
    for number in 0..5_000 {
        hands.take(merchant(number % full.len()), payment(2_000 + number), Some(provider("one")));
    }
    let all: Vec<MerchantId> = full.into_iter().chain((200..260).map(merchant)).collect();
    for merchant in &all {
        hands.wake(*merchant);
    }
    let (mut asked, mut passed_over) = (Vec::new(), Vec::new());
    loop {
        let asks = hands.asks(later, |_| true);
        if asks.is_empty() {
            break;
        }
        passed_over.push(asks.iter().filter(|ask| !ask.without.is_empty()).count());
        asked.extend(asks.into_iter().map(|ask| ask.merchant_id));
    }
    asked.sort();
    assert_eq!(asked, all, "everybody once");
    assert_eq!((passed_over[0], passed_over.iter().sum()), (WITHOUT_MAX, WITHOUT_MAX + 4));
}

/// Nothing is read only to be set aside while the provider moves. If it hangs, what is behind is read.
#[test]
fn a_merchant_waits_for_room_with_a_provider_that_moves() {
    let now = Instant::now();
    let mut hands = hands(&["one", "other"], ALL, 100);
    hands.wake(merchant(0));
    assert_eq!(asked(&mut hands, now), [], "the other provider's places are no use");
    let two_later = now + Duration::from_secs(2);
    assert_eq!(
        asked(&mut hands, two_later),
        [(merchant(0), 128)],
        "they may be, to somebody who waits for long"
    );
    hands.wake(merchant(0));
    for number in 0..ROOM_MIN {
        hands.put_down(payment(number));
    }
    assert_eq!(asked(&mut hands, Instant::now()), [(merchant(0), 64)]);
}
