//! A URL with several servers: one that refuses, or says nothing, holds nobody up without end, one that
//! follows another is passed over, and one that accepts no writes any more is not asked before the others.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use settle_store::{Store, StoreError};
use settle_store_postgres::testing::{limited_url, scratch_url, session};
use settle_store_postgres::{PostgresStore, UrlFault};
use settle_testing::proxy::Proxy;
use sqlx::{AssertSqlSafe, Executor};

/// Two servers, which are ways to one database, and a store that knows both.
async fn servers() -> (Proxy, Proxy, PostgresStore) {
    servers_of(&scratch_url().await, PostgresStore::new)
}

/// The same for the database of this URL.
fn servers_of(
    direct: &str,
    open: fn(&str, u32) -> Result<PostgresStore, UrlFault>,
) -> (Proxy, Proxy, PostgresStore) {
    let ((first, url), (second, _)) = (Proxy::before(direct), Proxy::before(direct));
    let both = format!("{},{}", first.address, second.address);
    let url = url.replacen(&first.address.to_string(), &both, 1);
    (first, second, open(&url, 1).unwrap())
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

/// The server cannot be made to follow another here. What it is asked is answered by a function of the test's
/// schema, which the sessions of the store find before the server's own.
#[tokio::test]
async fn a_server_that_follows_another_is_passed_over_until_it_is_promoted() {
    let direct = format!("{},pg_catalog", scratch_url().await);
    let mut owner = session(&direct).await;
    let mut follows = async |is_standby: bool| {
        let sql = "CREATE OR REPLACE FUNCTION pg_is_in_recovery() RETURNS boolean LANGUAGE sql";
        owner.execute(AssertSqlSafe(format!("{sql} RETURN {is_standby}"))).await.map(drop).unwrap();
    };
    let (_first, _second, store) = servers_of(&direct, PostgresStore::patient);
    follows(true).await;
    let refused = store.ping().await;
    let Err(StoreError::Unavailable(cause)) = refused else { panic!("none accepts writes: {refused:?}") };
    assert!(cause.to_string().contains("no server of the URL accepts writes"), "{cause}");
    follows(false).await;
    store.ping().await.unwrap();
    // Who names one server alone gets it, whatever it is.
    follows(true).await;
    PostgresStore::patient(&direct, 1).unwrap().ping().await.unwrap();
}

/// It says so, and then falls silent: who still asked it before the others would run into the limit.
#[tokio::test]
async fn a_server_that_accepts_no_writes_any_more_is_not_preferred() {
    let owner_url = scratch_url().await;
    PostgresStore::new(&owner_url, 1).unwrap().migrate().await.unwrap();
    let (direct, role) = limited_url(&owner_url).await;
    let schema = owner_url.rsplit('=').next().unwrap();
    let mut owner = session(&owner_url).await;
    for sql in [
        format!("GRANT SELECT, UPDATE ON ALL TABLES IN SCHEMA {schema} TO {role}"),
        format!("ALTER ROLE {role} SET default_transaction_read_only = on"),
    ] {
        owner.execute(AssertSqlSafe(sql)).await.unwrap();
    }
    let (first, second, store) = servers_of(&direct, PostgresStore::new);
    second.hang();
    store.ping().await.expect("the first one answers");
    let refused = store.write_probe().await;
    let Err(StoreError::Unavailable(cause)) = refused else { panic!("it is read-only: {refused:?}") };
    assert!(cause.to_string().contains("read-only transaction"), "{cause}");
    first.hang();
    second.pass();
    store.ping().await.expect("the second one is asked at once");
}
