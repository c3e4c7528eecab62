//! Stopped in order under load: what is in flight is finished and recorded, and nothing arrives twice.

use settle_testing::binary::Settle;
use settle_testing::dice::Dice;

use crate::BINARY;
use crate::scene::Scene;

const STOPS: usize = 20;
const MERCHANTS: usize = 8;
/// Arrivals in one life of the service, at most.
const ARRIVALS_MAX: u64 = 200;

#[test]
fn sqlite() {
    graceful_stop("sqlite", Settle::sqlite(BINARY));
}

#[test]
fn postgres() {
    graceful_stop("postgres", Settle::postgres(BINARY));
}

fn graceful_stop(store: &str, settle: Settle) {
    let scene = Scene::new(settle, MERCHANTS);
    let dice = Dice::new(15);
    let (mut serving, mut api) = scene.serve();
    scene.register(api);
    let load = scene.load(1);
    for _ in 0..STOPS {
        let wanted = usize::try_from(1 + dice.below(ARRIVALS_MAX)).expect("a small number");
        scene.hub.wait("enough has arrived", |book| book.arrivals_in_life >= wanted);
        serving.stop();
        scene.receiver.drain();
        scene.hub.next_life();
        (serving, api) = scene.serve();
    }
    load.stop();
    scene.check(api);
    serving.stop();

    let book = scene.hub.book();
    let repeated = book.repeated_after();
    println!(
        "SIGTERM, {store}: {STOPS} stops, {} acknowledged, {} arrivals, {} of them repeated",
        book.acknowledged,
        book.arrivals,
        repeated.values().sum::<usize>(),
    );
    assert!(repeated.is_empty(), "arrived before the stop and again after it: {repeated:?}");
}
