//! Killed without a warning, fifty times: what was acknowledged arrives; what arrives twice was in flight.

use settle_testing::binary::Settle;
use settle_testing::dice::Dice;

use crate::BINARY;
use crate::scene::{IN_FLIGHT, Scene};

const KILLS: usize = 50;
const MERCHANTS: usize = 8;
/// Arrivals in one life of the service, at most.
const ARRIVALS_MAX: u64 = 200;

#[test]
fn sqlite() {
    kill_nine("sqlite", Settle::sqlite(BINARY));
}

#[test]
fn postgres() {
    kill_nine("postgres", Settle::postgres(BINARY));
}

fn kill_nine(store: &str, settle: Settle) {
    let scene = Scene::new(settle, MERCHANTS);
    let dice = Dice::new(9);
    let (mut serving, mut api) = scene.serve();
    scene.register(api);
    let load = scene.load(1);
    for _ in 0..KILLS {
        let wanted = usize::try_from(1 + dice.below(ARRIVALS_MAX)).expect("a small number");
        scene.hub.wait("enough has arrived", |book| book.arrivals_in_life >= wanted);
        serving.signal("KILL");
        let (code, logged) = serving.stopped();
        assert_eq!(code, None, "{logged:#?}");
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
        "kill -9, {store}: {KILLS} kills, {} acknowledged, {} arrivals, {} of them repeated, at most {} a kill",
        book.acknowledged,
        book.arrivals,
        repeated.values().sum::<usize>(),
        repeated.values().max().unwrap_or(&0),
    );
    let within = book.repeated_within();
    assert!(within.is_empty(), "sent twice although the service lived: {within:?}");
    assert!(
        repeated.values().all(|repeated| *repeated <= IN_FLIGHT),
        "more than was in flight: {repeated:?}"
    );
}
