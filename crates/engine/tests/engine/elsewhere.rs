//! What moves without its payment: learnt by who no longer serves it, at another provider, after a long time,
//! or beside another operation of its kind. It stops the payment, and is told, booked and recorded as it is.

use std::time::Duration;

use settle_domain::ids::PaymentId;
use settle_domain::ledger::{Account, Late};
use settle_domain::operation::{OperationKind, OperationStatus, Seen, Window};
use settle_domain::payment::{Act, Flag, Outcome, StateName};
use settle_engine::acts::{ActError, People, act, hint};
use settle_engine::advance::{Advance, Deed, Told};
use settle_engine::case::Case;
use settle_engine::life::live;
use settle_engine::writer::Written;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::{ScratchStore, fixtures};

use crate::acts::{act_now, assert_books_agree};
use crate::desk::Lie;
use crate::doubts::give_up_in_silence;
use crate::notices::deed;
use crate::world::{World, at};

settle_testing::on_both_stores! {
    what_went_out_after_all_is_not_paid_again_when_its_shard_changes_hands,
    what_came_back_is_told_when_its_shard_changes_hands,
    a_late_conversion_is_judged_by_its_own_quote,
    the_payout_that_was_made_is_the_one_that_a_person_speaks_of,
    of_two_that_were_made_the_one_that_did_not_come_back_counts,
    a_refund_that_was_made_counts_when_the_payout_came_back,
    money_that_went_out_outweighs_a_conversion_when_other_money_came_back,
    what_was_paid_to_the_first_destination_is_recorded_there,
    nobody_says_that_something_else_was_bought_than_the_books_have,
    what_its_provider_never_got_is_cancelled,
    what_is_being_sent_is_not_cancelled,
    who_sends_and_who_cancels_at_once_are_not_both_heard,
    a_payout_that_was_made_outweighs_a_conversion_that_was,
}

/// Another node takes the shard while this one takes the payment on.
async fn go_without_the_shard(world: &World, payment: PaymentId) -> Case {
    let read = async || world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let case = read().await;
    let mut tx = world.store.begin().await.unwrap();
    tx.queue_release(&[world.lease()]).await.unwrap();
    tx.commit().await.unwrap();
    live(&world.means, case, world.lease()).await.unwrap();
    read().await
}

async fn act_with(world: &World, payment: PaymentId, deed: &Deed, people: People) -> Result<Case, ActError> {
    let version = world.row(payment).await.version;
    act(&world.means, &world.wake, (world.merchant, payment), version, deed, people).await
}

/// The provider hints at an operation, and the engine looks.
async fn hinted(world: &World, payment: PaymentId, place: usize) -> StateName {
    let operation = world.operations(payment).await[place].operation_id;
    hint(&world.means, &world.wake, operation).await.unwrap();
    world.go_when_due(payment).await.standing.state
}

async fn settlement(world: &World) -> serde_json::Value {
    let rows = fixtures::settlements(&*world.store, world.merchant, 2, 0).await.rows;
    assert_eq!(rows.len(), 1);
    serde_json::from_str(rows[0].as_str()).unwrap()
}

/// Two people gave the payout up while its provider was silent, and retry. It was made.
async fn what_went_out_after_all_is_not_paid_again_when_its_shard_changes_hands(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    act_now(&world, payment, Act::Retry, People::Two).await.unwrap();
    world.desk.deaf(false);
    world.desk.silent(false);
    let sends = world.desk.sends();
    let case = go_without_the_shard(&world, payment).await;
    assert_eq!(case.payment.state.name(), StateName::NeedsReview);
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Payout, moved: true }));
    assert_eq!(case.due_at, Some(world.means.clock.now()), "whoever serves it now looks at it");
    assert_eq!(world.desk.sends(), sends);
    assert_books_agree(&world).await;
}

async fn what_came_back_is_told_when_its_shard_changes_hands(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    world.desk.returns(Asked::Payout);
    let payout = world.operations(payment).await[1].operation_id;
    hint(&world.means, &world.wake, payout).await.unwrap();
    let case = go_without_the_shard(&world, payment).await;
    assert_eq!(case.payment.flag(), Some(Flag::Returned));
    assert_books_agree(&world).await;
}

