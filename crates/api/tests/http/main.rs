//! The merchant API and the operator's listener over real HTTP, on both stores.
//!
//! Modules are named after URLs. Each test is a function that gets a [`Setup`](service::Setup): an empty
//! store, SQLite's or PostgreSQL's, and the bounds to serve it with. [`on_both_stores!`] turns it into one
//! test a store, as `webhook::show::sqlite::…` and `webhook::show::postgres::…`.
//!
//! [`contract`] checks every answer that a test receives against the committed `openapi.json`, whatever the
//! test itself looks at: anything undocumented in an answer is a failure.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "in a test a panic is the message"
)]

/// Turns each named function of the module into a test on SQLite and one on PostgreSQL.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::service::Setup::sqlite().await).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name($crate::service::Setup::postgres().await).await;
            })+
        }
    };
}

mod answer;
mod authentication;
mod connections;
mod contract;
mod courier;
mod dispatch;
mod docs;
mod errors;
mod forgery;
mod languages;
mod limits;
mod log;
mod merchant;
mod operator;
mod privacy;
mod raw;
mod resolvers;
mod service;
mod settlements;
mod shutdown;
mod webhook;
