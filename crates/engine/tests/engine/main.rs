//! The engine on real stores, with a provider that lies as a test says: what is executed, what is booked, and
//! where each payment ends.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::ledger::Account;
use settle_domain::operation::{
    Answer, Judgement, OperationKind, OperationStatus, Refusal, RefusalCode, Report, ReportStatus, Seen,
    Window,
};
use settle_domain::payment::{PaymentOrder, StateName};
use settle_domain::reason::{Blocked, Reason};
use settle_domain::seams::Clock;
use settle_engine::advance::{Advance, Told};
use settle_engine::life::live;
use settle_engine::writer::{CreateError, Written};
use settle_provider::wire::OperationKind as Asked;
use settle_store::Duty;
use settle_store::conformance::{ScratchStore, fixtures};

mod acts;
mod books;
mod credentials;
mod crowds;
mod damaged;
mod desk;
mod doubts;
mod elsewhere;
mod failovers;
mod groups;
mod hints;
mod memories;
mod notices;
mod obstacles;
mod proposals;
mod quotes;
mod reconcile;
mod reconcile_runs;
mod remarks;
mod retries;
mod rights;
mod rules;
mod runner;
mod sends;
mod unheard;
mod watch;
mod workflows;
mod world;

use acts::assert_books_agree;
use desk::Lie;
use notices::told;
use world::{World, at, lease};

settle_testing::on_both_stores! {
    a_payment_is_converted_paid_out_and_settled,
    the_books_tell_every_step,
    the_same_pay_in_is_one_payment,
    without_a_corridor_it_fails_and_nothing_is_asked,
    an_answer_that_is_lost_is_looked_up_and_nothing_is_paid_twice,
    what_was_never_begun_is_sent_again_with_the_same_key,
    a_late_execution_is_not_paid_again,
    who_was_unknown_once_is_not_refused_by_a_later_send,
    a_refusal_fails_the_payment_and_gives_the_money_back,
    what_blocks_changes_no_state_and_goes_on_by_itself,
    a_pending_operation_is_looked_up_until_it_is_done,
    what_moved_otherwise_needs_a_person,
    an_unsigned_refusal_is_not_believed,
    a_send_that_somebody_else_began_is_looked_up_first,
    after_the_window_it_is_voided_and_never_sent_again,
    a_node_that_lost_its_shard_keeps_what_it_learnt,
    what_is_heard_again_of_a_conversion_does_not_stop_the_payout,
    what_a_conversion_bought_stays_whatever_is_heard_of_it_later,
    equal_codes_skip_the_conversion,
    a_step_that_the_database_refuses_calls_a_person_and_keeps_what_was_learnt,
    a_payment_that_cannot_go_on_calls_a_person,
}

async fn a_payment_is_converted_paid_out_and_settled(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    assert_eq!(world.row(payment).await.standing.state, StateName::Received);
    world.go(payment).await;
    world.assert_completed_once(payment).await;
    assert_eq!(world.desk.sends(), 2);
    let page = fixtures::settlements(&*world.store, world.merchant, 1, 0).await;
    let record = page.rows[0].as_str().to_owned();
    for part in [
        format!("\"settlement_id\":\"{payment}\""),
        "\"outgoing_amount\":\"181.149631\"".to_owned(),
        "\"conversion_rate\":\"5.43\"".to_owned(),
        "\"fee_percentage_amount\":\"2.762431\"".to_owned(),
        "\"payout_reference\":\"ref-".to_owned(),
    ] {
        assert!(record.contains(&part), "{part} is not in {record}");
    }
    let steps = world.store.payment_steps(world.merchant, payment).await.unwrap();
    let states: Vec<String> = steps
        .iter()
        .map(|step| serde_json::from_str::<serde_json::Value>(&step.step).unwrap()["to"].to_string())
        .collect();
    let expected = ["received", "quoted", "converting", "converted", "paying_out", "completed"];
    assert_eq!(states, expected.map(|state| format!("\"{state}\"")));
}

