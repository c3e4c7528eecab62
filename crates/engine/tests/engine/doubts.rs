//! What a provider refused and did all the same is not done a second time: whoever retries or refunds has it
//! asked first.

use settle_domain::error_code::ErrorCode;
use settle_domain::ids::PaymentId;
use settle_domain::operation::OperationStatus;
use settle_domain::payment::{Act, Outcome, StateName};
use settle_domain::reason::Blocked;
use settle_engine::acts::{ActError, People, hint};
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::acts::{act_now, assert_books_agree};
use crate::desk::Lie;
use crate::notices::do_by_hand;
use crate::world::World;

settle_testing::on_both_stores! {
    a_refused_payout_that_was_made_is_not_made_again,
    a_refused_conversion_that_was_made_is_not_made_again,
    a_refused_refund_that_was_made_is_not_paid_out,
    a_refused_payout_that_the_provider_is_at_again_is_waited_for,
    what_was_given_up_is_asked_about_too,
    a_provider_that_says_nothing_new_lets_the_act_go_on,
    nobody_alone_says_that_what_was_made_was_not,
    what_came_back_is_not_paid_at_one_person_s_word,
    nobody_alone_sends_again_what_only_people_gave_up,
    what_went_out_after_all_is_not_paid_back_when_the_provider_is_there_again,
    what_people_gave_up_is_looked_up_before_another_is_sent,
    what_people_gave_up_is_looked_up_before_another_is_sent_again,
    a_refund_that_was_given_up_is_looked_up_before_the_payout_too,
    what_was_never_sent_is_voided_by_one_person,
}

/// The act is refused with the code, nothing was sent for it, and a person must look.
async fn assert_halts(world: &World, payment: PaymentId, act: Act, code: ErrorCode) {
    let sends = world.desk.sends();
    let refused = act_now(world, payment, act, People::One).await;
    assert_eq!(refused.map(|_| ()).map_err(|error| error.code()), Err(code), "{act:?}");
    assert_eq!(world.row(payment).await.standing.state, StateName::NeedsReview, "{act:?}");
    assert_eq!(world.desk.sends(), sends, "{act:?}");
    assert_books_agree(world).await;
}

/// The provider falls silent, and two people say that the payout was not made.
pub async fn give_up_in_silence(world: &World, payment: PaymentId) {
    world.desk.deaf(true);
    world.desk.silent(true);
    act_now(world, payment, Act::Resolve(Outcome::NotPaid), People::Two).await.unwrap();
}

async fn a_refused_payout_that_was_made_is_not_made_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    for (number, act) in [Act::Retry, Act::Refund].into_iter().enumerate() {
        world.desk.lies(Asked::Payout, &[Lie::Flip(0)]);
        let payment = world.receive(world.order(&number.to_string(), "USDC")).await.unwrap();
        assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
        assert_halts(&world, payment, act, ErrorCode::PayoutOutcomeUnknown).await;
        assert_eq!(world.operations(payment).await[1].status, OperationStatus::Succeeded, "it is on record");
        do_by_hand(&world, payment, Act::Resolve(Outcome::Paid)).await;
        assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
        assert_eq!(world.desk.executed(Asked::Payout).len(), number + 1, "each once");
        assert_eq!((world.desk.executed(Asked::Refund).len(), world.settled().await), (0, number + 1));
        assert_books_agree(&world).await;
    }
}

async fn a_refused_conversion_that_was_made_is_not_made_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    for (number, act) in [Act::Retry, Act::Refund].into_iter().enumerate() {
        world.desk.lies(Asked::Conversion, &[Lie::Flip(0)]);
        let payment = world.receive(world.order(&number.to_string(), "USDC")).await.unwrap();
        assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
        assert_halts(&world, payment, act, ErrorCode::ConversionOutcomeUnknown).await;
        do_by_hand(&world, payment, Act::Resolve(Outcome::Converted)).await;
        assert_eq!(world.go(payment).await.standing.state, StateName::Completed, "it was the payment's own");
        assert_eq!(world.desk.executed(Asked::Conversion).len(), number + 1, "each once");
        assert_eq!(world.desk.executed(Asked::Refund).len(), 0);
        assert_books_agree(&world).await;
    }
}

