//! A provider's hint makes the engine look, also at what has ended, and once.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::ledger::Account;
use settle_domain::operation::{Answer, OperationStatus, Refusal, RefusalCode, Seen, Window};
use settle_domain::payment::{Act, StateName};
use settle_domain::reason::Blocked;
use settle_domain::seams::Clock;
use settle_engine::acts::hint;
use settle_engine::advance::{Advance, Told};
use settle_engine::life::{Errands, errands};
use settle_engine::writer::Written;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::acts::assert_books_agree;
use crate::desk::Lie;
use crate::notices::do_by_hand;
use crate::world::World;

settle_testing::on_both_stores! {
    money_that_came_back_is_seen_when_the_provider_hints_at_it,
    a_refused_payout_that_was_made_stops_the_next_when_the_provider_hints_at_it,
    nothing_goes_out_before_the_provider_tells_what_it_hinted_at,
    nothing_is_sent_again_before_the_provider_tells_what_it_hinted_at,
    what_waits_to_be_sent_again_is_looked_up_while_a_hint_is_not_answered,
    what_a_former_provider_hinted_at_holds_a_payment_back_for_an_hour,
    an_answer_to_a_send_is_not_what_was_hinted_at,
    what_one_memory_hinted_at_and_another_answers_for_is_not_waited_for_long,
    a_hint_is_kept_although_somebody_changes_the_payment,
    what_a_provider_hinted_at_and_does_not_tell_is_not_asked_for_ever,
    hints_without_news_cost_one_look,
}

async fn money_that_came_back_is_seen_when_the_provider_hints_at_it(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    world.assert_completed_once(payment).await;
    let payout = world.operations(payment).await[1].operation_id;
    world.desk.returns(Asked::Payout);
    hint(&world.means, &world.wake, payout).await.unwrap();
    let row = world.go_when_due(payment).await;
    assert_eq!((row.standing.state, row.standing.due_at), (StateName::Completed, None), "the record stays");
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Returned);
    assert_eq!(world.balance(Account::Returned, "USDC").await, "181.149631");
    hint(&world.means, &world.wake, payout).await.unwrap();
    assert_eq!(world.row(payment).await.standing.due_at, None, "there is no more to learn");
    assert_books_agree(&world).await;
}

/// The provider takes its refusal back when an operator has looked, and the engine has not sent yet.
async fn a_refused_payout_that_was_made_stops_the_next_when_the_provider_hints_at_it(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(1)]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    do_by_hand(&world, payment, Act::Retry).await;
    hint(&world.means, &world.wake, world.operations(payment).await[1].operation_id).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::NeedsReview);
    assert_eq!(world.desk.executed(Asked::Payout).len(), 1, "nothing more is sent");
    assert_books_agree(&world).await;
}

/// The provider has taken its refusal back, hints at it, and does not answer when it is asked.
async fn nothing_goes_out_before_the_provider_tells_what_it_hinted_at(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    for (reference, act, begun) in
        [("first", Act::Retry, StateName::Converted), ("second", Act::Refund, StateName::Refunding)]
    {
        world.desk = Arc::default();
        world.restart();
        world.corridor("BRL", "USDC", "0").await;
        world.desk.lies(Asked::Payout, &[Lie::Flip(1)]);
        let payment = world.receive(world.order(reference, "USDC")).await.unwrap();
        assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
        do_by_hand(&world, payment, act).await;
        let payout = world.operations(payment).await[1].operation_id;
        hint(&world.means, &world.wake, payout).await.unwrap();
        world.desk.silent(true);
        for _ in 0..3 {
            let row = world.go_when_due(payment).await;
            let blocked = (begun, Some(Blocked::ProviderUnavailable));
            assert_eq!((row.standing.state, row.standing.blocked), blocked);
            assert_eq!(world.desk.sends(), 2, "nothing more is sent");
        }
        world.desk.silent(false);
        assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview);
        assert_eq!(world.desk.executed(Asked::Payout).len(), 1);
        assert!(world.desk.executed(Asked::Refund).is_empty());
    }
    assert_books_agree(&world).await;
}

/// The payout of a retry may be on its way, and its provider does not know it. It has made the first.
async fn nothing_is_sent_again_before_the_provider_tells_what_it_hinted_at(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(1), Lie::Dropped]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    hint(&world.means, &world.wake, world.operations(payment).await[1].operation_id).await.unwrap();
    let sends = world.desk.sends();
    world.desk.silent(true);
    for _ in 0..9 {
        let due_at = world.go_when_due(payment).await.standing.due_at.unwrap();
        assert!(due_at <= world.clock.now().plus(Duration::from_mins(1)), "nobody knows of the second");
    }
    world.desk.silent(false);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::PayingOut);
    assert_eq!(world.desk.sends(), sends, "the first is asked about before the second is sent again");
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview);
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.desk.sends()), (1, sends));
    assert_books_agree(&world).await;
}

/// The second payout may be on its way; a pause keeps it from being sent again.
async fn what_waits_to_be_sent_again_is_looked_up_while_a_hint_is_not_answered(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse, Lie::Dropped]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    world.means.providers.all().for_each(|desk| desk.pause(true));
    world.go_when_due(payment).await;
    hint(&world.means, &world.wake, world.operations(payment).await[1].operation_id).await.unwrap();
    world.desk.silent(true);
    let mut looks = Vec::new();
    for _ in 0..4 {
        let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
        looks.push(errands(&case));
        world.go_when_due(payment).await;
    }
    let (first, second) = (Errands::LookUp(1), Errands::LookUp(2));
    assert_eq!(looks, [second, first, second, first], "in turn");
}

