//! The timeline tells how it became known what happened: that an answer was lost, that a look-up found it,
//! what the provider said, who asked for it.

use settle_domain::operation::OperationStatus;
use settle_domain::payment::{Act, Flag, Outcome, StateName};
use settle_engine::acts::{People, hint};
use settle_provider::wire::OperationKind as Asked;
use settle_store::PaymentFilter;
use settle_store::conformance::ScratchStore;

use crate::acts::{act_now, assert_books_agree};
use crate::desk::Lie;
use crate::world::World;

settle_testing::on_both_stores! {
    a_lost_answer_is_told_and_how_it_was_found,
    what_is_sent_again_is_told,
    a_refusal_that_proves_nothing_is_told_once,
    the_provider_s_own_words_are_told,
    who_is_overruled_is_told_and_named,
    what_follows_an_operator_s_word_is_the_engine_s_to_send,
    what_came_back_or_went_astray_is_found,
}

const NO_ANSWER: &str = "no answer says what became of it; it is looked up, and nothing else is sent";

async fn a_lost_answer_is_told_and_how_it_was_found(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.desk.silent(true);
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    world.go_when_due(payment).await;
    assert_eq!(world.notes(payment).await, [NO_ANSWER], "once, however often it is looked up in vain");
    world.desk.silent(false);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.notes(payment).await, [NO_ANSWER, "a look-up found it"]);
    // Who is answered at once has nothing to tell of it.
    let other = world.receive(world.order("other", "USDC")).await.unwrap();
    assert_eq!(world.go(other).await.standing.state, StateName::Completed);
    assert_eq!(world.notes(other).await, [""; 0]);
}

async fn what_is_sent_again_is_told(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.notes(payment).await, [NO_ANSWER, "it was sent again under the same key"]);
}

/// The first send may still be executed: that the second was refused ends nothing.
async fn a_refusal_that_proves_nothing_is_told_once(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped, Lie::Refuse, Lie::Refuse, Lie::Refuse]).await;
    world.go(payment).await;
    for _ in 0..3 {
        assert_eq!(world.go_when_due(payment).await.standing.state, StateName::PayingOut);
        assert_eq!(world.notes(payment).await, [NO_ANSWER]);
    }
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Completed);
}

async fn the_provider_s_own_words_are_told(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_eq!(world.notes(payment).await, ["the provider says: the desk does not want to"]);
}

/// Once its provider says that it was done, once that it never will be.
async fn who_is_overruled_is_told_and_named(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    for (lie, state, remark) in [
        (Lie::Lost, StateName::Completed, "but the provider says that it was done"),
        (Lie::Dropped, StateName::Failed, "it was voided: the provider will never begin it"),
    ] {
        world.desk.lies(Asked::Payout, &[lie]);
        let payment = world.receive(world.order(state.as_str(), "USDC")).await.unwrap();
        world.desk.silent(true);
        world.go(payment).await;
        world.desk.silent(false);
        let done = act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::One).await.unwrap();
        assert_eq!(done.payment.state.name(), state);
        assert_eq!(world.notes(payment).await[1], format!("the bank's statement; {remark}"));
        let steps = world.store.payment_steps(world.merchant, payment).await.unwrap();
        assert!(!steps.last().unwrap().step.contains(r#""by":"engine""#), "{steps:?}");
        assert_books_agree(&world).await;
    }
}

/// The conversion was done: the payout is not prepared by somebody who does not send it.
async fn what_follows_an_operator_s_word_is_the_engine_s_to_send(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    world.desk.lies(Asked::Conversion, &[Lie::Lost]);
    let payment = world.receive(world.order("lost", "USDC")).await.unwrap();
    world.desk.silent(true);
    world.go(payment).await;
    world.desk.silent(false);
    let done = act_now(&world, payment, Act::Resolve(Outcome::NotConverted), People::One).await.unwrap();
    assert_eq!(done.payment.state.name(), StateName::Converted);
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    let said = "the bank's statement; but the provider says that it was done";
    assert_eq!(world.notes(payment).await, [NO_ANSWER, said]);
}

/// A final state says that all is well: what is not has a flag.
async fn what_came_back_or_went_astray_is_found(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let found = async |flag| {
        let filter = PaymentFilter { flag: Some(flag), ..PaymentFilter::default() };
        let rows = world.store.payment_search(&filter, None, 10).await.unwrap();
        rows.iter().map(|row| (row.payment_id, row.standing.state)).collect::<Vec<_>>()
    };
    let returned = world.paying(&[]).await;
    world.go(returned).await;
    assert_eq!((found(Flag::Returned).await, found(Flag::Astray).await), (vec![], vec![]));
    act_now(&world, returned, Act::Returned, People::One).await.unwrap();
    assert_eq!(found(Flag::Returned).await, [(returned, StateName::Completed)]);
    // Its payout is refused, the payer has the money back, and then the payout is made.
    world.desk.lies(Asked::Payout, &[Lie::Flip(1)]);
    let astray = world.receive(world.order("astray", "USDC")).await.unwrap();
    world.go(astray).await;
    act_now(&world, astray, Act::Refund, People::One).await.unwrap();
    assert_eq!(world.go(astray).await.standing.state, StateName::Refunded);
    assert_eq!(found(Flag::Astray).await, []);
    let payout = world.operations(astray).await[1].operation_id;
    hint(&world.means, &world.wake, payout).await.unwrap();
    world.go_when_due(astray).await;
    assert_eq!(world.operations(astray).await[1].status, OperationStatus::Succeeded);
    assert_eq!(found(Flag::Astray).await, [(astray, StateName::Refunded)]);
}
