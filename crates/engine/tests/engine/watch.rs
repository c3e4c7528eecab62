//! The watch: what takes too long is told once, whichever process looks.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::alert::AlertKind;
use settle_domain::ids::{MerchantId, OperationId};
use settle_domain::seams::{Clock, SeededEntropy};
use settle_engine::watch::Watch;
use settle_store::conformance::ScratchStore;
use settle_store::{Alert, DueTime};
use uuid::Uuid;

use crate::desk::Lie;
use crate::notices::told;
use crate::world::{World, at};

settle_testing::on_both_stores! {
    a_payment_past_its_corridors_limit_is_told_once,
    a_wallet_out_of_gas_is_told_until_it_is_filled,
    an_open_circuit_is_told_when_it_opens,
    a_clock_that_was_ahead_hides_nobody_who_is_late,
    who_has_not_the_job_tells_nothing,
    another_memory_of_a_provider_is_told_once_for_each_change,
}

/// More failures in a row than open a circuit.
const FAILURES: u32 = 6;

fn watch(world: &World) -> Watch {
    let entropy = Arc::new(SeededEntropy::new(7));
    Watch::new(world.store.share(), world.means.providers.clone(), world.clock.clone(), entropy)
}

fn pass(world: &World, time: Duration) {
    world.clock.set(world.clock.now().plus(time));
}

fn kinds(alerts: &[Alert]) -> Vec<(AlertKind, &str, u64)> {
    alerts.iter().map(|alert| (alert.kind, alert.subject.as_str(), alert.occurrences)).collect()
}

async fn a_payment_past_its_corridors_limit_is_told_once(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    let first = world.receive(world.order("first", "USDC")).await.unwrap();
    let (one, other) = (watch(&world), watch(&world));
    pass(&world, Duration::from_mins(1));
    let second = world.receive(world.order("second", "USDC")).await.unwrap();
    pass(&world, Duration::from_secs(14 * 60 - 1));
    one.look().await.unwrap();
    assert_eq!(told(&world).await, [], "one second too early");
    pass(&world, Duration::from_mins(1));
    other.look().await.unwrap();
    let alerts = told(&world).await;
    assert_eq!(kinds(&alerts), [(AlertKind::PaymentBlocked, "received", 1)]);
    assert_eq!((alerts[0].merchant_id, alerts[0].ids.as_slice()), (world.merchant, &[first.0][..]));
    let since = format!("payment {first}, received since 2026-01-01T00:00:00");
    assert!(alerts[0].last_text.starts_with(&since), "{}", alerts[0].last_text);
    for _ in 0..2 {
        pass(&world, Duration::from_mins(10));
        one.look().await.unwrap();
        other.look().await.unwrap();
    }
    let alerts = told(&world).await;
    assert_eq!(kinds(&alerts), [(AlertKind::PaymentBlocked, "received", 1)]);
    assert_eq!(alerts[0].ids, [second.0], "each payment once");
}

async fn a_wallet_out_of_gas_is_told_until_it_is_filled(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let payment = world.paying(&[Lie::OutOfGas, Lie::OutOfGas]).await;
    world.go(payment).await;
    let watch = watch(&world);
    watch.look().await.unwrap();
    let alerts = told(&world).await;
    assert_eq!(kinds(&alerts), [(AlertKind::ProviderOutOfGas, "desk", 1)]);
    assert_eq!(alerts[0].merchant_id, MerchantId::NIL);
    assert_eq!(alerts[0].last_text, "desk's wallet is out of gas: 1 payments wait for it");
    for _ in 0..6 {
        pass(&world, Duration::from_mins(1));
        watch.look().await.unwrap();
    }
    assert_eq!(told(&world).await, [], "it is known, and nobody is late yet");
    world.go(payment).await;
    world.go_when_due(payment).await;
    world.assert_completed_once(payment).await;
    pass(&world, Duration::from_hours(1));
    watch.look().await.unwrap();
    assert_eq!(told(&world).await, []);
    world.desk.lies(settle_provider::wire::OperationKind::Payout, &[Lie::OutOfGas]);
    let again = world.receive(world.order("again", "USDC")).await.unwrap();
    world.go(again).await;
    pass(&world, Duration::from_secs(61));
    watch.look().await.unwrap();
    assert_eq!(kinds(&told(&world).await), [(AlertKind::ProviderOutOfGas, "desk", 1)], "empty again");
}