/// The first provider has refused, hints that it did it after all, and is gone.
async fn what_a_former_provider_hinted_at_holds_a_payment_back_for_an_hour(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    world.desk.lies(Asked::Conversion, &[Lie::Refuse]);
    let payment = world.receive(world.order("pix", "USDC")).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    world.corridor_of(world.merchant, "other", ("BRL", "USDC"), "0").await;
    world.restart();
    world.desk.silent(true);
    do_by_hand(&world, payment, Act::Retry).await;
    hint(&world.means, &world.wake, world.operations(payment).await[0].operation_id).await.unwrap();
    let began = world.clock.now();
    while world.clock.now() < began.plus(Duration::from_mins(55)) {
        let standing = world.go_when_due(payment).await.standing;
        assert_eq!((standing.state, standing.provider), (StateName::Received, None), "it may have been done");
    }
    while world.clock.now() < began.plus(Duration::from_mins(70)) {
        if world.go_when_due(payment).await.standing.state == StateName::Completed {
            break;
        }
    }
    assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.other_desk.executed(Asked::Conversion).len(), 1);
}

/// The answer to the send is older than the hint.
async fn an_answer_to_a_send_is_not_what_was_hinted_at(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(0)]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    hint(&world.means, &world.wake, world.operations(payment).await[1].operation_id).await.unwrap();
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let (window, waits) = (Window::Open, world.means.waits);
    let told = Told { window, corridor: None, instance: None, may_send: true, awaits_hint: true, waits };
    let refused = Seen::Answered(Answer::Refused(Refusal::of(RefusalCode::PayoutRefused)));
    let answered = Advance::seen(case, 1, refused, None, &told, world.clock.now()).unwrap();
    assert_eq!(world.writer.write(answered, world.lease).await.unwrap(), Written::Done);
    world.go_when_due(payment).await;
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Succeeded, "it is asked about");
}

/// A refused payout is hinted at once more, by what its provider's first memory had sent.
async fn what_one_memory_hinted_at_and_another_answers_for_is_not_waited_for_long(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    do_by_hand(&world, payment, Act::Retry).await;
    world.desk.forget("two");
    hint(&world.means, &world.wake, world.operations(payment).await[1].operation_id).await.unwrap();
    let (sends, began) = (world.desk.sends(), world.clock.now());
    while world.clock.now() < began.plus(Duration::from_mins(55)) {
        world.go_when_due(payment).await;
        assert_eq!(world.desk.sends(), sends, "people have an hour to look");
    }
    while world.clock.now() < began.plus(Duration::from_mins(70)) && world.desk.sends() == sends {
        world.go_when_due(payment).await;
    }
    world.assert_completed_once(payment).await;
}

/// The hint has read the payment, and something else is written first.
async fn a_hint_is_kept_although_somebody_changes_the_payment(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    let payout = world.operations(payment).await[1].operation_id;
    let read = async || world.means.read(world.merchant, payment).await.unwrap().unwrap();
    for _ in 0..20 {
        let now = world.means.clock.now();
        world.writer.write(Advance::at_rest(read().await, now), world.lease).await.unwrap();
        let changes = async {
            for _ in 0..3 {
                world
                    .writer
                    .write(Advance::waits(read().await, None, world.means.waits, now), None)
                    .await
                    .unwrap();
            }
        };
        let (hinted, ()) = tokio::join!(hint(&world.means, &world.wake, payout), changes);
        hinted.unwrap();
        assert_eq!(read().await.hinted(), Some(1), "it is to be looked up");
        world.go(payment).await;
    }
}

async fn what_a_provider_hinted_at_and_does_not_tell_is_not_asked_for_ever(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    let payout = world.operations(payment).await[1].operation_id;
    world.desk.silent(true);
    for _ in 0..2 {
        hint(&world.means, &world.wake, payout).await.unwrap();
        let looks = world.desk.look_ups();
        while world.row(payment).await.standing.due_at.is_some() {
            world.go_when_due(payment).await;
        }
        assert_eq!(world.desk.look_ups(), looks + 21);
    }
    world.assert_completed_once(payment).await;
}

async fn hints_without_news_cost_one_look(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    let (looks, payout) = (world.desk.look_ups(), world.operations(payment).await[1].operation_id);
    for _ in 0..2 {
        let before = world.row(payment).await.version;
        for _ in 0..3 {
            hint(&world.means, &world.wake, payout).await.unwrap();
        }
        assert_eq!(world.row(payment).await.version, before + 1, "they are one");
        world.go_when_due(payment).await;
        world.assert_completed_once(payment).await;
    }
    assert_eq!(world.desk.look_ups(), looks + 2);
    // Both operations are hinted at before the engine gets to look.
    for operation in world.operations(payment).await {
        hint(&world.means, &world.wake, operation.operation_id).await.unwrap();
    }
    world.go_when_due(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
    assert_eq!(world.desk.look_ups(), looks + 4);
}
