//! A provider that does not accept our credentials: people are told of it, and the log says when it changes.

use settle_domain::alert::AlertKind;
use settle_domain::payment::StateName;
use settle_domain::reason::Blocked;
use settle_store::conformance::ScratchStore;
use settle_testing::log::Log;

use crate::notices::told;
use crate::world::World;

settle_testing::on_both_stores! {
    who_is_turned_away_before_the_quote_tells_people_once,
    who_is_turned_away_at_the_quote_tells_people_once,
}

/// Not even what the provider can do is known.
async fn who_is_turned_away_before_the_quote_tells_people_once(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    assert_told_once(&world, 0).await;
}

/// The provider knew us when it was asked what it can do.
async fn who_is_turned_away_at_the_quote_tells_people_once(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let first = world.paying(&[]).await;
    assert_eq!(world.go(first).await.standing.state, StateName::Completed);
    assert_told_once(&world, 1).await;
}

async fn assert_told_once(world: &World, settled: usize) {
    world.corridor("BRL", "USDC", "0").await;
    world.desk.turn_away(true);
    let payment = world.receive(world.order("turned away", "USDC")).await.unwrap();
    let row = world.go(payment).await;
    assert_eq!(row.standing.state, StateName::Received);
    assert_eq!(row.standing.blocked, Some(Blocked::ProviderCallFailed));
    world.go_when_due(payment).await;
    let alerts = told(world).await;
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    let alert = &alerts[0];
    assert_eq!((alert.kind, alert.subject.as_str()), (AlertKind::PaymentBlocked, "provider_call_failed"));
    assert_eq!((alert.ids.as_slice(), alert.occurrences), (&[payment.0][..], 1));
    let text = format!("payment {payment} at desk, received: the provider does not accept our credentials");
    assert_eq!(alert.last_text, text);
    world.desk.turn_away(false);
    assert_eq!(world.go_when_due(payment).await.standing.state, StateName::Completed, "it goes on by itself");
    assert_eq!(world.settled().await, settled + 1);
}

#[tokio::test]
async fn the_log_says_once_that_we_are_turned_away() {
    let world = World::new(settle_store_sqlite::testing::scratch().await).await;
    let log = Log::of(tracing::Level::INFO, "settle_engine::providers");
    world.desk.turn_away(true);
    let payment = world.paying(&[]).await;
    world.go(payment).await;
    world.go_when_due(payment).await;
    assert_eq!(log.taken(), ["the provider turns us away: it does not accept our credentials (401)"]);
    world.desk.turn_away(false);
    world.go_when_due(payment).await;
    assert_eq!(log.taken(), ["the provider accepts our credentials again"]);
}