/// The payer has the money back: a retry would pay the merchant as well.
async fn a_refused_refund_that_was_made_is_not_paid_out(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Refund, &[Lie::Flip(0), Lie::Flip(0)]);
    let payment = world.paying(&[Lie::Refuse]).await;
    world.go(payment).await;
    do_by_hand(&world, payment, Act::Refund).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_halts(&world, payment, Act::Retry, ErrorCode::PayoutOutcomeUnknown).await;
    // Before a conversion it is the same.
    world.desk.lies(Asked::Conversion, &[Lie::Refuse]);
    let payment = world.receive(world.order("unconverted", "USDC")).await.unwrap();
    world.go(payment).await;
    do_by_hand(&world, payment, Act::Refund).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_halts(&world, payment, Act::Retry, ErrorCode::PayoutOutcomeUnknown).await;
    assert_eq!(world.desk.executed(Asked::Payout).len(), 0);
}

async fn a_refused_payout_that_the_provider_is_at_again_is_waited_for(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::FlipToPending]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_halts(&world, payment, Act::Retry, ErrorCode::PayoutOutcomeUnknown).await;
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Accepted);
    world.go_when_due(payment).await;
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Succeeded, "it is looked up");
    do_by_hand(&world, payment, Act::Resolve(Outcome::Paid)).await;
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.settled().await), (1, 1));
    assert_books_agree(&world).await;
}

/// Two people said that the payout was not made, while its provider gave no answer.
async fn what_was_given_up_is_asked_about_too(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.go(payment).await;
    world.desk.deaf(true);
    act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::Two).await.unwrap();
    world.desk.deaf(false);
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::GivenUp);
    assert_halts(&world, payment, Act::Retry, ErrorCode::PayoutOutcomeUnknown).await;
    assert_eq!(world.desk.executed(Asked::Payout).len(), 1);
}

async fn a_provider_that_says_nothing_new_lets_the_act_go_on(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse, Lie::Refuse]).await;
    world.go(payment).await;
    let look_ups = world.desk.look_ups();
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.desk.look_ups(), look_ups + 1, "it says that there is none");
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    world.desk.silent(true);
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed, "its refusal was its word");
    assert_eq!(world.desk.executed(Asked::Payout).len(), 1);
}

/// The provider had refused the payout, made it, and says so.
async fn nobody_alone_says_that_what_was_made_was_not(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(0)]).await;
    world.go(payment).await;
    assert_halts(&world, payment, Act::Retry, ErrorCode::PayoutOutcomeUnknown).await;
    let not_paid = Act::Resolve(Outcome::NotPaid);
    for is_silent in [false, true] {
        world.desk.silent(is_silent);
        let alone = act_now(&world, payment, not_paid, People::One).await;
        assert!(matches!(alone, Err(ActError::Contradicted)), "{alone:?}");
    }
    world.desk.silent(false);
    let done = act_now(&world, payment, not_paid, People::Two).await.unwrap();
    assert_eq!(done.payment.state.name(), StateName::Failed);
    let sends = world.desk.sends();
    for act in [Act::Retry, Act::Refund] {
        let alone = act_now(&world, payment, act, People::One).await;
        assert!(matches!(alone, Err(ActError::Contradicted)), "{act:?}: {alone:?}");
    }
    assert_eq!((world.row(payment).await.standing.state, world.desk.sends()), (StateName::Failed, sends));
    assert_books_agree(&world).await;
}

async fn what_came_back_is_not_paid_at_one_person_s_word(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(0)]).await;
    world.go(payment).await;
    assert_halts(&world, payment, Act::Retry, ErrorCode::PayoutOutcomeUnknown).await;
    world.desk.returns(Asked::Payout);
    let not_paid = Act::Resolve(Outcome::NotPaid);
    let news = act_now(&world, payment, not_paid, People::One).await;
    assert!(matches!(news, Err(ActError::Stale { .. })), "{news:?}");
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Returned, "it is on record");
    act_now(&world, payment, not_paid, People::One).await.unwrap();
    act_now(&world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_books_agree(&world).await;
}

/// Two people gave the payout up while its provider gave no answer, and it still gives none.
async fn nobody_alone_sends_again_what_only_people_gave_up(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    for act in [Act::Retry, Act::Refund] {
        let alone = act_now(&world, payment, act, People::One).await;
        assert!(matches!(alone, Err(ActError::Unconfirmed)), "{act:?}: {alone:?}");
    }
    let done = act_now(&world, payment, Act::Refund, People::Two).await.unwrap();
    assert_eq!(done.payment.state.name(), StateName::Refunding);
}

