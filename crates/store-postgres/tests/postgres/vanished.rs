//! Connections that vanish without a word: what waits on them is given up, and the next call gets another.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the message")]

use std::time::Duration;

use settle_store::conformance::fixtures::{merchant, unique_keeper_id};
use settle_store::{Duty, ShardLease, Store, StoreError, StoreResult};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::{scratch_url, shown, store_at};
use settle_testing::proxy::Proxy;

const LEASE: Duration = Duration::from_secs(30);
/// Connections of the store: a read and two transactions.
const CONNECTIONS_MAX: u32 = 3;

async fn store() -> (Proxy, PostgresStore) {
    let (proxy, store, _) = store_and_url().await;
    (proxy, store)
}

async fn store_and_url() -> (Proxy, PostgresStore, String) {
    let direct = scratch_url().await;
    let (proxy, url) = Proxy::before(&direct);
    let store = PostgresStore::new(&url, CONNECTIONS_MAX).unwrap();
    store.migrate().await.unwrap();
    (proxy, store, direct)
}

/// The first answer after as many failures as there were connections.
async fn answered<T>(mut ask: impl AsyncFnMut() -> StoreResult<T>) -> T {
    for _ in 0..CONNECTIONS_MAX {
        match ask().await {
            Ok(answer) => return answer,
            Err(fault) => assert!(matches!(fault, StoreError::Unavailable(_)), "{fault:?}"),
        }
    }
    ask().await.expect("every connection that vanished was replaced")
}

async fn leases(store: &PostgresStore, keeper: settle_domain::ids::KeeperId) -> StoreResult<Vec<ShardLease>> {
    let mut tx = store.begin().await?;
    let mut held = tx.queue_lease(keeper, Duty::Dispatch, LEASE).await?.held;
    tx.commit().await?;
    held.sort_by_key(|lease| lease.shard);
    Ok(held)
}

#[tokio::test]
async fn a_read_gets_another_connection() {
    let (proxy, store) = store().await;
    tokio::try_join!(store.ping(), store.ping(), store.ping()).unwrap();
    proxy.swallow();
    answered(async || store.ping().await).await;
    store.close().await;
}

#[tokio::test]
async fn a_transaction_is_given_up_and_the_next_one_works() {
    let (proxy, store, url) = store_and_url().await;
    let merchant = merchant(&store).await;
    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[merchant]).await.unwrap();
    proxy.swallow();
    let lost = tx.commit().await;
    // An empty commit asks the server as well.
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    // The server still holds the lock of the vanished transaction, and ends it in time.
    let patient = PostgresStore::patient(&url, 1).unwrap();
    let mut tx = patient.begin().await.unwrap();
    tx.merchant_lock(&[merchant]).await.expect("the lock is to be had");
    tx.commit().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[merchant]).await.expect("on another connection");
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_store_closes_while_its_connections_are_gone() {
    let (proxy, store) = store().await;
    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[]).await.unwrap();
    proxy.swallow();
    store.close().await;
    assert!(matches!(store.ping().await, Err(StoreError::Unavailable(_))));
    drop(tx);
}

/// The server keeps the advisory lock of the vanished session for as long as it does not notice.
#[tokio::test]
async fn a_keeper_shows_another_sign_and_keeps_its_shards() {
    let (proxy, store) = store().await;
    let keeper = unique_keeper_id();
    let mut presence = store.presence(keeper, Duty::Dispatch).await.unwrap().expect("nobody else is there");
    let before = leases(&store, keeper).await.unwrap();
    assert!(!before.is_empty());
    proxy.swallow();
    let lost = presence.woken().await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    drop(presence);
    let _presence =
        store.presence(keeper, Duty::Dispatch).await.unwrap().expect("the old sign is in nobody's way");
    let after = answered(async || leases(&store, keeper).await).await;
    assert_eq!(after, before, "with the tokens that it had");
}

/// Over TCP: on a socket of the machine itself the server has none of them. One is in milliseconds.
#[tokio::test]
async fn the_server_looks_whether_a_node_is_still_there() {
    let store = store_at(&scratch_url().await, 1);
    for (setting, value) in [
        ("tcp_keepalives_idle", "10"),
        ("tcp_keepalives_interval", "5"),
        ("tcp_keepalives_count", "3"),
        ("tcp_user_timeout", "20000"),
        ("client_connection_check_interval", "5s"),
    ] {
        assert_eq!(shown(&store, setting).await, [value; 2], "{setting}");
    }
}
