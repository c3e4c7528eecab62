//! PostgreSQL goes away and comes back, in order and by a crash, while the service runs on. What was
//! acknowledged arrives, and nothing arrives twice.
//!
//! The dispatcher remembers the outcomes that it cannot record, and does not claim their deliveries again. It
//! keeps its shards, because no other node could take them over. So nothing needs to be sent twice.

use std::time::{Duration, Instant};

use settle_testing::binary::Settle;
use settle_testing::chance::Chance;

use crate::BINARY;
use crate::cluster::Cluster;
use crate::setup::Setup;

const RESTARTS: usize = 10;
const MERCHANTS: usize = 8;
/// Arrivals between two restarts, at most.
const ARRIVALS_MAX: u64 = 200;

#[test]
fn postgres_restarts() {
    let mut cluster = Cluster::start();
    let setup = Setup::new(Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", &cluster.url), MERCHANTS);
    let chance = Chance::new(10);
    let (mut serving, api) = setup.serve();
    // A crash can undo the taking of the shards until something else is committed after it.
    serving.wait_for_once("shards are served");
    setup.register(api);
    let load = setup.load(1);
    let mut away = Duration::ZERO;
    for restart in 0..RESTARTS {
        let wanted = usize::try_from(1 + chance.below(ARRIVALS_MAX)).expect("a small number");
        setup.tally.wait("enough has arrived", |tally| tally.arrivals_in_life >= wanted);
        if restart % 2 == 0 {
            cluster.restart();
        } else {
            cluster.crash();
        }
        let back = Instant::now();
        let first = setup.tally.change(|tally| {
            tally.life += 1;
            tally.arrivals_in_life = 0;
            tally.posted
        });
        setup.tally.wait("something posted afterwards has arrived", |tally| {
            (first..tally.posted).any(|number| tally.settlements.contains_key(&number))
        });
        away = away.max(back.elapsed());
    }
    load.stop();
    setup.check(api);
    serving.stop();

    let tally = setup.tally.read();
    let repeated = tally.repeated_after();
    println!(
        "PostgreSQL restarts: {RESTARTS}, half of them crashes, {} acknowledged, {} arrivals, \
         {} of them repeated, new settlements arrive {away:?} later at most",
        tally.acknowledged,
        tally.arrivals,
        repeated.values().sum::<usize>(),
    );
    assert!(repeated.is_empty(), "sent again although its outcome was known: {repeated:?}");
}
