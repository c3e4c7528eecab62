//! The binary: the commands, and a receiver for development.
//!
//! | module | what it does |
//! |---|---|
//! | [`commands`] | one file per command |
//! | `bench` | measures the real service on a store of its own |
//! | `receiver` | a receiver of notifications for development |
//! | [`output`] | what commands print: text for people, JSON for programs |

mod bench;
pub mod commands;
mod logging;
pub mod output;
mod receiver;
