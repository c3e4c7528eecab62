//! Who serves a payment that is retried: the corridor's present provider before a conversion, and after one
//! whoever has what was bought.

use settle_domain::corridor::CorridorVersion;
use settle_domain::ledger::Account;
use settle_domain::payment::{Act, Outcome, PaymentOrder, StateName};
use settle_domain::reason::Blocked;
use settle_engine::acts::People;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::acts::{act_now, assert_books_agree};
use crate::desk::{Desk, Lie};
use crate::notices::do_by_hand;
use crate::world::{World, at};

settle_testing::on_both_stores! {
    before_a_conversion_the_present_provider_serves_it_at_the_first_terms,
    after_a_conversion_who_bought_serves_it,
    without_a_conversion_the_present_provider_serves_it,
    silence_of_who_pays_next_holds_a_retry_back,
    a_late_conversion_is_paid_out_by_who_made_it,
}

/// The corridor goes to another provider, at a spread that the payment never agreed to.
async fn change_hands(world: &mut World) {
    world.corridor_of(world.merchant, "other", ("BRL", "USDC"), "0.5").await;
    world.restart();
}

fn done(desk: &Desk) -> (usize, usize) {
    (desk.executed(Asked::Conversion).len(), desk.executed(Asked::Payout).len())
}

async fn before_a_conversion_the_present_provider_serves_it_at_the_first_terms(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Refuse]);
    // The quote of the second try has expired when it is used: the third is the same provider's.
    world.other_desk.lies(Asked::Conversion, &[Lie::Expired]);
    let payment = world.paying(&[]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    change_hands(&mut world).await;
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!((done(&world.desk), done(&world.other_desk)), ((0, 0), (1, 1)));
    let providers: Vec<String> =
        world.operations(payment).await.iter().map(|operation| operation.provider.to_string()).collect();
    assert_eq!(providers, ["desk", "other", "other", "other"]);
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    assert_eq!(case.payment.corridor_version, Some(CorridorVersion(1)));
    assert_eq!(world.balance(Account::Paid, "USDC").await, "181.149631", "at the terms of its first quote");
    assert_eq!(world.balance(Account::Spread, "USDC").await, "0.000000");
    assert_books_agree(&world).await;
}

async fn after_a_conversion_who_bought_serves_it(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    change_hands(&mut world).await;
    do_by_hand(&world, payment, Act::Retry).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!(
        (done(&world.desk), done(&world.other_desk)),
        ((1, 1), (0, 0)),
        "what it bought is not elsewhere"
    );
}

/// What came in is what goes out: nothing of it lies at the first provider.
async fn without_a_conversion_the_present_provider_serves_it(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let assets = ("USDC", "USDC");
    world.corridor_of(world.merchant, "desk", assets, "0").await;
    world.desk.lies(Asked::Payout, &[Lie::Refuse]);
    let order = PaymentOrder { incoming: "USDC".parse().unwrap(), ..world.order("chain", "USDC") };
    let payment = world.receive(order).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    world.corridor_of(world.merchant, "other", assets, "0").await;
    world.restart();
    do_by_hand(&world, payment, Act::Retry).await;
    let row = world.go(payment).await;
    assert_eq!((row.standing.state, row.standing.provider), (StateName::Completed, "other".parse().ok()));
    assert_eq!((done(&world.desk), done(&world.other_desk)), ((0, 0), (0, 1)));
    assert_books_agree(&world).await;
}

/// Two people gave the payout up, and the provider that made it is asked to make another.
async fn silence_of_who_pays_next_holds_a_retry_back(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor_of(world.merchant, "desk", ("USDC", "USDC"), "0").await;
    world.desk.lies(Asked::Payout, &[Lie::Lost]);
    world.desk.silent(true);
    world.desk.deaf(true);
    let order = PaymentOrder { incoming: "USDC".parse().unwrap(), ..world.order("chain", "USDC") };
    let payment = world.receive(order).await.unwrap();
    world.go(payment).await;
    world.clock.set(at(24 * 3_600));
    world.go(payment).await;
    for what in [Act::Resolve(Outcome::NotPaid), Act::Retry] {
        act_now(&world, payment, what, People::Two).await.unwrap();
    }
    for day in [1, 2] {
        world.clock.set(at((1 + day) * 24 * 3_600));
        let row = world.go(payment).await;
        let held = (StateName::Converted, Some(Blocked::ProviderUnavailable));
        assert_eq!((row.standing.state, row.standing.blocked), held, "day {day}");
    }
    world.desk.silent(false);
    world.go_when_due(payment).await;
    assert_eq!(done(&world.desk), (0, 1), "it was paid");
    assert_books_agree(&world).await;
}

/// The first provider converted after all, when the payment was bound to nobody.
async fn a_late_conversion_is_paid_out_by_who_made_it(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    world.desk.lies(Asked::Conversion, &[Lie::Flip(1)]);
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    change_hands(&mut world).await;
    do_by_hand(&world, payment, Act::Retry).await;
    do_by_hand(&world, payment, Act::Cancel).await;
    assert_eq!(world.row(payment).await.standing.provider, None);
    act_now(&world, payment, Act::Retry, People::One).await.expect_err("it was converted");
    do_by_hand(&world, payment, Act::Resolve(Outcome::Converted)).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!((done(&world.desk), done(&world.other_desk)), ((1, 1), (0, 0)));
    assert_books_agree(&world).await;
}