async fn the_books_tell_every_step(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0.5").await;
    let payment = world.receive(world.order("pix", "USDC")).await.unwrap();
    assert_eq!(world.balance(Account::ClientFunds, "BRL").await, "1000.00");
    world.go(payment).await;
    for (account, asset, amount) in [
        (Account::Payer, "BRL", "-1000.00"),
        (Account::ClientFunds, "BRL", "0.00"),
        (Account::Exchange, "BRL", "1000.00"),
        (Account::Exchange, "USDC", "-184.162062"),
        (Account::PayingOut, "USDC", "0.000000"),
    ] {
        assert_eq!(world.balance(account, asset).await, amount, "{account} {asset}");
    }
    assert_ne!(world.balance(Account::Spread, "USDC").await, "0.000000", "the spread is earned");
    world.assert_books().await;
}

async fn the_same_pay_in_is_one_payment(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    assert_eq!(world.receive(world.order("pix", "USDC")).await.unwrap(), payment);
    let other = PaymentOrder { incoming_amount: "1.00".parse().unwrap(), ..world.order("pix", "USDC") };
    assert!(matches!(world.receive(other).await, Err(CreateError::Conflicts(places)) if places == [0]));
    let unknown = PaymentOrder { merchant_id: MerchantId::NIL, ..world.order("pix 2", "USDC") };
    assert!(matches!(world.receive(unknown).await, Err(CreateError::UnknownMerchants(_))));
    assert_eq!(world.balance(Account::ClientFunds, "BRL").await, "1000.00", "received once");
}

async fn without_a_corridor_it_fails_and_nothing_is_asked(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.receive(world.order("pix", "USDC")).await.unwrap();
    let row = world.go(payment).await;
    assert_eq!(
        (row.standing.state, row.standing.reason),
        (StateName::Failed, Some(Reason::CurrencyNotEnabled))
    );
    assert_eq!((world.desk.sends(), row.standing.due_at), (0, None));
}

async fn an_answer_that_is_lost_is_looked_up_and_nothing_is_paid_twice(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Ghost]);
    let payment = world.paying(&[Lie::Lost]).await;
    let row = world.go(payment).await;
    assert_eq!(row.standing.state, StateName::Converting);
    assert_eq!(row.standing.reason, Some(Reason::ConversionOutcomeUnknown));
    let row = world.go_when_due(payment).await;
    assert_eq!(row.standing.state, StateName::PayingOut, "the look-up found the conversion");
    assert_eq!(row.standing.reason, Some(Reason::PayoutOutcomeUnknown));
    let unknown = world.operations(payment).await;
    assert_eq!(unknown[1].status, OperationStatus::Unknown);
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
    assert_eq!(world.desk.sends(), 2, "nothing was sent again");
}

async fn what_was_never_begun_is_sent_again_with_the_same_key(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
    let payout = OperationId::of(payment, OperationKind::Payout, 1);
    assert_eq!(world.desk.executed(Asked::Payout), [payout.0], "the same key");
    assert_eq!(world.desk.sends(), 3);
}

/// The provider says that it does not know it, and executes it all the same when it is sent again: the key
/// protects.
async fn a_late_execution_is_not_paid_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Late, Lie::Dropped]).await;
    world.go(payment).await;
    for _ in 0..3 {
        if world.row(payment).await.standing.state != StateName::Completed {
            world.go_when_due(payment).await;
        }
    }
    world.assert_completed_once(payment).await;
}

async fn who_was_unknown_once_is_not_refused_by_a_later_send(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Late, Lie::Refuse]).await;
    world.go(payment).await;
    // The look-up says absent, the second send is refused: the first may still be on its way.
    let row = world.go_when_due(payment).await;
    assert_eq!(row.standing.state, StateName::PayingOut, "not failed");
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Unknown);
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn a_refusal_fails_the_payment_and_gives_the_money_back(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    let row = world.go(payment).await;
    assert_eq!((row.standing.state, row.standing.reason), (StateName::Failed, Some(Reason::PayoutRefused)));
    assert_eq!(row.standing.due_at, None);
    assert_eq!(world.balance(Account::Payable, "USDC").await, "181.149631", "reserved again");
    assert_eq!(world.balance(Account::PayingOut, "USDC").await, "0.000000");
    assert_eq!(world.settled().await, 0);
    world.assert_books().await;
}

