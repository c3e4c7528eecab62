//! Outcomes that are on record before their payments hear of them, and what is said of them meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use settle_domain::alert::AlertKind;
use settle_domain::ids::PaymentId;
use settle_domain::ledger::{Account, Late};
use settle_domain::operation::{Answer, Judgement, OperationKind, OperationStatus, Seen, Window};
use settle_domain::payment::{Act, Flag, Outcome, StateName};
use settle_domain::seams::SeededEntropy;
use settle_engine::acts::{People, hint};
use settle_engine::advance::{Advance, Told};
use settle_engine::life::{Errands, errands, live};
use settle_engine::writer::{Writer, Written};
use settle_outbox::wake::Wake;
use settle_outbox::{Faults, Outbox};
use settle_provider::wire::{OperationKind as Asked, OperationStatus as Status};
use settle_store::conformance::ScratchStore;
use settle_store::{StoreError, StoreResult};

use crate::acts::{act_now, assert_books_agree};
use crate::desk::Lie;
use crate::notices::{do_by_hand, told};
use crate::world::{World, at};

settle_testing::on_both_stores! {
    a_refusal_is_heard_before_the_provider_takes_it_back,
    a_payment_hears_the_last_word_on_what_it_waits_for,
    what_came_back_before_its_payment_heard_of_it_is_not_completed,
    who_says_what_is_on_record_already_is_named_with_the_evidence,
    an_expired_quote_is_still_one_when_its_shard_changes_hands,
    news_that_the_database_refuses_are_asked_for_again,
    news_that_the_database_refuses_keep_nobody_from_what_is_in_flight,
    an_outcome_that_the_database_refuses_keeps_nobody_from_what_was_hinted_at,
    what_came_back_after_the_end_is_asked_for_again_when_the_database_refuses_it,
}

/// The shard changes hands while a send of this kind is under way.
async fn go_until_the_shard_is_lost(world: &World, payment: PaymentId, kind: Asked) {
    world.desk.keep_back(Some(kind));
    let sends = world.desk.sends() + if kind == Asked::Payout { 2 } else { 1 };
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let mut lived = pin!(live(&world.means, case, world.lease()));
    tokio::select! {
        lived = &mut lived => panic!("it waits for the provider: {lived:?}"),
        () = world.desk.until(|desk| desk.sends() == sends) => {}
    }
    let mut tx = world.store.begin().await.unwrap();
    tx.queue_release(&[world.lease()]).await.unwrap();
    tx.commit().await.unwrap();
    world.desk.keep_back(None);
    lived.await.unwrap();
}

async fn look_at_the_payout(world: &World, payment: PaymentId) {
    let payout = world.operations(payment).await[1].operation_id;
    hint(&world.means, &world.wake, payout).await.unwrap();
    world.go(payment).await;
}

async fn a_refusal_is_heard_before_the_provider_takes_it_back(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(0)]).await;
    go_until_the_shard_is_lost(&world, payment, Asked::Payout).await;
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Refused, "it is on record");
    assert_eq!(world.row(payment).await.standing.state, StateName::PayingOut);
    world.take_the_shards().await;
    look_at_the_payout(&world, payment).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Payout, moved: true }));
    assert_eq!((case.payment.state.name(), world.settled().await), (StateName::NeedsReview, 0));
    assert_eq!(world.balance(Account::Astray, "USDC").await, "181.149631");
    do_by_hand(&world, payment, Act::Resolve(Outcome::Paid)).await;
    for account in [Account::Astray, Account::HouseLoss] {
        assert_eq!(world.balance(account, "USDC").await, "0.000000", "{account}");
    }
    world.assert_completed_once(payment).await;
    assert_books_agree(&world).await;
}

/// Another node learns that the refused payout was made, and neither serves the payment.
async fn a_payment_hears_the_last_word_on_what_it_waits_for(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(0)]).await;
    go_until_the_shard_is_lost(&world, payment, Asked::Payout).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let (window, waits) = (Window::Open, world.means.waits);
    let told = Told { window, corridor: None, instance: None, may_send: false, awaits_hint: false, waits };
    let done = Seen::Found(Answer::Succeeded(Judgement::AsAsked));
    let said = world.desk.says(case.operations[1].operation.operation_id.0);
    assert_eq!(said, Some(Status::Succeeded), "it takes its refusal back");
    let evidence = Advance::evidence(case, 1, done, None, &told, at(1));
    assert_eq!(world.writer.write(evidence, None).await.unwrap(), Written::Done);
    world.take_the_shards().await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_books_agree(&world).await;
    world.desk.returns(Asked::Payout);
    look_at_the_payout(&world, payment).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!((case.payment.late, case.payment.flag()), (None, Some(Flag::Returned)), "it was its own");
    assert_books_agree(&world).await;
}

async fn what_came_back_before_its_payment_heard_of_it_is_not_completed(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    go_until_the_shard_is_lost(&world, payment, Asked::Payout).await;
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Succeeded, "it is on record");
    world.desk.returns(Asked::Payout);
    world.take_the_shards().await;
    look_at_the_payout(&world, payment).await;
    assert_eq!(world.row(payment).await.standing.state, StateName::NeedsReview);
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Returned);
    act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::One).await.unwrap();
    act_now(&world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.settled().await, 1);
    assert_books_agree(&world).await;
}

