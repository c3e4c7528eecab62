//! When something is sent, sent again, and looked up.

use std::sync::Arc;

use settle_domain::payment::Act;
use settle_domain::reason::Blocked;
use settle_domain::seams::ManualClock;
use settle_engine::acts::People;
use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::ScratchStore;

use crate::acts::act_now;
use crate::desk::Lie;
use crate::doubts::give_up_in_silence;
use crate::groups::writer;
use crate::world::{World, at, providers};

settle_testing::on_both_stores! {
    a_request_says_when_the_lease_was_checked,
    nothing_is_sent_again_before_the_provider_says_how_long_it_remembers,
    what_nobody_knows_is_looked_up_every_minute,
    what_was_absent_is_looked_up_anew_after_the_database_was_away,
    what_was_given_up_is_looked_up_anew_after_the_database_was_away,
}

/// A process that slept between its commit and its call must not look awake to the provider.
async fn a_request_says_when_the_lease_was_checked(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let later = Arc::new(ManualClock::at(at(3_600)));
    world.means.providers = providers(&world.desk, &world.other_desk, &later);
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    world.assert_completed_once(payment).await;
    assert_eq!(world.desk.stamps(), [at(0), at(0)]);
}

/// It forgets keys sooner than the settings think, and nobody could ask it since the engine began anew.
async fn nothing_is_sent_again_before_the_provider_says_how_long_it_remembers(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    world.restart();
    world.desk.turn_away(true);
    let (sends, looks) = (world.desk.sends(), world.desk.look_ups());
    for _ in 0..3 {
        let row = world.go_when_due(payment).await;
        assert_eq!(row.standing.blocked, Some(Blocked::ProviderUnavailable));
    }
    assert_eq!((world.desk.sends(), world.desk.look_ups()), (sends, looks + 3), "it is absent");
    world.desk.turn_away(false);
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn what_nobody_knows_is_looked_up_every_minute(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Lost]).await;
    world.desk.silent(true);
    world.go(payment).await;
    let mut waits = Vec::new();
    for _ in 0..6 {
        let row = world.go_when_due(payment).await;
        waits.push(row.standing.due_at.unwrap().since(world.means.clock.now()).as_secs());
    }
    assert_eq!(waits, [10, 20, 40, 60, 60, 60]);
    world.desk.silent(false);
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
}

async fn what_was_absent_is_looked_up_anew_after_the_database_was_away(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    let (sends, looks) = (world.desk.sends(), world.desk.look_ups());
    world.means.writer = writer(&world, 1).0;
    world.go_when_due(payment).await;
    assert_eq!((world.desk.sends(), world.desk.look_ups()), (sends, looks + 1));
    world.go(payment).await;
    assert_eq!((world.desk.sends(), world.desk.look_ups()), (sends + 1, looks + 2));
    world.assert_completed_once(payment).await;
}

async fn what_was_given_up_is_looked_up_anew_after_the_database_was_away(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    act_now(&world, payment, Act::Retry, People::Two).await.unwrap();
    world.desk.deaf(false);
    world.desk.silent(false);
    let (sends, looks) = (world.desk.sends(), world.desk.look_ups());
    world.means.writer = writer(&world, 1).0;
    world.go(payment).await;
    assert_eq!((world.desk.sends(), world.desk.look_ups()), (sends, looks + 1));
    world.go(payment).await;
    assert_eq!((world.desk.sends(), world.desk.look_ups()), (sends + 1, looks + 2));
    assert_eq!((world.desk.executed(Asked::Payout).len(), world.settled().await), (1, 1));
}
