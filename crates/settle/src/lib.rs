//! The binary: the commands, and a receiver for development.
//!
//! | module | what it does |
//! |---|---|
//! | [`commands`] | one file per command |
//! | `exchange` | one HTTP request of a command |
//! | `receiver` | a receiver of notifications for development |
//! | `shells` | words that every shell reads alike |
//! | [`output`] | what commands print: text for people, JSON for programs |

pub mod commands;
mod exchange;
mod logging;
pub mod output;
mod receiver;
mod shells;