/// The first provider falls silent for good after the conversion; another one buys more, and pays.
async fn a_late_conversion_is_judged_by_its_own_quote(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    world.desk.lies(Asked::Conversion, &[Lie::Lost]);
    let payment = world.receive(world.order("pix", "USDC")).await.unwrap();
    world.desk.silent(true);
    world.desk.deaf(true);
    assert_eq!(world.go(payment).await.standing.state, StateName::Converting);
    act_now(&world, payment, Act::Resolve(Outcome::NotConverted), People::Two).await.unwrap();
    world.corridor_of(world.merchant, "other", ("BRL", "USDC"), "0").await;
    world.restart();
    world.other_desk.buys("188.000000", "5.319148936171");
    act_now(&world, payment, Act::Retry, People::Two).await.unwrap();
    world.clock.set(world.row(payment).await.standing.changed_at.plus(Duration::from_hours(1)));
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.other_desk.executed(Asked::Conversion).len(), 1);
    world.desk.silent(false);
    world.go_when_due(payment).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Conversion, moved: true }));
    assert_eq!(world.operations(payment).await[0].status, OperationStatus::Succeeded);
    assert_eq!(case.payment.flag(), Some(Flag::Astray));
    assert_books_agree(&world).await;
}

/// The second payout came back, and was decided about; then the first turns out to have been made.
async fn the_payout_that_was_made_is_the_one_that_a_person_speaks_of(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(1), Lie::Lost]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    act_now(&world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    world.desk.returns(Asked::Payout);
    let not_paid = Act::Resolve(Outcome::NotPaid);
    act_now(&world, payment, not_paid, People::One).await.unwrap();
    assert_eq!(hinted(&world, payment, 1).await, StateName::NeedsReview);
    let alone = act_now(&world, payment, not_paid, People::One).await;
    assert!(matches!(alone, Err(ActError::Contradicted)), "{alone:?}");
    act_now(&world, payment, Act::Resolve(Outcome::Paid), People::One).await.unwrap();
    let first = &world.operations(payment).await[1];
    assert_eq!((first.status, first.is_live), (OperationStatus::Succeeded, true), "it is the payment's own");
    assert_eq!(settlement(&world).await["payout_reference"], format!("ref-{}", first.operation_id));
    assert_books_agree(&world).await;
}

/// Both payouts were refused, and made all the same; then the first comes back.
async fn of_two_that_were_made_the_one_that_did_not_come_back_counts(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(1), Lie::Flip(0)]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    act_now(&world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_eq!(hinted(&world, payment, 1).await, StateName::NeedsReview);
    assert_eq!(hinted(&world, payment, 2).await, StateName::NeedsReview);
    let [_, first, second] = &world.operations(payment).await[..] else { panic!("a retry is another") };
    world.desk.gives_back(first.operation_id.0);
    hinted(&world, payment, 1).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.flag(), Some(Flag::Astray), "the second is with the merchant");
    let not_paid = act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::One).await;
    assert!(matches!(not_paid, Err(ActError::Contradicted)), "{not_paid:?}");
    act_now(&world, payment, Act::Resolve(Outcome::Paid), People::One).await.unwrap();
    assert_eq!(settlement(&world).await["payout_reference"], format!("ref-{}", second.operation_id));
    for account in [Account::Astray, Account::HouseLoss] {
        assert_eq!(world.balance(account, "USDC").await, "0.000000", "{account}");
    }
    assert_books_agree(&world).await;
}

/// The payout was refused and the refund too, and both were made all the same; then the payout comes back.
async fn a_refund_that_was_made_counts_when_the_payout_came_back(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Refund, &[Lie::Flip(0)]);
    let payment = world.paying(&[Lie::Flip(1)]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    act_now(&world, payment, Act::Refund, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_eq!(hinted(&world, payment, 1).await, StateName::NeedsReview);
    assert_eq!(hinted(&world, payment, 2).await, StateName::NeedsReview);
    world.desk.returns(Asked::Payout);
    hinted(&world, payment, 1).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Refund, moved: true }));
    act_now(&world, payment, Act::Resolve(Outcome::Refunded), People::One).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::Refunded);
    for (account, asset) in
        [(Account::Astray, "USDC"), (Account::Astray, "BRL"), (Account::HouseLoss, "USDC")]
    {
        let balance = world.balance(account, asset).await;
        assert!(balance.starts_with("0.00"), "{account} {asset}: {balance}");
    }
    assert_books_agree(&world).await;
}

