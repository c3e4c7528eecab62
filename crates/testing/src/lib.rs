//! Code that the tests of several crates share. Only ever a dev-dependency.
//!
//! | module | what it gives |
//! |---|---|
//! | [`chance`] | random draws that depend only on a seed |
//! | [`corpus`] | texts near to those of a corpus |
//! | [`log`] | what a thread logs |
//! | [`secrecy`] | what no byte for a merchant may contain |
//! | [`proxy`] | a proxy that swallows connections, hangs or refuses |
//! | [`virtual_time`] | waiting under a paused clock |
//! | [`on_both_stores!`] | a test on SQLite and one on PostgreSQL of each named function |
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
pub mod corpus;
pub mod log;
pub mod proxy;
pub mod secrecy;
#[cfg(feature = "binary")]
pub mod serving;
pub mod virtual_time;

/// Turns each named function of a module into a test on SQLite and one on PostgreSQL. Each gets an empty
/// scratch store; the tests' crate has both backends with their feature `testing`.
#[macro_export]
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(settle_store_sqlite::testing::scratch().await).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(settle_store_postgres::testing::scratch().await).await;
            })+
        }
    };
}
