//! The service is stopped in order under load: it finishes and records what is in flight, and nothing arrives
//! twice.

use settle_testing::binary::Settle;
use settle_testing::chance::Chance;

use crate::BINARY;
use crate::setup::Setup;

const STOPS: usize = 20;
const MERCHANTS: usize = 8;
/// Arrivals between two stops, at most.
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
    let setup = Setup::new(settle, MERCHANTS);
    let chance = Chance::new(15);
    let (mut serving, mut api) = setup.serve();
    setup.register(api);
    let load = setup.load(1);
    for _ in 0..STOPS {
        let wanted = usize::try_from(1 + chance.below(ARRIVALS_MAX)).expect("a small number");
        setup.tally.wait("enough has arrived", |tally| tally.arrivals_in_life >= wanted);
        serving.stop();
        setup.receiver.drain();
        setup.tally.next_life();
        (serving, api) = setup.serve();
    }
    load.stop();
    setup.check(api);
    serving.stop();

    let tally = setup.tally.read();
    let repeated = tally.repeated_after();
    println!(
        "SIGTERM, {store}: {STOPS} stops, {} acknowledged, {} arrivals, {} of them repeated",
        tally.acknowledged,
        tally.arrivals,
        repeated.values().sum::<usize>(),
    );
    assert!(repeated.is_empty(), "arrived before the stop and again after it: {repeated:?}");
}