/// The conversion and two refunds were refused, and made all the same; then the first refund comes back.
async fn money_that_went_out_outweighs_a_conversion_when_other_money_came_back(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Flip(2)]);
    world.desk.lies(Asked::Refund, &[Lie::Flip(1), Lie::Flip(0)]);
    let payment = world.paying(&[]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    for _ in 0..2 {
        act_now(&world, payment, Act::Refund, People::One).await.unwrap();
        assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    }
    for place in 0..3 {
        assert_eq!(hinted(&world, payment, place).await, StateName::NeedsReview);
    }
    world.desk.gives_back(world.operations(payment).await[1].operation_id.0);
    hinted(&world, payment, 1).await;
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Refund, moved: true }));
    assert_books_agree(&world).await;
}

/// The payout was refused, another destination too; then the first turns out to have been made.
async fn what_was_paid_to_the_first_destination_is_recorded_there(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Flip(1), Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    let elsewhere = Deed { destination_reference: Some("another wallet".to_owned()), ..deed(Act::Retry) };
    act_with(&world, payment, &elsewhere, People::Two).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_eq!(hinted(&world, payment, 1).await, StateName::NeedsReview);
    act_now(&world, payment, Act::Resolve(Outcome::Paid), People::One).await.unwrap();
    assert_eq!(settlement(&world).await["destination_reference"], "wallet of pix");
}

async fn nobody_says_that_something_else_was_bought_than_the_books_have(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Flip(0)]);
    let payment = world.paying(&[]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_eq!(hinted(&world, payment, 0).await, StateName::NeedsReview);
    let converted = |amount: &str| Deed {
        amount: Some(amount.parse().unwrap()),
        provider_reference: Some("a person's name for it".to_owned()),
        ..deed(Act::Resolve(Outcome::Converted))
    };
    for people in [People::One, People::Two] {
        let other = act_with(&world, payment, &converted("184.20"), people).await.unwrap_err().to_string();
        assert!(other.contains("must be 184.162062"), "{other}");
    }
    act_with(&world, payment, &converted("184.162062"), People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert!(!world.operations(payment).await[0].memory.contains("a person's name"));
    assert_books_agree(&world).await;
}

/// What waits for its provider, and what waits to be sent at all.
async fn what_its_provider_never_got_is_cancelled(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost, Lie::OutOfGas]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    let refused = act_now(&world, payment, Act::Cancel, People::One).await;
    assert!(matches!(refused, Err(ActError::Illegal(_))), "it may have been made: {refused:?}");
    let payment = world.receive(world.order("out of gas", "USDC")).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    let cancelled = act_now(&world, payment, Act::Cancel, People::One).await.unwrap();
    assert_eq!(cancelled.payment.state.name(), StateName::Failed);
    let payout = &world.operations(payment).await[1];
    assert_eq!((payout.status, payout.is_live), (OperationStatus::Refused, false));
    assert_books_agree(&world).await;
    for _ in 0..2 {
        act_now(&world, payment, Act::Refund, People::One).await.unwrap();
        let cancelled = act_now(&world, payment, Act::Cancel, People::One).await.unwrap();
        assert_eq!(cancelled.payment.state.name(), StateName::Failed, "the engine has not sent it yet");
    }
    act_now(&world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.desk.executed(Asked::Refund).len()), (2, 0));
    assert_books_agree(&world).await;
}

/// Reconciliation looks the payout up while it is being sent, and too early to find it.
async fn what_is_being_sent_is_not_cancelled(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    for (number, seen) in [Seen::Absent, Seen::LookupFailed].into_iter().enumerate() {
        let payment = world.receive(world.order(&number.to_string(), "USDC")).await.unwrap();
        world.desk.keep_back(Some(Asked::Payout));
        let sends = world.desk.sends();
        let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
        tokio::select! {
            lived = live(&world.means, case, world.lease()) => panic!("it waits for the provider: {lived:?}"),
            () = world.desk.until(|desk| desk.sends() == sends + 2) => {}
        }
        for seen in [seen, Seen::Absent] {
            let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
            let (window, waits) = (Window::Open, world.means.waits);
            let told =
                Told { window, corridor: None, instance: None, may_send: false, awaits_hint: false, waits };
            let advance = Advance::seen(case, 1, seen, None, &told, at(1)).unwrap();
            world.writer.write(advance, None).await.unwrap();
        }
        let cancelled = act_now(&world, payment, Act::Cancel, People::One).await;
        assert!(matches!(cancelled, Err(ActError::Illegal(_))), "{seen:?}: {cancelled:?}");
        world.desk.keep_back(None);
        world.go(payment).await;
        assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Completed);
    }
    assert_eq!(world.desk.executed(Asked::Payout).len(), 2);
}