async fn what_blocks_changes_no_state_and_goes_on_by_itself(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::OutOfGas, Lie::Unreached]).await;
    let row = world.go(payment).await;
    assert_eq!(
        (row.standing.state, row.standing.blocked),
        (StateName::PayingOut, Some(Blocked::PayoutWalletOutOfGas))
    );
    assert_eq!(
        world.operations(payment).await[1].status,
        OperationStatus::Prepared,
        "certainly not executed"
    );
    let row = world.go_when_due(payment).await;
    assert_eq!(row.standing.blocked, Some(Blocked::ProviderUnavailable));
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn a_pending_operation_is_looked_up_until_it_is_done(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Pending]).await;
    let row = world.go(payment).await;
    assert_eq!(row.standing.reason, Some(Reason::ProviderStillProcessing));
    assert_eq!(row.standing.due_at, Some(at(5)), "the first wait");
    let row = world.go_when_due(payment).await;
    assert_eq!(row.standing.due_at, Some(at(15)), "twice as long");
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn what_moved_otherwise_needs_a_person(scratch: ScratchStore) {
    for lie in [Lie::Short, Lie::Conflict] {
        let world = World::new(settle_store_sqlite::testing::scratch().await).await;
        let payment = world.paying(&[lie]).await;
        world.go(payment).await;
        if world.row(payment).await.standing.state != StateName::NeedsReview {
            world.go_when_due(payment).await;
        }
        let row = world.row(payment).await;
        assert_eq!(row.standing.state, StateName::NeedsReview, "{lie:?}");
        assert_eq!(row.standing.reason, Some(Reason::PayoutOutcomeUnknown), "{lie:?}");
        assert!(row.standing.due_at.is_some(), "look-ups go on");
        assert_eq!(world.settled().await, 0);
        let sends = world.desk.sends();
        world.go_when_due(payment).await;
        assert_eq!(world.desk.sends(), sends, "nothing more is sent");
    }
    drop(scratch);
}

/// Anything between us and the provider can say 401, also of a request that it had let through.
async fn an_unsigned_refusal_is_not_believed(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Unauthorised]).await;
    let row = world.go(payment).await;
    assert_eq!(row.standing.blocked, Some(Blocked::ProviderCallFailed));
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Unknown);
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn a_send_that_somebody_else_began_is_looked_up_first(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    // A process commits that it sends the conversion, and dies before or after it has sent it.
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let corridor = world.store.corridor_list(world.merchant).await.unwrap().remove(0);
    let offer = settle_domain::quoting::ProviderQuote {
        quote_id: "q".to_owned(),
        sell_amount: "1000.00".parse().unwrap(),
        buy_amount: "184.162062".parse().unwrap(),
        rate: Some("5.43".parse().unwrap()),
        expires_at: at(60),
    };
    let advance = Advance::quoted(
        case,
        (&corridor, &"desk".parse().unwrap()),
        offer,
        Some("one".to_owned()),
        world.means.waits,
        at(1),
    )
    .unwrap();
    world.writer.write(advance, world.lease).await.unwrap();
    let row = world.go(payment).await;
    assert_eq!(world.desk.sends(), 0, "not sent by who did not commit it");
    assert_eq!(row.standing.reason, Some(Reason::ConversionOutcomeUnknown));
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn after_the_window_it_is_voided_and_never_sent_again(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    world.desk.silent(true);
    world.go_when_due(payment).await;
    world.desk.silent(false);
    // On PostgreSQL the age is the server's to count: there the window is still open.
    world.clock.set(at(24 * 3_600));
    let sends = world.desk.sends();
    let is_over = world.operations(payment).await[1].age > Duration::from_hours(23);
    let row = world.go(payment).await;
    if is_over {
        let failed = (StateName::Failed, Some(Reason::PayoutRefused));
        assert_eq!((row.standing.state, row.standing.reason), failed, "voided");
        assert_eq!((world.desk.sends(), world.desk.voids()), (sends, 1), "never sent again");
        assert_eq!(world.balance(Account::Payable, "USDC").await, "181.149631");
    } else {
        world.assert_completed_once(payment).await;
    }
    assert!(world.desk.executed(Asked::Payout).len() <= 1);
    world.assert_books().await;
}

async fn a_node_that_lost_its_shard_keeps_what_it_learnt(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Pending]).await;
    world.go(payment).await;
    world.go_when_due(payment).await;
    // Another node takes the shard while this one looks the payout up for the second time.
    let due = world.row(payment).await.standing.due_at.unwrap();
    world.clock.set(due);
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let mut tx = world.store.begin().await.unwrap();
    tx.queue_release(&[world.lease()]).await.unwrap();
    tx.commit().await.unwrap();
    live(&world.means, case, world.lease()).await.unwrap();
    let row = world.row(payment).await;
    assert_eq!(row.standing.state, StateName::PayingOut, "a late node changes no step");
    assert_eq!(
        world.operations(payment).await[1].status,
        OperationStatus::Succeeded,
        "but keeps the evidence"
    );
    assert_eq!(row.standing.due_at, Some(due), "due for whoever serves it now");
    let keeper = fixtures::unique_keeper_id();
    let presence = world.store.presence(keeper, Duty::Engine).await;
    if let Ok(Some(_presence)) = presence {
        world.lease = Some(lease(&*world.store, keeper, world.merchant).await);
        world.go(payment).await;
        world.assert_completed_once(payment).await;
    }
}

