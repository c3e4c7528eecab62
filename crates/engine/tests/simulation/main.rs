//! A seeded simulation: the real engine, with its writer and its keeper of shards, on real stores, with
//! providers that lie.
//!
//! Requests arrive late, also after a look-up was told that there is none; answers are lost, late or out
//! of order; look-ups lag behind, fail, or are answered by another copy of the provider; a second request
//! under a key is refused although the first was executed; refusals are taken back, amounts are short,
//! money comes back; hints come late, twice or never, to either node. Two nodes die before and after each
//! of their commits and calls. Shards move between them, also without the one knowing that lost them.
//! Commits fail, are refused, or succeed and say nothing. Two operators retry, refund, cancel and
//! resolve, each on what it saw a moment ago. Clocks jump both ways.
//!
//! [`verdict`] says what must hold when all is calm. [`liar`] is the witness of what was really executed.
//!
//! A seed replays by its number: `SIMULATION_SEED=4711 cargo nextest run -p settle-engine one_seed`.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

mod liar;
mod node;
mod operators;
mod scenario;
mod seeds;
mod verdict;
mod world;

use seeds::{run_on_postgres, run_seeds, story_of};

/// Seeds in each part; the parts run side by side.
const SEEDS: u64 = 250;

macro_rules! parts {
    ($($name:ident: $number:literal),+ $(,)?) => {
        $(#[test]
        fn $name() {
            run_seeds($number * SEEDS..($number + 1) * SEEDS);
        })+
    };
}

parts! {
    seeds_of_the_first_part: 0,
    seeds_of_the_second_part: 1,
    seeds_of_the_third_part: 2,
    seeds_of_the_fourth_part: 3,
    seeds_of_the_fifth_part: 4,
    seeds_of_the_sixth_part: 5,
    seeds_of_the_seventh_part: 6,
    seeds_of_the_eighth_part: 7,
}

#[test]
fn some_seeds_on_postgres() {
    run_on_postgres(0..8);
}

/// The seed that `SIMULATION_SEED` names, or the first.
#[test]
#[expect(clippy::disallowed_methods, reason = "this is not a setting of the service")]
fn one_seed() {
    let seed = std::env::var("SIMULATION_SEED").ok().map_or(0, |text| text.parse().expect("a number"));
    run_seeds(seed..seed + 1);
}

#[test]
fn a_seed_replays_to_the_same_story() {
    for seed in 0..10 {
        assert_eq!(story_of(seed), story_of(seed), "seed {seed}");
    }
}