/// The database refuses the step that the refusal makes, and an operator makes it before the engine does.
async fn who_says_what_is_on_record_already_is_named_with_the_evidence(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    let refuses = with_refusals(&mut world);
    world.desk.keep_back(Some(Asked::Payout));
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    {
        let mut lived = pin!(live(&world.means, case, world.lease()));
        tokio::select! {
            lived = &mut lived => panic!("it waits for the provider: {lived:?}"),
            () = world.desk.until(|desk| desk.sends() == 2) => {}
        }
        refuses.once();
        world.desk.keep_back(None);
        lived.await.unwrap();
    }
    assert_eq!(world.row(payment).await.standing.state, StateName::NeedsReview);
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Refused);
    act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::One).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::Failed);
    let notes = world.notes(payment).await;
    assert_eq!(notes.iter().filter(|note| note.contains("the bank's statement")).count(), 1, "{notes:?}");
    assert_books_agree(&world).await;
}

async fn an_expired_quote_is_still_one_when_its_shard_changes_hands(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    world.desk.lies(Asked::Conversion, &[Lie::Expired]);
    let payment = world.receive(world.order("pix", "USDC")).await.unwrap();
    go_until_the_shard_is_lost(&world, payment, Asked::Conversion).await;
    assert_eq!(world.operations(payment).await[0].status, OperationStatus::Refused);
    world.take_the_shards().await;
    world.go(payment).await;
    world.assert_completed_once(payment).await;
}

/// A database that refuses so many commits.
struct Refuses(AtomicUsize);

impl Refuses {
    fn once(&self) {
        self.0.store(1, Ordering::Relaxed);
    }
}

impl Faults for Refuses {
    fn begins(&self) -> StoreResult<()> {
        Ok(())
    }

    fn commits(&self) -> StoreResult<()> {
        let one_less = |left: usize| left.checked_sub(1);
        match self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less) {
            Ok(_) => Err(StoreError::unexpected("it is refused")),
            Err(_) => Ok(()),
        }
    }

    fn committed(&self) -> StoreResult<()> {
        Ok(())
    }
}

/// From now on the database refuses so many commits of the engine as are asked for.
fn with_refusals(world: &mut World) -> Arc<Refuses> {
    let entropy = Arc::new(SeededEntropy::new(20_261_119));
    let outbox = Outbox::of_service(world.store.share(), Wake::default(), world.clock.clone(), entropy);
    let refuses = Arc::new(Refuses(AtomicUsize::new(0)));
    let outbox = outbox.with_faults(refuses.clone());
    world.means.writer = Writer::start(outbox, world.wake.clone(), world.clock.clone());
    refuses
}

/// The payout was refused, and made all the same after an operator had looked.
async fn news_that_the_database_refuses_are_asked_for_again(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(1)]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    do_by_hand(&world, payment, Act::Retry).await;
    let payout = world.operations(payment).await[1].operation_id;
    hint(&world.means, &world.wake, payout).await.unwrap();
    with_refusals(&mut world).once();
    assert_eq!(world.go(payment).await.standing.state, StateName::NeedsReview);
    world.go_when_due(payment).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Payout, moved: true }));
    assert_eq!(world.balance(Account::Astray, "USDC").await, "181.149631");
    act_now(&world, payment, Act::Resolve(Outcome::Paid), People::One).await.unwrap();
    world.assert_completed_once(payment).await;
    assert_books_agree(&world).await;
}

/// The second payout is in flight when the first turns out to have been made.
async fn news_that_the_database_refuses_keep_nobody_from_what_is_in_flight(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(1), Lie::Dropped]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    let payout = world.operations(payment).await[1].operation_id;
    hint(&world.means, &world.wake, payout).await.unwrap();
    with_refusals(&mut world).once();
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview);
    for place in [2, 1] {
        let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
        assert_eq!(errands(&case), Errands::LookUp(place), "in turn");
        world.go_when_due(payment).await;
    }
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Payout, moved: true }));
    assert_books_agree(&world).await;
}

/// The second payout is in flight when the first is hinted at, and its outcome is not recorded.
async fn an_outcome_that_the_database_refuses_keeps_nobody_from_what_was_hinted_at(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse, Lie::Pending]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    world.go_when_due(payment).await;
    let payout = world.operations(payment).await[1].operation_id;
    world.desk.silent(true);
    hint(&world.means, &world.wake, payout).await.unwrap();
    world.go(payment).await;
    world.desk.silent(false);
    with_refusals(&mut world).once();
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview);
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(errands(&case), Errands::LookUp(1), "in turn");
    world.go_when_due(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
    assert_books_agree(&world).await;
}

async fn what_came_back_after_the_end_is_asked_for_again_when_the_database_refuses_it(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    world.desk.returns(Asked::Payout);
    let payout = world.operations(payment).await[1].operation_id;
    hint(&world.means, &world.wake, payout).await.unwrap();
    with_refusals(&mut world).once();
    let standing = world.go(payment).await.standing;
    assert_eq!(standing.state, StateName::Completed);
    assert!(standing.due_at > Some(world.means.clock.now()), "not at once");
    let alerts = told(&world).await;
    assert_eq!(alerts.iter().map(|alert| alert.kind).collect::<Vec<_>>(), [AlertKind::PaymentNeedsReview]);
    world.go_when_due(payment).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.flag(), Some(Flag::Returned));
    assert_books_agree(&world).await;
}