/// Both saw the payment as it is, and their transactions are one.
async fn who_sends_and_who_cancels_at_once_are_not_both_heard(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::OutOfGas]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let send = Advance::send(case.clone(), 1, "one".to_owned(), at(1));
    let cancel = Advance::acted(case, &deed(Act::Cancel), None, at(1)).unwrap();
    let (sends, cancels) =
        tokio::join!(world.writer.write(send, world.lease), world.writer.write(cancel, None));
    assert_eq!((sends.unwrap(), cancels.unwrap()), (Written::Done, Written::Stale));
    assert_eq!(world.row(payment).await.standing.state, StateName::PayingOut);
    assert_books_agree(&world).await;
}

/// Both had been refused. Whoever says that the conversion was the payment's own would let another payout go
/// out.
async fn a_payout_that_was_made_outweighs_a_conversion_that_was(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Flip(1)]);
    let payment = world.paying(&[Lie::Flip(0)]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    act_now(&world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed, "converted, and not paid out");
    assert_eq!(hinted(&world, payment, 0).await, StateName::NeedsReview);
    assert_eq!(hinted(&world, payment, 2).await, StateName::NeedsReview);
    assert_eq!(world.desk.executed(Asked::Conversion).len(), 2);
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.late, Some(Late { kind: OperationKind::Payout, moved: true }));
    let converted = act_now(&world, payment, Act::Resolve(Outcome::Converted), People::One).await;
    assert!(matches!(converted, Err(ActError::Illegal(_))), "{converted:?}");
    act_now(&world, payment, Act::Resolve(Outcome::Paid), People::One).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.desk.executed(Asked::Payout).len(), 1);
    assert_books_agree(&world).await;
}

/// A look-up found that the payout can be sent again, and a pause kept it. Then it was executed after all,
/// and the provider came back with another memory.
#[tokio::test]
async fn what_waited_to_be_sent_again_is_not_sent_to_another_memory() {
    let mut world = World::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = world.paying(&[Lie::Late]).await;
    world.go(payment).await;
    let pause = |world: &World, is_paused| world.means.providers.all().for_each(|desk| desk.pause(is_paused));
    pause(&world, true);
    world.go_when_due(payment).await;
    let payout = world.operations(payment).await[1].operation_id;
    settle_provider::provider::Provider::look_up(&*world.desk, payout.0, at(0)).await;
    assert_eq!(world.desk.executed(Asked::Payout).len(), 1, "the first request has arrived");
    world.desk.forget("two");
    world.restart();
    let sends = world.desk.sends();
    for _ in 0..3 {
        world.go_when_due(payment).await;
    }
    assert_eq!((world.desk.sends(), world.desk.executed(Asked::Payout).len()), (sends, 1));
}

/// No byte of the payout left us; the provider got another memory before it was sent.
#[tokio::test]
async fn what_was_never_sent_belongs_to_the_memory_that_gets_it() {
    let mut world = World::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = world.paying(&[Lie::Unreached, Lie::Dropped]).await;
    world.go(payment).await;
    world.desk.forget("two");
    world.restart();
    world.go_when_due(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

/// On PostgreSQL its age is the server's to count.
#[tokio::test]
async fn what_was_given_up_after_a_month_is_looked_up_before_another_is_sent() {
    let world = World::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.desk.silent(true);
    world.go(payment).await;
    world.clock.set(at(31 * 24 * 3_600));
    give_up_in_silence(&world, payment).await;
    assert!(world.row(payment).await.standing.due_at.is_some(), "it is looked up for 30 days from now on");
    world.clock.set(at(62 * 24 * 3_600));
    act_now(&world, payment, Act::Retry, People::Two).await.unwrap();
    world.desk.silent(false);
    let sends = world.desk.sends();
    assert_eq!(world.go(payment).await.standing.state, StateName::NeedsReview);
    assert_eq!(world.desk.sends(), sends);
}

/// The provider serves everything but questions about what is long past.
#[tokio::test]
async fn silence_about_what_was_given_up_long_ago_does_not_hold_a_payment_back_for_ever() {
    let world = World::new(settle_store_sqlite::testing::scratch().await).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    world.clock.set(at(31 * 24 * 3_600));
    act_now(&world, payment, Act::Retry, People::Two).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Converted);
    world.clock.set(world.means.clock.now().plus(Duration::from_hours(1)));
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!(world.desk.executed(Asked::Payout).len(), 1);
}
