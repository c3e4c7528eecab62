//! Code that the tests of several crates share. Only ever a dev-dependency.
//!
//! | module | what it gives |
//! |---|---|
//! | [`chance`] | random draws that depend only on a seed |
//! | [`virtual_time`] | waiting under a paused clock |
//! | `binary` | runs the binary on a data folder and a store of its own |
//! | `serving` | a running service, its log, and a client |
//!
//! The last two need the feature `binary`: only the tests of `crates/settle` have a binary to run.
//!
//! A double of one crate's trait is in that crate, behind its feature `testing`. Tests that every store must
//! pass are in the conformance suite of `settle-store`.

#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "these are tests: a panic is their message, and many ask only to see that they are answered"
)]

#[cfg(feature = "binary")]
pub mod binary;
pub mod chance;
#[cfg(feature = "binary")]
pub mod serving;
pub mod virtual_time;
