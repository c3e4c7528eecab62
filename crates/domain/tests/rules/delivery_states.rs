//! The state table of a delivery, row by row, and its retry schedule.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use proptest::prelude::*;
use settle_domain::delivery::{
    Consequence, Delivery, DeliveryEvent, DeliveryStatus, RetryPolicy, StatusFault, TransitionFault,
};
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, SettlementId};
use settle_domain::time::Timestamp;
use uuid::Uuid;

const POLICY: RetryPolicy =
    RetryPolicy { retry_first: Duration::from_mins(1), retry_max: Duration::from_hours(1), attempts_max: 8 };

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn delivery(status: DeliveryStatus) -> Delivery {
    Delivery {
        delivery_id: DeliveryId(Uuid::nil()),
        settlement_id: SettlementId(Uuid::nil()),
        event_type: EventType::SettlementCompleted,
        status,
        attempts: 0,
        created_at: start(),
        delivered_at: None,
        next_attempt_at: start(),
        response_status: None,
        last_error: None,
        url: "https://merchant.example/hook".to_owned(),
    }
}

fn failed() -> DeliveryEvent {
    DeliveryEvent::Failed { response_status: Some(500), error: "answered with status 500".to_owned() }
}

#[test]
fn the_default_policy_is_the_contract() {
    assert_eq!(RetryPolicy::default(), POLICY);
}

#[test]
fn pending_answered_with_2xx_becomes_delivered() {
    let mut delivery = delivery(DeliveryStatus::Pending);
    let answered = DeliveryEvent::Answered { response_status: 204 };
    assert_eq!(delivery.apply(answered, start(), &POLICY), Ok(Consequence::None));
    assert_eq!(delivery.status, DeliveryStatus::Delivered);
    assert_eq!((delivery.attempts, delivery.response_status), (1, Some(204)));
    assert_eq!((delivery.delivered_at, delivery.last_error), (Some(start()), None));
}

#[test]
fn a_clock_that_was_set_back_does_not_set_back_the_schedule() {
    let mut delivery = delivery(DeliveryStatus::Pending);
    delivery.apply(failed(), "2025-12-31T23:00:00Z".parse().unwrap(), &POLICY).unwrap();
    assert_eq!(delivery.next_attempt_at, start());
}

/// Otherwise it would count as due at once, and spend all its attempts in a moment.
#[test]
fn a_time_that_a_stepped_clock_left_does_not_hold_the_schedule() {
    let mut delivery = delivery(DeliveryStatus::Pending);
    delivery.next_attempt_at = start().plus(Duration::from_hours(24));
    assert!(delivery.next_attempt_at > POLICY.latest(start()));
    delivery.apply(failed(), start(), &POLICY).unwrap();
    assert_eq!(delivery.next_attempt_at, start().plus(Duration::from_mins(1)));
    assert!(delivery.next_attempt_at <= POLICY.latest(start()));
}

/// A node whose clock is a little ahead may have put it off so far.
#[test]
fn the_latest_time_that_can_be_due_holds_the_schedule() {
    let mut delivery = delivery(DeliveryStatus::Pending);
    assert_eq!(POLICY.latest(start()), start().plus(Duration::from_mins(65)));
    delivery.next_attempt_at = POLICY.latest(start());
    delivery.apply(failed(), start(), &POLICY).unwrap();
    assert_eq!(delivery.next_attempt_at, POLICY.latest(start()));
}

#[test]
fn failed_attempts_wait_1_2_4_8_16_32_60_minutes_and_the_8th_is_the_last() {
    let mut delivery = delivery(DeliveryStatus::Pending);
    let mut waits_min = Vec::new();
    for _ in 0..7 {
        let now = delivery.next_attempt_at;
        assert_eq!(delivery.apply(failed(), now, &POLICY), Ok(Consequence::None));
        assert_eq!(delivery.status, DeliveryStatus::Pending);
        waits_min.push((delivery.next_attempt_at.as_micros() - now.as_micros()) / 60_000_000);
    }
    assert_eq!(waits_min, [1, 2, 4, 8, 16, 32, 60]);
    let last = delivery.next_attempt_at;
    assert_eq!(delivery.apply(failed(), last, &POLICY), Ok(Consequence::Alert));
    assert_eq!((delivery.status, delivery.attempts), (DeliveryStatus::Dead, 8));
    assert_eq!(delivery.next_attempt_at, last, "a dead row keeps the time of its last attempt");
}

#[test]
fn a_cleared_endpoint_ends_a_pending_delivery_without_an_alert() {
    let mut delivery = delivery(DeliveryStatus::Pending);
    assert_eq!(delivery.apply(DeliveryEvent::EndpointGone, start(), &POLICY), Ok(Consequence::None));
    assert_eq!((delivery.status, delivery.attempts), (DeliveryStatus::Dead, 0));
    assert!(delivery.last_error.unwrap().contains("cleared"));
}