/// The answer to a commit was lost: the same is written again, and the payout was prepared by the first.
async fn what_is_heard_again_of_a_conversion_does_not_stop_the_payout(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Pending]).await;
    let due_at = world.go(payment).await.standing.due_at;
    assert!(due_at.is_some());
    heard(&world, payment, Seen::Answered(Answer::Succeeded(Judgement::AsAsked)), None).await;
    assert_eq!(world.row(payment).await.standing.due_at, due_at, "the payout is still looked up");
    world.go_when_due(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

/// A look-up said that it was done, and an older answer comes late, or the provider takes back its word.
async fn what_a_conversion_bought_stays_whatever_is_heard_of_it_later(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Pending]).await;
    world.go(payment).await;
    let report = |status, bought: Option<&str>| Report {
        kind: Some(OperationKind::Conversion),
        status,
        bought_amount: bought.map(|bought| bought.parse().unwrap()),
        ..Report::refused(Refusal::of(RefusalCode::ConversionRefused), None)
    };
    let refusal = Answer::Refused(Refusal::of(RefusalCode::ConversionRefused));
    let done = report(ReportStatus::Succeeded, Some("184.162062"));
    let done_otherwise = report(ReportStatus::Succeeded, Some("184.20"));
    for (answer, report, is_told) in [
        (Answer::Pending, report(ReportStatus::Pending, None), false),
        (Answer::Succeeded(Judgement::AsAsked), done, false),
        (Answer::Succeeded(Judgement::AsAsked), done_otherwise.clone(), true),
        (Answer::Succeeded(Judgement::Otherwise), done_otherwise, true),
        (refusal, report(ReportStatus::Refused, None), true),
        (Answer::Returned, report(ReportStatus::Returned, None), true),
    ] {
        for seen in [Seen::Answered(answer), Seen::Found(answer), Seen::Voided(answer)] {
            heard(&world, payment, seen, Some(&report)).await;
            let conversion = &world.operations(payment).await[0];
            assert_eq!(conversion.status, OperationStatus::Succeeded, "{seen:?}");
            assert!(conversion.memory.contains("184.162062"), "{seen:?}: {}", conversion.memory);
            assert_books_agree(&world).await;
            world.clock.set(world.clock.now().plus(Duration::from_hours(1)));
            let alerts = told(&world).await;
            assert_eq!(alerts.len(), usize::from(is_told), "{seen:?}, {report:?}: {alerts:?}");
        }
    }
    world.go_when_due(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

/// Something is heard of the payment's first operation.
async fn heard(world: &World, payment: PaymentId, seen: Seen, report: Option<&Report>) {
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    let told = Told {
        window: Window::Open,
        corridor: None,
        instance: None,
        may_send: true,
        awaits_hint: false,
        waits: world.means.waits,
    };
    let advance = Advance::seen(case, 0, seen, report, &told, at(1)).unwrap();
    assert_eq!(world.writer.write(advance, world.lease).await.unwrap(), Written::Done);
}

async fn equal_codes_skip_the_conversion(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "BRL", "0.5").await;
    let payment = world.receive(world.order("pix", "BRL")).await.unwrap();
    let row = world.go(payment).await;
    assert_eq!(row.standing.state, StateName::Completed);
    assert!(world.desk.executed(Asked::Conversion).is_empty());
    assert_eq!(world.desk.executed(Asked::Payout).len(), 1);
    assert_eq!(world.balance(Account::Paid, "BRL").await, "984.75");
    world.assert_books().await;
}