/// The payout was made, its provider fell silent, two people gave it up and pay the payer back.
async fn what_went_out_after_all_is_not_paid_back_when_the_provider_is_there_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    for (number, act) in [Act::Refund, Act::Retry].into_iter().enumerate() {
        world.desk.lies(Asked::Payout, &[Lie::Lost]);
        let payment = world.receive(world.order(&number.to_string(), "USDC")).await.unwrap();
        world.go(payment).await;
        give_up_in_silence(&world, payment).await;
        act_now(&world, payment, act, People::Two).await.unwrap();
        let sends = world.desk.sends();
        let waiting = world.go(payment).await;
        assert_eq!(
            (waiting.standing.blocked, world.desk.sends()),
            (Some(Blocked::ProviderUnavailable), sends)
        );
        world.desk.deaf(false);
        world.desk.silent(false);
        for _ in 0..3 {
            let state = world.go_when_due(payment).await.standing.state;
            assert_eq!((state, world.desk.sends()), (StateName::NeedsReview, sends), "{act:?}");
            if world.row(payment).await.standing.due_at.is_none() {
                break;
            }
        }
        assert_books_agree(&world).await;
    }
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.desk.executed(Asked::Refund).len()), (2, 0));
}

async fn what_people_gave_up_is_looked_up_before_another_is_sent(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    act_now(&world, payment, Act::Retry, People::Two).await.unwrap();
    world.desk.deaf(false);
    world.desk.silent(false);
    let look_ups = world.desk.look_ups();
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.desk.look_ups(), look_ups + 1, "its provider does not know it");
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.settled().await), (1, 1));
    assert_books_agree(&world).await;
}

/// The first payout's request arrives when the second may be on its way, and its provider hints at it.
async fn what_people_gave_up_is_looked_up_before_another_is_sent_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Late, Lie::Dropped]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    act_now(&world, payment, Act::Retry, People::Two).await.unwrap();
    world.desk.deaf(false);
    world.desk.silent(false);
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut, "its provider does not know it");
    let (sends, payout) = (world.desk.sends(), world.operations(payment).await[1].operation_id);
    hint(&world.means, &world.wake, payout).await.unwrap();
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview);
    assert_eq!((world.desk.executed(Asked::Payout), world.desk.sends()), (vec![payout.0], sends));
    assert_books_agree(&world).await;
}

/// Nothing was converted when the refund was given up; the conversion takes long, and the payout follows it.
async fn a_refund_that_was_given_up_is_looked_up_before_the_payout_too(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    world.desk.lies(Asked::Conversion, &[Lie::Refuse, Lie::Pending]);
    world.desk.lies(Asked::Refund, &[Lie::Dropped]);
    let payment = world.receive(world.order("given up", "USDC")).await.unwrap();
    world.go(payment).await;
    do_by_hand(&world, payment, Act::Refund).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Refunding);
    world.desk.deaf(true);
    act_now(&world, payment, Act::Resolve(Outcome::NotRefunded), People::Two).await.unwrap();
    world.desk.deaf(false);
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Converting);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Converting);
    let look_ups = world.desk.look_ups();
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.desk.look_ups(), look_ups + 2, "the conversion, and then the refund");
    assert_books_agree(&world).await;
}

/// The payment stopped while its refund waited to be sent: whoever answers for the provider can void it.
async fn what_was_never_sent_is_voided_by_one_person(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    act_now(&world, payment, Act::Refund, People::Two).await.unwrap();
    world.desk.deaf(false);
    world.desk.silent(false);
    assert_eq!(world.go(payment).await.standing.state, StateName::NeedsReview, "the payout was made");
    let sends = world.desk.sends();
    // A look-up in between changes nothing of that.
    world.go_when_due(payment).await;
    let not_refunded = Act::Resolve(Outcome::NotRefunded);
    let done = act_now(&world, payment, not_refunded, People::One).await.unwrap();
    assert_eq!(done.payment.state.name(), StateName::NeedsReview, "now for the payout");
    assert_eq!(world.operations(payment).await[2].status, OperationStatus::Refused);
    act_now(&world, payment, Act::Resolve(Outcome::Paid), People::One).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.desk.sends(), sends);
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.settled().await), (1, 1));
    assert_books_agree(&world).await;
}
