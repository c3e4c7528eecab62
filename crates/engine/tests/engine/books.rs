//! The check of the books: silent while the engine works, and it names each equation that is broken by hand.

use settle_domain::ids::{OperationId, PaymentId, SettlementId};
use settle_domain::ledger::{Account, Postings};
use settle_domain::operation::{OperationKind, OperationStatus};
use settle_domain::payment::StateName;
use settle_domain::seams::Clock;
use settle_domain::settlement::Origin;
use settle_engine::books::{self, Equation};
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{OperationChange, OperationRow, StepRow};

use crate::desk::Lie;
use crate::world::{World, at};

settle_testing::on_both_stores! {
    the_books_agree_whatever_the_provider_does,
    a_balance_that_nobody_posted_is_named,
    a_step_that_does_not_sum_to_zero_is_named,
    what_no_operation_moves_is_not_in_flight,
    an_open_operation_without_its_money_is_named,
    a_conversion_that_did_not_succeed_exchanged_nothing,
    a_settlement_of_what_was_not_paid_is_named,
    what_was_paid_without_a_settlement_is_named,
    what_was_refunded_is_what_came_in,
    what_cannot_be_read_is_named,
    books_that_cannot_be_read_keep_nobody_from_the_next,
    the_house_is_the_sum_of_its_merchants,
}

/// How often a payment that waits is taken on.
const TURNS: usize = 6;

async fn disagreements(world: &World) -> Vec<(Equation, String)> {
    let checked = books::check(&*world.store, &*world.clock).await.unwrap();
    assert_eq!(u64::try_from(checked.disagreements.len()).unwrap(), checked.found);
    checked.disagreements.iter().map(|found| (found.equation, found.to_string())).collect()
}

