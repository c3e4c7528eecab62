//! What keeps a payment from going on until a person mends it.

use settle_domain::actor::Actor;
use settle_domain::ids::PaymentId;
use settle_domain::payment::{Act, StateName};
use settle_domain::provider::ProviderName;
use settle_domain::seams::Clock;
use settle_engine::acts::People;
use settle_provider::wire::OperationKind as Asked;
use settle_store::ProviderPause;
use settle_store::conformance::ScratchStore;

use crate::acts::act_now;
use crate::desk::Lie;
use crate::doubts::give_up_in_silence;
use crate::world::World;

settle_testing::on_both_stores! {
    a_provider_that_the_settings_do_not_have_is_named,
    a_paused_provider_stands_in_the_way_of_what_is_to_be_sent,
    a_provider_that_turns_us_away_is_named,
    a_provider_that_must_say_what_became_of_what_was_given_up_is_named,
}

async fn obstacle(world: &World, payment: PaymentId) -> Option<String> {
    let case = world.means.read(world.merchant, payment).await.unwrap().unwrap();
    world.means.obstacle(&case).await.unwrap().map(|obstacle| obstacle.to_string())
}

async fn a_provider_that_the_settings_do_not_have_is_named(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor_of(world.merchant, "bank-2", ("BRL", "USDC"), "0").await;
    let payment = world.receive(world.order("pix", "USDC")).await.unwrap();
    let words = "this process does not know provider bank-2: the one that runs the engine needs \
                 SETTLE_PROVIDERS__BANK-2__URL and SETTLE_PROVIDERS__BANK-2__SECRET";
    assert_eq!(obstacle(&world, payment).await.as_deref(), Some(words));
    world.go(payment).await;
    assert_eq!(obstacle(&world, payment).await.as_deref(), Some(words));
    let without = world.receive(world.order("pix 2", "USDT")).await.unwrap();
    assert_eq!(obstacle(&world, without).await, None, "without a corridor it fails");
}

async fn a_paused_provider_stands_in_the_way_of_what_is_to_be_sent(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let sent = world.paying(&[Lie::Lost]).await;
    assert_eq!(obstacle(&world, sent).await, None);
    assert_eq!(world.go(sent).await.standing.state, StateName::PayingOut);
    let received = world.receive(world.order("pix 2", "USDC")).await.unwrap();
    let provider: ProviderName = "desk".parse().unwrap();
    let pause =
        ProviderPause { provider: provider.clone(), paused_by: Actor::Command, paused_at: world.clock.now() };
    let mut tx = world.store.begin().await.unwrap();
    tx.provider_pause(&pause).await.unwrap();
    tx.commit().await.unwrap();
    let words = "provider desk is paused by an operator: settle provider resume desk";
    assert_eq!(obstacle(&world, received).await.as_deref(), Some(words));
    assert_eq!(obstacle(&world, sent).await, None, "what was sent is looked up all the same");
    let mut tx = world.store.begin().await.unwrap();
    tx.provider_resume(&provider).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(obstacle(&world, received).await, None);
}

async fn a_provider_that_turns_us_away_is_named(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[]).await;
    world.desk.turn_away(true);
    world.go(payment).await;
    let words = "provider desk turns us away (401): compare its secret with SETTLE_PROVIDERS__DESK__SECRET";
    assert_eq!(obstacle(&world, payment).await.as_deref(), Some(words));
    world.desk.turn_away(false);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Completed);
    assert_eq!(obstacle(&world, payment).await, None);
}

async fn a_provider_that_must_say_what_became_of_what_was_given_up_is_named(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::Dropped]).await;
    world.go(payment).await;
    give_up_in_silence(&world, payment).await;
    assert_eq!(obstacle(&world, payment).await, None, "nothing is to go out");
    act_now(&world, payment, Act::Refund, People::Two).await.unwrap();
    world.go(payment).await;
    let words = "provider desk must first say what became of its earlier payout";
    assert_eq!(obstacle(&world, payment).await.as_deref(), Some(words));
    world.desk.deaf(false);
    world.desk.silent(false);
    world.desk.lies(Asked::Refund, &[Lie::OutOfGas]);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Refunding);
    assert_eq!(obstacle(&world, payment).await, None, "it has said so, and turns us away for another reason");
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Refunded);
    assert_eq!(obstacle(&world, payment).await, None);
}
