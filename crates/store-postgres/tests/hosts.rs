//! A URL with several servers: one that refuses, or says nothing, holds nobody up without end.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use settle_store::{Store, StoreError};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::scratch_url;
use settle_testing::proxy::Proxy;

/// Two servers, which are ways to one database, and a store that knows both.
async fn servers() -> (Proxy, Proxy, PostgresStore) {
    let direct = scratch_url().await;
    let ((first, url), (second, _)) = (Proxy::before(&direct), Proxy::before(&direct));
    let both = format!("{},{}", first.address, second.address);
    let url = url.replacen(&first.address.to_string(), &both, 1);
    (first, second, PostgresStore::new(&url, 1).unwrap())
}

#[tokio::test]
async fn a_server_that_refuses_is_passed_over() {
    let (mut first, _second, store) = servers().await;
    first.refuse();
    store.migrate().await.expect("the second one answers");
    store.ping().await.unwrap();
}

#[tokio::test]
async fn a_server_that_is_silent_is_passed_over() {
    let (first, _second, store) = servers().await;
    first.hang();
    store.migrate().await.expect("the second one answers");
    store.ping().await.unwrap();
}

#[tokio::test]
async fn the_server_that_was_used_last_falls_silent() {
    let (first, second, store) = servers().await;
    second.hang();
    store.migrate().await.expect("the first one answers");
    first.hang();
    second.pass();
    store.migrate().await.expect("the second one answers");
    store.ping().await.unwrap();
}

#[tokio::test]
async fn servers_that_are_all_silent_are_given_up() {
    let (first, second, store) = servers().await;
    first.hang();
    second.hang();
    let given_up = store.migrate().await;
    assert!(matches!(given_up, Err(StoreError::Unavailable(_))), "{given_up:?}");
}