/// Exactly these, in any order: the equation, and the end of its words.
async fn assert_found(world: &World, expected: &[(Equation, &str)]) {
    let found = disagreements(world).await;
    for (equation, words) in expected {
        let is_named = found.iter().any(|(other, text)| other == equation && text.contains(words));
        assert!(is_named, "{equation:?} {words:?} is not among {found:#?}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}

/// Adds a step by hand, and posts it as well if it balances.
async fn write_step(world: &World, payment: PaymentId, step: String, posted: Postings) {
    let number = u32::try_from(world.store.payment_steps(world.merchant, payment).await.unwrap().len());
    let row = StepRow {
        merchant_id: world.merchant,
        payment_id: payment,
        number: number.unwrap() + 1,
        at: at(1),
        step,
    };
    let mut tx = world.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[world.merchant]).await.unwrap();
    tx.payment_step_many(&lock, &[row]).await.unwrap();
    tx.balance_post_many(&lock, &[(world.merchant, posted)]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn move_by_hand(
    world: &World,
    payment: PaymentId,
    asset: &str,
    from: Account,
    to: Account,
    amount: &str,
) {
    let posted = moved(asset, from, to, amount);
    let step = serde_json::json!({ "postings": posted }).to_string();
    write_step(world, payment, step, posted).await;
}

fn moved(asset: &str, from: Account, to: Account, amount: &str) -> Postings {
    Postings::none().and(asset.parse().unwrap(), from, to, amount.parse().unwrap()).unwrap()
}

async fn completed(scratch: ScratchStore) -> (World, PaymentId) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    assert_found(&world, &[]).await;
    (world, payment)
}

async fn failed(scratch: ScratchStore) -> (World, PaymentId) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    assert_found(&world, &[]).await;
    (world, payment)
}

async fn the_books_agree_whatever_the_provider_does(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0.5").await;
    let lies = [
        Lie::Lost,
        Lie::Dropped,
        Lie::Unreached,
        Lie::Ghost,
        Lie::Pending,
        Lie::Refuse,
        Lie::Expired,
        Lie::OutOfGas,
        Lie::Unauthorised,
        Lie::Conflict,
        Lie::Short,
        Lie::Late,
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        for kind in [Asked::Conversion, Asked::Payout] {
            world.desk.lies(kind, &[lie]);
            let payment = world.receive(world.order(&format!("{number} {kind:?}"), "USDC")).await.unwrap();
            assert_found(&world, &[]).await;
            world.go(payment).await;
            for _ in 0..TURNS {
                assert_found(&world, &[]).await;
                if world.row(payment).await.standing.due_at.is_some() {
                    world.go_when_due(payment).await;
                }
            }
        }
    }
    let checked = books::check(&*world.store, &*world.clock).await.unwrap();
    assert_eq!((checked.merchants, checked.payments), (1, 2 * u64::try_from(lies.len()).unwrap()));
}

async fn a_balance_that_nobody_posted_is_named(scratch: ScratchStore) {
    let (world, _) = completed(scratch).await;
    let mut tx = world.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[world.merchant]).await.unwrap();
    let posted = moved("USDC", Account::Paid, Account::Fees, "0.000001");
    tx.balance_post_many(&lock, &[(world.merchant, posted)]).await.unwrap();
    tx.commit().await.unwrap();
    let paid = "paid USDC: the books say 181.149630, but the timelines say 181.149631";
    let fees = "fees USDC: the books say 3.012432, but the timelines say 3.012431";
    assert_found(&world, &[(Equation::Timeline, paid), (Equation::Timeline, fees)]).await;
}

async fn a_step_that_does_not_sum_to_zero_is_named(scratch: ScratchStore) {
    let (world, payment) = completed(scratch).await;
    let step = r#"{"postings": [{"account": "fees", "asset": "USDC", "amount": "1.000000"}]}"#;
    write_step(&world, payment, step.to_owned(), Postings::none()).await;
    let zero = format!("payment {payment}: all accounts USDC: the books say 1.000000, must sum to 0.000000");
    let timeline = "fees USDC: the books say 3.012431, but the timelines say 4.012431";
    assert_found(&world, &[(Equation::Zero, &zero), (Equation::Timeline, timeline)]).await;
}

async fn what_no_operation_moves_is_not_in_flight(scratch: ScratchStore) {
    let (world, payment) = failed(scratch).await;
    for (account, words) in [
        (Account::Converting, "converting USDC: the books say 1.000000, but open operations move 0.000000"),
        (Account::PayingOut, "paying_out USDC: the books say 1.000000, but open operations move 0.000000"),
        (Account::Refunding, "refunding USDC: the books say 1.000000, but open operations move 0.000000"),
    ] {
        move_by_hand(&world, payment, "USDC", Account::Payable, account, "1").await;
        assert_found(&world, &[(Equation::InFlight, words)]).await;
        move_by_hand(&world, payment, "USDC", account, Account::Payable, "1").await;
    }
    assert_found(&world, &[]).await;
}

async fn an_open_operation_without_its_money_is_named(scratch: ScratchStore) {
    let (world, payment) = failed(scratch).await;
    let request = serde_json::json!({
        "kind": "refund", "asset": "BRL", "amount": "1000.00", "payin_reference": "pix",
    });
    let refund = OperationRow {
        merchant_id: world.merchant,
        payment_id: payment,
        kind: OperationKind::Refund,
        attempt: 1,
        operation_id: OperationId::of(payment, OperationKind::Refund, 1),
        provider: "desk".parse().unwrap(),
        status: OperationStatus::Prepared,
        is_live: true,
        age: std::time::Duration::ZERO,
        request: request.to_string(),
        memory: r#"{"errand": "look_up"}"#.to_owned(),
    };
    let mut tx = world.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[world.merchant]).await.unwrap();
    tx.operation_prepare_many(&lock, &[refund], at(1)).await.unwrap();
    tx.commit().await.unwrap();
    let words = "refunding BRL: the books say 0.00, but open operations move 1000.00";
    assert_found(&world, &[(Equation::InFlight, words)]).await;
}

async fn a_conversion_that_did_not_succeed_exchanged_nothing(scratch: ScratchStore) {
    let (world, payment) = completed(scratch).await;
    let conversion = world.operations(payment).await.remove(0);
    assert_eq!(conversion.kind, OperationKind::Conversion);
    let refused = OperationChange {
        merchant_id: world.merchant,
        payment_id: payment,
        kind: OperationKind::Conversion,
        attempt: 1,
        status: OperationStatus::Refused,
        is_live: false,
        memory: conversion.memory,
    };
    let mut tx = world.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[world.merchant]).await.unwrap();
    tx.operation_change_many(&lock, &[refused], world.clock.now()).await.unwrap();
    tx.commit().await.unwrap();
    let sold = "exchange BRL: the books say 1000.00, but succeeded conversions moved 0.00";
    let bought = "exchange USDC: the books say -184.162062, but succeeded conversions moved 0.000000";
    assert_found(&world, &[(Equation::Exchanged, sold), (Equation::Exchanged, bought)]).await;
}

