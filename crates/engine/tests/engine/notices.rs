//! What operators are told of payments: stored by the transaction that learns it, and told once.

use std::time::Duration;

use settle_domain::actor::Actor;
use settle_domain::alert::AlertKind;
use settle_domain::ids::PaymentId;
use settle_domain::operation::{Answer, Judgement, OperationStatus, Report, ReportStatus, Seen, Window};
use settle_domain::payment::{Act, Outcome, PaymentOrder, StateName};
use settle_domain::seams::Clock;
use settle_engine::acts::{People, act};
use settle_engine::advance::{Advance, Deed, Told};
use settle_engine::wake::EngineWake;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;
use settle_store::{Alert, DueTime};

use crate::desk::Lie;
use crate::world::World;

settle_testing::on_both_stores! {
    a_payment_that_needs_review_is_told_once,
    money_that_came_back_is_told,
    a_final_state_with_late_evidence_is_told,
    a_payment_on_its_usual_way_is_not_told,
    a_payment_that_is_likely_double_is_told_and_goes_on,
    what_is_not_written_is_not_told,
    a_late_payout_that_a_person_adopts_is_settled,
}

/// Takes what is due and ends it, as the alerter does.
pub(crate) async fn told(world: &World) -> Vec<Alert> {
    let now = world.clock.now();
    let mut tx = world.store.begin().await.unwrap();
    let alerts = tx.alert_take(DueTime::by(now), now, 10).await.unwrap();
    let ids: Vec<_> = alerts.iter().map(|alert| (alert.merchant_id, alert.alert_id)).collect();
    tx.alert_sent(&ids, now).await.unwrap();
    tx.commit().await.unwrap();
    alerts
}

pub(crate) fn deed(deed: Act) -> Deed {
    Deed {
        act: deed,
        by: Actor::Command,
        evidence: "the bank's statement".to_owned(),
        destination_reference: None,
        amount: None,
        provider_reference: None,
    }
}

pub(crate) async fn do_by_hand(world: &World, payment: PaymentId, what: Act) {
    let version = world.row(payment).await.version;
    let wake = EngineWake::default();
    act(&world.means, &wake, (world.merchant, payment), version, &deed(what), People::One).await.unwrap();
}

async fn a_payment_that_needs_review_is_told_once(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Short]).await;
    world.go(payment).await;
    while world.row(payment).await.standing.state != StateName::NeedsReview {
        world.go_when_due(payment).await;
    }
    let alerts = told(&world).await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let alert = &alerts[0];
    assert_eq!((alert.kind, alert.merchant_id), (AlertKind::PaymentNeedsReview, world.merchant));
    assert_eq!((alert.subject.as_str(), alert.occurrences), ("payout_outcome_unknown", 1));
    assert_eq!(alert.ids, [payment.0]);
    let text = format!("payment {payment} at desk, needs_review: a payment needs review");
    assert_eq!(alert.last_text, text);
    world.go_when_due(payment).await;
    world.clock.set(world.clock.now().plus(Duration::from_hours(1)));
    assert_eq!(told(&world).await, [], "looking it up again tells nothing new");
}

async fn money_that_came_back_is_told(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    do_by_hand(&world, payment, Act::Returned).await;
    let alerts = told(&world).await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!((alerts[0].kind, alerts[0].ids.as_slice()), (AlertKind::PaymentReturned, &[payment.0][..]));
}

/// A person said that the payout was not done, and had it refunded; then the provider says that it was.
async fn a_final_state_with_late_evidence_is_told(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    do_by_hand(&world, payment, Act::Resolve(Outcome::NotPaid)).await;
    do_by_hand(&world, payment, Act::Refund).await;
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Refunded);
    assert_eq!(told(&world).await, [], "a person knows of it");
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let place = case
        .operations
        .iter()
        .position(|tracked| tracked.operation.memory.status == OperationStatus::Refused);
    let told_of_it = Told {
        window: Window::Open,
        corridor: None,
        instance: None,
        may_send: false,
        awaits_hint: false,
        waits: world.means.waits,
    };
    let place = place.unwrap();
    let report = Report {
        kind: Some(case.operations[place].operation.request.kind()),
        status: ReportStatus::Succeeded,
        asset: None,
        amount: None,
        bought_asset: None,
        bought_amount: None,
        destination_reference: None,
        provider_reference: None,
        refusal: None,
        reason: None,
    };
    let found = Seen::Found(Answer::Succeeded(Judgement::AsAsked));
    let now = world.clock.now();
    let advance = Advance::seen(case, place, found, Some(&report), &told_of_it, now).unwrap();
    world.writer.write(advance, None).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::Refunded, "a final state stays");
    let alerts = told(&world).await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert_eq!((alerts[0].kind, alerts[0].subject.as_str()), (AlertKind::PaymentNeedsReview, "moved late"));
}

