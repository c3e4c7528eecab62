//! What the service promises when processes die: tested with the real binary, real connections, real signals.
//!
//! | module | what happens to the service under load |
//! |---|---|
//! | [`kill_nine`] | it is killed again and again, on both stores |
//! | [`settling`] | it and its provider are killed again and again while payments are settled, both stores |
//! | [`graceful_stop`] | it is stopped in order, again and again, on both stores |
//! | [`postgres_restarts`] | its database goes away and comes back |
//! | [`half_open`] | its connections to the database vanish without a word |
//! | [`three_nodes`] | of three nodes one stands still past its lease, and one is killed |
//! | [`clearing`] | it is killed while it ends what waited for an endpoint that was cleared, on both stores |
//! | [`late_outcomes`] | of two nodes one stands still, and comes back while the other makes its attempts |
//!
//! Each proof loads the service through its operator API ([`load`]) and counts the arrivals at a receiver of
//! its own ([`receiver`]). Everything acknowledged must arrive; only what was in flight when a process died
//! may arrive twice. `cargo nextest run --test proofs --no-capture` prints the figures of a run.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "in a test a panic is the message, and the figures are wanted"
)]

/// The binary that cargo built for these tests.
const BINARY: &str = env!("CARGO_BIN_EXE_settle");

mod clearing;
mod cluster;
mod graceful_stop;
mod half_open;
mod kill_nine;
mod late_outcomes;
mod load;
mod nodes;
mod peers;
mod postgres_restarts;
mod receiver;
mod settling;
mod setup;
mod tally;
mod three_nodes;