async fn a_settlement_of_what_was_not_paid_is_named(scratch: ScratchStore) {
    let (world, payment) = failed(scratch).await;
    let mut told = fixtures::settlement(world.merchant, SettlementId::from(payment), at(1));
    told.origin = Origin::Payment;
    fixtures::record(&*world.store, &[told]).await;
    let found = disagreements(&world).await;
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].0, Equation::Paid);
    assert!(found[0].1.contains("the books say 0.000000, but the settlement says "), "{found:#?}");
}

async fn what_was_paid_without_a_settlement_is_named(scratch: ScratchStore) {
    let (world, payment) = failed(scratch).await;
    move_by_hand(&world, payment, "USDC", Account::Payable, Account::Paid, "1").await;
    let words = "paid USDC: the books say 1.000000, but the settlement says 0.000000";
    assert_found(&world, &[(Equation::Paid, words)]).await;
}

async fn what_was_refunded_is_what_came_in(scratch: ScratchStore) {
    let (world, payment) = failed(scratch).await;
    move_by_hand(&world, payment, "USDC", Account::Payable, Account::Refunded, "1").await;
    let words = "refunded USDC: the books say 1.000000, but what was to be paid back is 0.000000";
    assert_found(&world, &[(Equation::Refunded, words)]).await;
}

async fn what_cannot_be_read_is_named(scratch: ScratchStore) {
    let (world, payment) = completed(scratch).await;
    write_step(&world, payment, r#"{"postings": 5}"#.to_owned(), Postings::none()).await;
    let words = "the books say step 7, but cannot be read:";
    assert_found(&world, &[(Equation::Readable, words)]).await;
}

async fn the_house_is_the_sum_of_its_merchants(scratch: ScratchStore) {
    let (world, _) = completed(scratch).await;
    let other = fixtures::merchant(&*world.store).await;
    let mut tx = world.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[other]).await.unwrap();
    let received = moved("BRL", Account::Payer, Account::ClientFunds, "0.01");
    tx.balance_post_many(&lock, &[(other, received)]).await.unwrap();
    tx.commit().await.unwrap();
    let sums = |rows: Vec<(Account, settle_domain::money::Asset, settle_domain::ledger::SignedAmount)>| {
        let rows = rows.into_iter().filter(|(_, _, amount)| !amount.is_zero());
        rows.map(|(account, asset, amount)| format!("{account} {asset} {amount}")).collect::<Vec<_>>()
    };
    let house = sums(books::balances(&*world.store, None).await.unwrap());
    let expected = [
        "payer BRL -1000.01",
        "client_funds BRL 0.01",
        "exchange BRL 1000.00",
        "exchange USDC -184.162062",
        "fees USDC 3.012431",
        "paid USDC 181.149631",
    ];
    assert_eq!(house, expected);
    let own = sums(books::balances(&*world.store, Some(other)).await.unwrap());
    assert_eq!(own, ["payer BRL -0.01", "client_funds BRL 0.01"]);
}

/// A reason of another version: nothing of the merchant can be said, and of everybody else all.
async fn books_that_cannot_be_read_keep_nobody_from_the_next(scratch: ScratchStore) {
    let (world, _) = completed(scratch).await;
    world.store.execute("UPDATE payments SET reason = 'weighed'").await;
    for _ in 0..2 {
        fixtures::merchant(&*world.store).await;
    }
    let checked = books::check(&*world.store, &*world.clock).await.unwrap();
    assert_eq!((checked.merchants, checked.found), (3, 1));
    let found = &checked.disagreements[0];
    assert_eq!(
        (found.merchant_id, found.payment_id, found.equation),
        (world.merchant, None, Equation::Readable)
    );
    assert!(found.to_string().contains("weighed"), "{found}");
}