async fn a_payment_on_its_usual_way_is_not_told(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Expired]);
    let payment = world.paying(&[Lie::OutOfGas, Lie::Lost]).await;
    world.go(payment).await;
    while world.row(payment).await.standing.state != StateName::Completed {
        world.go_when_due(payment).await;
    }
    assert_eq!(told(&world).await, []);
}

/// The same amount for the same destination twice in a day: people are told once, and both are settled.
async fn a_payment_that_is_likely_double_is_told_and_goes_on(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let first = world.paying(&[]).await;
    world.clock.set(world.clock.now().plus(Duration::from_hours(23)));
    let order = |reference: &str| PaymentOrder {
        destination_reference: world.order("pix", "USDC").destination_reference,
        ..world.order(reference, "USDC")
    };
    let second = world.receive(order("again")).await.unwrap();
    assert_eq!(world.receive(order("again")).await.unwrap(), second, "the same again");
    world.receive(world.order("elsewhere", "USDC")).await.unwrap();
    let alerts = told(&world).await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let alert = &alerts[0];
    assert_eq!((alert.kind, alert.merchant_id), (AlertKind::PaymentLikelyDouble, world.merchant));
    assert_eq!((alert.ids.as_slice(), alert.occurrences), (&[second.0][..], 1));
    let why = format!(
        "likely double: payment {first} brought the same amount for the same destination in the last 24 hours"
    );
    assert_eq!(alert.last_text, format!("payment {second}, received: {why}"));
    for (payment, expected) in [(first, None), (second, Some(why))] {
        let steps = world.store.payment_steps(world.merchant, payment).await.unwrap();
        let step: serde_json::Value = serde_json::from_str(&steps[0].step).unwrap();
        assert_eq!(step["note"].as_str(), expected.as_deref());
        assert_eq!(world.go(payment).await.standing.state, StateName::Completed, "it goes on");
    }
    world.assert_books().await;
    world.clock.set(world.clock.now().plus(Duration::from_hours(25)));
    world.receive(order("another day")).await.unwrap();
    assert_eq!(told(&world).await, []);
}

/// Somebody else changed the payment first: the step is not written, nor is it told.
async fn what_is_not_written_is_not_told(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let failed = Advance::failed(case, None, world.means.waits, world.clock.now()).unwrap();
    assert!(!failed.alerts.is_empty());
    world.go(payment).await;
    world.writer.write(failed, world.lease).await.unwrap();
    assert_eq!(told(&world).await, []);
}

/// A payout that counted as refused was made after all, and a person says that it is the payment's own.
async fn a_late_payout_that_a_person_adopts_is_settled(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    world.go(payment).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let told_of_it = Told {
        window: Window::Open,
        corridor: None,
        instance: None,
        may_send: false,
        awaits_hint: false,
        waits: world.means.waits,
    };
    let (place, found) = (case.operations.len() - 1, Seen::Found(Answer::Succeeded(Judgement::AsAsked)));
    let advance = Advance::seen(case, place, found, None, &told_of_it, world.clock.now()).unwrap();
    world.writer.write(advance, None).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::NeedsReview);
    do_by_hand(&world, payment, Act::Resolve(Outcome::Paid)).await;
    assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.settled().await, 1, "the merchant is told");
    let payout = world.operations(payment).await.pop().unwrap();
    assert_eq!((payout.status, payout.is_live), (OperationStatus::Succeeded, true));
    let checked = settle_engine::books::check(&*world.store, &*world.clock).await.unwrap();
    assert_eq!(checked.disagreements, []);
}
