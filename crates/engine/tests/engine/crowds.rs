//! A provider that hangs: what it does to payments through another, and to its own when it answers again.

use std::time::Duration;

use settle_provider::wire::OperationKind as Asked;
use settle_store::conformance::fixtures;
use settle_testing::virtual_time::pass;
use tokio::time::Instant;

use crate::runner::{Running, has_paid};
use crate::world::World;

/// More payments than the engine has places in hand, of merchants that have fewer than they may have.
const MERCHANTS: usize = 12;
const PAYMENTS_EACH: usize = 100;
/// More payments than a merchant has in hand through one provider, set aside, and found by one claim.
const MANY_PAYMENTS: usize = 600;
/// More merchants than one look finds.
const MANY_MERCHANTS: usize = 150;
/// Long enough to claim all that can be claimed, and too short for a call to be given up.
const A_MOMENT: Duration = Duration::from_millis(500);

/// A world in which all places that one provider may have are taken by payments that it does not answer.
async fn hanging() -> (World, Running) {
    let world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    world.desk.keep_back(Some(Asked::Conversion));
    for _ in 0..MERCHANTS {
        let merchant = fixtures::merchant(&*world.store).await;
        world.corridor_of(merchant, "desk", ("BRL", "USDC"), "0").await;
        world.receive_many(merchant, PAYMENTS_EACH).await;
    }
    let running = Running::start(&world);
    pass(A_MOMENT).await;
    (world, running)
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_hangs_leaves_places_for_the_payments_of_another() {
    let (world, running) = hanging().await;
    world.corridor_of(world.merchant, "other", ("BRL", "USDC"), "0").await;
    let received_at = Instant::now();
    world.receive_many(world.merchant, PAYMENTS_EACH).await;
    world.other_desk.until(has_paid(PAYMENTS_EACH)).await;
    assert_eq!(received_at.elapsed(), Duration::ZERO, "they did not wait for the one that hangs");
    running.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_merchant_goes_on_through_one_provider_while_another_hangs() {
    let world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    world.desk.keep_back(Some(Asked::Conversion));
    world.corridor("BRL", "USDC", "0").await;
    world.corridor_of(world.merchant, "other", ("BRL", "USDT"), "0").await;
    world.receive_many(world.merchant, MANY_PAYMENTS).await;
    let running = Running::start(&world);
    pass(A_MOMENT).await;
    let received_at = Instant::now();
    world.receive(world.order("pix", "USDT")).await.unwrap();
    world.other_desk.until(has_paid(1)).await;
    assert_eq!(received_at.elapsed(), Duration::ZERO);
    running.kill().await;
}

/// Whoever found no place need not wait for the next look.
#[tokio::test(start_paused = true)]
async fn what_was_set_aside_is_settled_when_its_provider_answers_again() {
    let (world, running) = hanging().await;
    let answers_at = Instant::now();
    world.desk.keep_back(None);
    world.desk.until(has_paid(MERCHANTS * PAYMENTS_EACH)).await;
    assert!(answers_at.elapsed() < A_MOMENT, "{:?}", answers_at.elapsed());
    running.stop().await;
    assert_eq!(world.desk.sends(), 2 * MERCHANTS * PAYMENTS_EACH, "each was sent once");
    assert_eq!(world.desk.look_ups(), 0);
}

/// Their payments stay due while they are in hand. Nobody tells the engine of what comes later.
#[tokio::test(start_paused = true)]
async fn merchants_whose_payments_hang_do_not_hide_others_from_a_look() {
    let mut world = World::unserved(settle_store_sqlite::testing::scratch().await).await;
    world.desk.keep_back(Some(Asked::Conversion));
    for _ in 0..MANY_MERCHANTS {
        let merchant = fixtures::merchant(&*world.store).await;
        world.corridor_of(merchant, "desk", ("BRL", "USDC"), "0").await;
        world.receive_many(merchant, 1).await;
    }
    world.corridor_of(world.merchant, "other", ("BRL", "USDC"), "0").await;
    world.wake = settle_engine::wake::EngineWake::default();
    let running = Running::start(&world);
    pass(A_MOMENT).await;
    world.receive_many(world.merchant, 1).await;
    world.other_desk.until(has_paid(1)).await;
    running.kill().await;
}
