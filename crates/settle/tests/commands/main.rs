//! The `settle` binary as an operator uses it: real processes, real files, on both stores.
//!
//! Each test is a function that gets a [`Settle`](settle_testing::binary::Settle): a data folder of its own
//! and an empty store, SQLite's or PostgreSQL's. [`on_both_stores!`] turns it into one test a store.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the message")]

/// The binary that cargo built for these tests.
const BINARY: &str = env!("CARGO_BIN_EXE_settle");

/// Turns each named function of the module into a test on SQLite and one on PostgreSQL.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[test]
            fn $name() {
                super::$name(&mut settle_testing::binary::Settle::sqlite($crate::BINARY));
            })+
        }

        mod postgres {
            $(#[test]
            fn $name() {
                super::$name(&mut settle_testing::binary::Settle::postgres($crate::BINARY));
            })+
        }
    };
}

mod bench;
mod config;
mod delivery;
mod demo;
mod dev;
mod doctor;
mod forward;
mod import;
mod import_refused;
mod import_steps;
mod key;
mod ledger;
mod listen;
mod listening;
mod master_key;
mod master_key_retired;
mod merchant;
mod migrate;
mod openapi;
mod operator;
mod payment;
mod private;
mod rebinding;
mod receivers;
mod sandbox;
mod secrecy;
mod serve;
mod shell;
