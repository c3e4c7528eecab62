//! The service is killed fifty times: what it acknowledged arrives, and only what was in flight arrives
//! twice.

use settle_testing::binary::Settle;
use settle_testing::chance::Chance;
use settle_testing::serving::Signal;

use crate::BINARY;
use crate::setup::{IN_FLIGHT, Setup};

const KILLS: usize = 50;
const MERCHANTS: usize = 8;
/// Arrivals between two kills, at most.
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
    let setup = Setup::new(settle, MERCHANTS);
    let chance = Chance::new(9);
    let (mut serving, mut api) = setup.serve();
    setup.register(api);
    let load = setup.load(1);
    for _ in 0..KILLS {
        let wanted = usize::try_from(1 + chance.below(ARRIVALS_MAX)).expect("a small number");
        setup.tally.wait("enough has arrived", |tally| tally.arrivals_in_life >= wanted);
        serving.signal(Signal::KILL);
        let (code, logged) = serving.stopped();
        assert_eq!(code, None, "{logged:#?}");
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
        "kill -9, {store}: {KILLS} kills, {} acknowledged, {} arrivals, {} of them repeated, at most {} a kill",
        tally.acknowledged,
        tally.arrivals,
        repeated.values().sum::<usize>(),
        repeated.values().max().unwrap_or(&0),
    );
    let within = tally.repeated_within();
    assert!(within.is_empty(), "sent twice although the service lived: {within:?}");
    assert!(
        repeated.values().all(|repeated| *repeated <= IN_FLIGHT),
        "more than was in flight: {repeated:?}"
    );
}
