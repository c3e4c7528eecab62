//! The binary: commands, configuration, wiring. The only crate that names a backend.
//!
//! | module | what it does |
//! |---|---|
//! | [`commands`] | one file per command |
//! | [`config`] | the settings: defaults, file, environment |
//! | [`wiring`] | opens the store the settings name, reads the master key, builds guard, sender and alerter |
//! | [`system`] | the real clock and the real randomness |
//! | `bench` | measures the real service on a store of its own |
//! | `receiver` | a receiver of notifications for development |
//! | [`output`] | what commands print: text for people, JSON for programs |

mod bench;
pub mod commands;
pub mod config;
mod logging;
pub mod output;
mod receiver;
pub mod system;
pub mod wiring;
