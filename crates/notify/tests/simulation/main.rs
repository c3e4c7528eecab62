//! A seeded simulation: the real dispatcher on the real SQLite store, under a clock that jumps.
//!
//! Endpoints time out, break connections, answer late or wrongly, and flap. We ourselves run out of files and
//! name servers. The dispatcher is killed between any two of its steps, and started again; calls to the
//! database never return. The clock steps, by up to a day in both directions, and is right again at the end.
//! Meanwhile merchants rotate secrets, clear and set endpoints, and request redeliveries. [`world`] checks at
//! every step what must hold, such as that we spend no attempt of a merchant; at the end every delivery is
//! delivered or dead.
//!
//! A seed replays by its number: `SIMULATION_SEED=4711 cargo nextest run --test simulation one_seed`.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

mod endpoint;
mod faults;
mod scenario;
mod world;

use scenario::{Scenario, run_seeds};

/// Seeds in each quarter; the quarters run side by side.
const SEEDS: u64 = 600;

#[test]
fn seeds_of_the_first_quarter() {
    run_seeds(0..SEEDS, Scenario::SHORT);
}

#[test]
fn seeds_of_the_second_quarter() {
    run_seeds(SEEDS..2 * SEEDS, Scenario::SHORT);
}

#[test]
fn seeds_of_the_third_quarter() {
    run_seeds(2 * SEEDS..3 * SEEDS, Scenario::SHORT);
}

#[test]
fn seeds_of_the_fourth_quarter() {
    run_seeds(3 * SEEDS..4 * SEEDS, Scenario::SHORT);
}

/// With the schedule of the contract: 1, 2, 4, 8, 16, 32, 60 minutes.
#[test]
fn seeds_with_the_real_schedule() {
    run_seeds(0..5, Scenario::REAL);
}

/// The seed that `SIMULATION_SEED` names, or the first.
#[test]
#[expect(clippy::disallowed_methods, reason = "this is not a setting of the service")]
fn one_seed() {
    let seed = std::env::var("SIMULATION_SEED").ok().map_or(0, |text| text.parse().expect("a number"));
    run_seeds(seed..seed + 1, Scenario::SHORT);
}
