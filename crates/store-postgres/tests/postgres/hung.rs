//! A database that hangs or is not there: every call ends by itself, the first and the later ones.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::io::ErrorKind;

use settle_domain::ids::MerchantId;
use settle_store::conformance::fixtures::merchant;
use settle_store::{Store, StoreError, StoreResult};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::scratch_url;
use settle_testing::proxy::Proxy;

/// Connections of the store: a read and two transactions.
const CONNECTIONS_MAX: u32 = 3;
/// The first on connections that were good, the later ones on new ones.
const CALLS: usize = 4;

/// A store with idle connections, and a merchant of it.
async fn store() -> (Proxy, PostgresStore, MerchantId) {
    let (proxy, url) = Proxy::before(&scratch_url().await);
    let store = PostgresStore::new(&url, CONNECTIONS_MAX).unwrap();
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    tokio::try_join!(store.ping(), store.ping(), store.ping()).unwrap();
    (proxy, store, merchant)
}

async fn locked(store: &PostgresStore, merchant: MerchantId) -> StoreResult<()> {
    store.begin().await?.merchant_lock(&[merchant]).await.map(drop)
}

/// What kept a call from being answered.
fn cause(called: StoreResult<()>) -> Option<ErrorKind> {
    let Err(StoreError::Unavailable(fault)) = called else { panic!("it is unavailable: {called:?}") };
    match fault.downcast_ref() {
        Some(sqlx::Error::Io(fault)) => Some(fault.kind()),
        _ => None,
    }
}

#[tokio::test]
async fn a_database_that_hangs_is_unavailable() {
    let (proxy, store, merchant) = store().await;
    proxy.hang();
    for _ in 0..CALLS {
        let (read, write) = tokio::join!(store.ping(), locked(&store, merchant));
        assert_eq!([cause(read), cause(write)], [Some(ErrorKind::TimedOut); 2]);
    }
    store.close().await;
}

#[tokio::test]
async fn a_database_that_hangs_when_we_start_is_unavailable() {
    let (proxy, url) = Proxy::before(&scratch_url().await);
    proxy.hang();
    let store = PostgresStore::new(&url, CONNECTIONS_MAX).unwrap();
    let nobody = MerchantId(settle_store::conformance::fixtures::unique_uuid());
    for _ in 0..CALLS {
        let (read, write) = tokio::join!(store.ping(), locked(&store, nobody));
        assert_eq!([cause(read), cause(write)], [Some(ErrorKind::TimedOut); 2]);
    }
}

/// It is said at once: nobody waits for a limit, and nobody tries again meanwhile.
#[tokio::test]
async fn a_database_that_refuses_is_unavailable_at_once() {
    let (mut proxy, store, merchant) = store().await;
    proxy.refuse();
    let mut last = [None; 2];
    for _ in 0..CALLS {
        let (read, write) = tokio::join!(store.ping(), locked(&store, merchant));
        last = [cause(read), cause(write)];
        assert!(!last.contains(&Some(ErrorKind::TimedOut)), "nothing was waited for");
    }
    assert_eq!(last, [Some(ErrorKind::ConnectionRefused); 2]);
}

/// A process that starts waits for a server that starts as well, whoever has given up on it before.
#[tokio::test]
async fn a_server_that_answers_late_is_found_by_a_start() {
    let (proxy, store, _) = store().await;
    proxy.hang();
    let _on_idle_ones = tokio::join!(store.ping(), store.ping(), store.ping());
    store.ping().await.expect_err("no connection can be made");
    proxy.pass();
    store.ping().await.expect_err("the server counts as away");
    store.migrate().await.unwrap();
    store.ping().await.unwrap();
}
