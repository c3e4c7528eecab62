//! A provider that has lost its memory, or got an older one back, is not believed when it says that nothing
//! was done: what it did before stays done.

use settle_domain::operation::OperationStatus;
use settle_domain::payment::{Act, Outcome, StateName};
use settle_engine::acts::{ActError, People};
use settle_engine::life::live;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::acts::act_now;
use crate::desk::Lie;
use crate::notices::do_by_hand;
use crate::world::World;

settle_testing::on_both_stores! {
    a_refund_is_not_sent_to_another_memory_after_a_crash,
    another_memory_does_not_refuse_what_the_first_has_paid,
    a_void_of_what_was_forgotten_proves_nothing_to_one_person,
}

/// The engine dies while the refund is under way, and the provider comes back with another memory.
async fn a_refund_is_not_sent_to_another_memory_after_a_crash(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Refuse]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::Failed);
    world.desk.keep_back(Some(Asked::Refund));
    do_by_hand(&world, payment, Act::Refund).await;
    // The answer never comes, and whoever waits for it is dropped.
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    tokio::select! {
        lived = live(&world.means, case, world.lease()) => panic!("it waits for the provider: {lived:?}"),
        () = world.desk.until(|desk| desk.executed(Asked::Refund).len() == 1) => {}
    }
    world.desk.forget("two");
    world.desk.keep_back(None);
    world.restart();
    let sends = world.desk.sends();
    world.go(payment).await;
    for _ in 0..3 {
        world.go_when_due(payment).await;
    }
    assert_eq!(world.desk.executed(Asked::Refund).len(), 1, "it is with the payer");
    assert_eq!(world.desk.sends(), sends, "nobody knows what the first memory did");
}

/// The other memory never hears of the payout, not even by our void.
async fn another_memory_does_not_refuse_what_the_first_has_paid(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    world.desk.forget("two");
    let acted = act_now(&world, payment, Act::Resolve(Outcome::NotPaid), People::One).await;
    assert!(matches!(acted, Err(ActError::Unconfirmed)), "{acted:?}");
    assert_eq!(world.desk.voids(), 0, "it would refuse for ever what it never had");
    for _ in 0..3 {
        let state = world.go_when_due(payment).await.standing.state;
        assert!(matches!(state, StateName::PayingOut | StateName::NeedsReview), "{state:?}");
    }
    assert!(act_now(&world, payment, Act::Refund, People::One).await.is_err(), "the merchant has it");
}

/// The provider had the payout and got an older copy of its memory back, under the same name.
async fn a_void_of_what_was_forgotten_proves_nothing_to_one_person(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Pending]).await;
    assert_eq!(world.go(payment).await.standing.state, StateName::PayingOut);
    world.desk.forget("one");
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::NeedsReview);
    let not_paid = Act::Resolve(Outcome::NotPaid);
    for _ in 0..2 {
        let alone = act_now(&world, payment, not_paid, People::One).await;
        assert!(matches!(alone, Err(ActError::Unconfirmed)), "{alone:?}");
        let row = world.go_when_due(payment).await;
        assert_eq!(row.standing.state, StateName::NeedsReview, "a person must look");
    }
    assert_ne!(world.operations(payment).await[1].status, OperationStatus::Refused);
    // Two people have asked the bank, which never had it.
    act_now(&world, payment, not_paid, People::Two).await.unwrap();
    assert_eq!(world.row(payment).await.standing.state, StateName::Failed);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Failed);
    assert_eq!(world.operations(payment).await[1].status, OperationStatus::GivenUp, "it is still looked up");
    act_now(&world, payment, Act::Retry, People::One).await.unwrap();
    assert_eq!(world.go(payment).await.standing.state, StateName::Completed);
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.settled().await), (1, 1));
}