#[test]
fn redelivery_of_a_dead_delivery_restarts_the_counter_and_keeps_the_last_error() {
    let mut delivery = delivery(DeliveryStatus::Pending);
    for _ in 0..8 {
        delivery.apply(failed(), start(), &POLICY).unwrap();
    }
    let later = start().plus(Duration::from_hours(24));
    assert_eq!(delivery.apply(DeliveryEvent::RedeliveryAsked, later, &POLICY), Ok(Consequence::None));
    assert_eq!((delivery.status, delivery.attempts), (DeliveryStatus::Pending, 0));
    assert_eq!(delivery.next_attempt_at, later);
    assert_eq!(delivery.response_status, Some(500), "kept until the next attempt");
}

#[test]
fn haste_makes_what_waits_due_and_leaves_what_is_due() {
    let mut waiting = delivery(DeliveryStatus::Pending);
    waiting.apply(failed(), start(), &POLICY).unwrap();
    let (before, now) = (waiting.clone(), start().plus(Duration::from_secs(1)));
    assert_eq!(waiting.apply(DeliveryEvent::HasteAsked, now, &POLICY), Ok(Consequence::None));
    assert_eq!(waiting, Delivery { next_attempt_at: now, ..before });
    let due = waiting.clone();
    waiting.apply(DeliveryEvent::HasteAsked, now.plus(Duration::from_secs(1)), &POLICY).unwrap();
    assert_eq!(waiting, due);
    for status in [DeliveryStatus::Delivered, DeliveryStatus::Dead] {
        let mut row = delivery(status);
        assert_eq!(row.apply(DeliveryEvent::HasteAsked, start(), &POLICY), Err(TransitionFault(status)));
        assert_eq!(row, delivery(status));
    }
}

#[test]
fn a_status_has_one_spelling() {
    for (status, text) in [
        (DeliveryStatus::Pending, "pending"),
        (DeliveryStatus::Delivered, "delivered"),
        (DeliveryStatus::Dead, "dead"),
    ] {
        assert_eq!((status.as_str(), status.to_string().as_str(), text.parse()), (text, text, Ok(status)));
        assert_eq!(serde_json::to_value(status).unwrap(), text);
        assert_eq!(TransitionFault(status).to_string(), format!("a {text} delivery does not allow this"));
    }
    for text in ["", "Pending", " dead", "died"] {
        assert_eq!(text.parse::<DeliveryStatus>(), Err(StatusFault), "{text:?}");
    }
}

#[test]
fn whatever_the_table_does_not_list_is_refused_and_changes_nothing() {
    let events = [DeliveryEvent::Answered { response_status: 200 }, failed(), DeliveryEvent::EndpointGone];
    for status in [DeliveryStatus::Delivered, DeliveryStatus::Dead] {
        for event in &events {
            let mut row = delivery(status);
            assert_eq!(row.apply(event.clone(), start(), &POLICY), Err(TransitionFault(status)));
            assert_eq!(row, delivery(status));
        }
    }
    for status in [DeliveryStatus::Pending, DeliveryStatus::Delivered] {
        let mut row = delivery(status);
        assert_eq!(row.apply(DeliveryEvent::RedeliveryAsked, start(), &POLICY), Err(TransitionFault(status)));
        assert_eq!(row, delivery(status));
    }
}

fn event() -> impl Strategy<Value = DeliveryEvent> {
    prop_oneof![
        Just(DeliveryEvent::Answered { response_status: 200 }),
        Just(failed()),
        Just(DeliveryEvent::EndpointGone),
        Just(DeliveryEvent::RedeliveryAsked),
        Just(DeliveryEvent::HasteAsked),
    ]
}

proptest! {
    #[test]
    fn no_sequence_of_events_makes_a_ninth_attempt(events in prop::collection::vec(event(), 0..60)) {
        let mut row = delivery(DeliveryStatus::Pending);
        for event in events {
            let before = row.clone();
            if row.apply(event, start(), &POLICY).is_ok() {
                prop_assert!(before.status != DeliveryStatus::Delivered);
            } else {
                prop_assert_eq!(&row, &before);
            }
            prop_assert!((0..=8).contains(&row.attempts));
            prop_assert_eq!(row.delivered_at.is_some(), row.status == DeliveryStatus::Delivered);
            prop_assert!(row.status != DeliveryStatus::Pending || row.attempts < 8);
        }
    }

    #[test]
    fn no_wait_is_longer_than_the_longest(failed_attempts in any::<i32>()) {
        prop_assert!(POLICY.delay_after(failed_attempts) <= POLICY.retry_max);
        prop_assert!(POLICY.delay_after(failed_attempts) >= POLICY.retry_first);
    }
}