async fn a_clock_that_was_ahead_hides_nobody_who_is_late(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    let watch = watch(&world);
    world.clock.set(at(7_200));
    world.desk.lies(settle_provider::wire::OperationKind::Payout, &[Lie::Pending]);
    let ahead = world.receive(world.order("ahead", "USDC")).await.unwrap();
    world.go(ahead).await;
    pass(&world, Duration::from_mins(15));
    watch.look().await.unwrap();
    assert_eq!(kinds(&told(&world).await), [(AlertKind::PaymentBlocked, "paying_out", 1)]);
    world.clock.set(at(60));
    let second = world.receive(world.order("in time", "USDC")).await.unwrap();
    watch.look().await.unwrap();
    pass(&world, Duration::from_mins(16));
    watch.look().await.unwrap();
    let alerts = told(&world).await;
    assert_eq!(alerts.iter().map(|alert| alert.ids.clone()).collect::<Vec<_>>(), [[second.0]]);
}

async fn an_open_circuit_is_told_when_it_opens(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    let watch = watch(&world);
    watch.look().await.unwrap();
    assert_eq!(told(&world).await, []);
    let station = world.means.providers.find(&"desk".parse().unwrap()).unwrap();
    world.desk.silent(true);
    for _ in 0..FAILURES {
        station.look_up(OperationId(Uuid::from_u128(1))).await;
    }
    assert!(!station.may_send());
    assert_eq!((station.unanswered(), station.answered_at()), (FAILURES, Some(at(0))));
    for _ in 0..3 {
        watch.look().await.unwrap();
        pass(&world, Duration::from_mins(1));
    }
    let alerts = told(&world).await;
    assert_eq!(kinds(&alerts), [(AlertKind::ProviderCircuitOpen, "desk", 1)]);
    pass(&world, Duration::from_hours(1));
    watch.look().await.unwrap();
    assert_eq!(told(&world).await, [], "it is still the same opening");
    world.desk.silent(false);
    station.look_up(OperationId(Uuid::from_u128(1))).await;
    assert_eq!((station.unanswered(), station.answered_at()), (0, Some(world.clock.now())));
}

async fn who_has_not_the_job_tells_nothing(scratch: ScratchStore) {
    let world = World::new(scratch).await;
    world.corridor("BRL", "USDC", "0").await;
    world.receive(world.order("first", "USDC")).await.unwrap();
    pass(&world, Duration::from_hours(1));
    let now = world.clock.now();
    let mut tx = world.store.begin().await.unwrap();
    let taken = tx.job_take("watch", now, DueTime::by(now), Duration::from_mins(2)).await.unwrap();
    assert!(taken.is_some());
    tx.commit().await.unwrap();
    let watch = watch(&world);
    watch.look().await.unwrap();
    assert_eq!(told(&world).await, [], "another process is at it");
    pass(&world, Duration::from_mins(2));
    watch.look().await.unwrap();
    assert_eq!(told(&world).await.len(), 1, "it has died");
}

/// Each change is seen by a process that has just begun: what was before stands in the database.
async fn another_memory_of_a_provider_is_told_once_for_each_change(scratch: ScratchStore) {
    let mut world = World::new(scratch).await;
    watch(&world).look().await.unwrap();
    assert_eq!(told(&world).await, [], "the first is no change");
    for (instance, before) in [("two", "one"), ("one", "two")] {
        world.desk.forget(instance);
        world.restart();
        pass(&world, Duration::from_hours(1));
        let watch = watch(&world);
        watch.look().await.unwrap();
        let alerts = told(&world).await;
        assert_eq!(kinds(&alerts), [(AlertKind::ProviderMemoryChanged, "desk", 1)], "{instance}");
        let text = format!("desk has another memory, {instance} instead of {before}: ");
        assert!(alerts[0].last_text.starts_with(&text), "{}", alerts[0].last_text);
        for _ in 0..2 {
            pass(&world, Duration::from_hours(1));
            watch.look().await.unwrap();
        }
        assert_eq!(told(&world).await, [], "it is known");
    }
}
