//! PostgreSQL goes away and comes back, in order and by a crash, while the service runs on: what was
//! acknowledged arrives, and nothing arrives twice.
//!
//! The dispatcher remembers the outcomes that it cannot record and does not claim their deliveries again. Its
//! shards stay its own, because there is nobody to take them over. So there is no reason for a repetition.

use std::time::{Duration, Instant};

use settle_testing::binary::Settle;
use settle_testing::dice::Dice;

use crate::BINARY;
use crate::cluster::Cluster;
use crate::scene::Scene;

const RESTARTS: usize = 10;
const MERCHANTS: usize = 8;
/// Arrivals between two restarts, at most.
const ARRIVALS_MAX: u64 = 200;

#[test]
fn postgres_restarts() {
    let mut cluster = Cluster::start();
    let scene = Scene::new(Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", &cluster.url), MERCHANTS);
    let dice = Dice::new(10);
    let (mut serving, api) = scene.serve();
    // That the shards were taken is forgotten by a crash until something else was committed after it.
    serving.wait_for("shards are served");
    scene.register(api);
    let load = scene.load(1);
    let mut away = Duration::ZERO;
    for restart in 0..RESTARTS {
        let wanted = usize::try_from(1 + dice.below(ARRIVALS_MAX)).expect("a small number");
        scene.hub.wait("enough has arrived", |book| book.arrivals_in_life >= wanted);
        if restart % 2 == 0 {
            cluster.restart();
        } else {
            cluster.crash();
        }
        let back = Instant::now();
        let first = scene.hub.change(|book| {
            book.life += 1;
            book.arrivals_in_life = 0;
            book.posted
        });
        scene.hub.wait("something posted afterwards has arrived", |book| {
            (first..book.posted).any(|number| book.settlements.contains_key(&number))
        });
        away = away.max(back.elapsed());
    }
    load.stop();
    scene.check(api);
    serving.stop();

    let book = scene.hub.book();
    let repeated = book.repeated_after();
    println!(
        "PostgreSQL restarts: {RESTARTS}, half of them crashes, {} acknowledged, {} arrivals, \
         {} of them repeated, new settlements arrive {away:?} later at most",
        book.acknowledged,
        book.arrivals,
        repeated.values().sum::<usize>(),
    );
    assert!(repeated.is_empty(), "sent again although its outcome was known: {repeated:?}");
}