/// Somebody has recorded a settlement with the payment's id by hand.
async fn a_step_that_the_database_refuses_calls_a_person_and_keeps_what_was_learnt(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    let id = settle_domain::ids::SettlementId(payment.0);
    fixtures::record(&*world.store, &[fixtures::settlement(world.merchant, id, at(1))]).await;
    let row = world.go(payment).await;
    assert_eq!(
        (row.standing.state, row.standing.reason),
        (StateName::NeedsReview, Some(Reason::UnexpectedFailure))
    );
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::Succeeded, "the evidence is kept");
    assert!(row.standing.due_at.is_some_and(|due| due > at(0)), "it is not tried without a pause");
}

/// A row that lacks what its state needs.
async fn a_payment_that_cannot_go_on_calls_a_person(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    let row = world.row(payment).await;
    let standing = settle_store::PaymentStanding {
        state: StateName::Converted,
        provider: Some("desk".parse().unwrap()),
        ..row.standing
    };
    let change = settle_store::PaymentChange {
        merchant_id: world.merchant,
        payment_id: payment,
        seen: row.version,
        standing,
        flag: None,
    };
    let mut tx = world.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[world.merchant]).await.unwrap();
    assert_eq!(tx.payment_change_many(&lock, &[change]).await.unwrap(), [true]);
    tx.commit().await.unwrap();
    let row = world.go(payment).await;
    assert_eq!(row.standing.reason, Some(Reason::UnexpectedFailure));
    assert_eq!((row.standing.state, world.desk.sends()), (StateName::NeedsReview, 0));
}

/// On SQLite nobody writes while another does, so this is PostgreSQL's alone.
#[tokio::test]
async fn a_merchant_that_is_locked_holds_up_no_other() {
    let world = World::new(settle_store_postgres::testing::scratch().await).await;
    let other = fixtures::merchant(&*world.store).await;
    let locked = world.receive(world.order("pix", "USDC")).await.unwrap();
    let order = PaymentOrder { merchant_id: other, ..world.order("pix 2", "USDC") };
    let free = world.receive(order).await.unwrap();
    let waits = async |merchant, payment| {
        let case = world.means.read(merchant, payment).await.unwrap().unwrap();
        Advance::waits(case, Some(Blocked::RailInactive), world.means.waits, at(1))
    };
    let (of_locked, of_free) = (waits(world.merchant, locked).await, waits(other, free).await);
    let mut in_the_way = world.store.begin().await.unwrap();
    in_the_way.merchant_lock(&[world.merchant]).await.unwrap();
    let (held_up, written) =
        tokio::join!(world.writer.write(of_locked, None), world.writer.write(of_free, None));
    assert!(matches!(*held_up.unwrap_err(), settle_store::StoreError::Unavailable(_)));
    assert!(matches!(written.unwrap(), Written::Done));
}
