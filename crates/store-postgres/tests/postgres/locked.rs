//! A merchant whose lock is held for long: who wants it is told so, and nobody else notices.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::error::Error;

use futures::future::{join, join_all};
use settle_domain::ids::MerchantId;
use settle_domain::page::PageRequest;
use settle_store::conformance::fixtures::merchant;
use settle_store::{DeliveryReads, SettlementReads, Store, StoreError, StoreResult, Tx};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::{scratch_url, session};
use sqlx::{Executor, PgConnection};

/// Six are for transactions, of which three may wait for locks, and two for reads.
const CONNECTIONS_MAX: u32 = 8;
/// More than the connections could take in turn within the time that a caller waits for one.
const CALLERS: usize = 30;

async fn locked(store: &PostgresStore, merchants: &[MerchantId]) -> StoreResult<Box<dyn Tx>> {
    let mut tx = store.begin().await?;
    tx.merchant_lock(merchants).await?;
    Ok(tx)
}

/// A session that is not the store's holds every merchant there is.
async fn hold_all(url: &str) -> PgConnection {
    let mut holder = session(url).await;
    let sql = "SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT FROM merchant_counts FOR UPDATE";
    holder.execute(sql).await.unwrap();
    holder
}

#[tokio::test]
async fn callers_of_a_locked_merchant_hold_up_nobody_else() {
    let url = scratch_url().await;
    let store = PostgresStore::new(&url, CONNECTIONS_MAX).unwrap();
    store.migrate().await.unwrap();
    let held = merchant(&store).await;
    let _holder = hold_all(&url).await;
    let free = merchant(&store).await;
    let callers = join_all((0..CALLERS).map(|_| async { locked(&store, &[held]).await.map(drop) }));
    // It polls from left to right: the callers have all asked before the others do.
    let (callers, other, read) =
        tokio::join!(biased; callers, async { locked(&store, &[free]).await.map(drop) }, store.ping());
    other.expect("the lock of another merchant is free");
    read.expect("a read waits for no lock");
    let mut causes = Vec::new();
    for caller in callers {
        let fault = caller.expect_err("the merchant is held until the end");
        assert!(matches!(fault, StoreError::Unavailable(_)), "{fault:?}");
        causes.push(fault.source().map(ToString::to_string).unwrap_or_default());
    }
    // The one that asked the database was told by the limit on locks, before its statement took too long.
    assert!(causes.iter().any(|cause| cause.contains("lock timeout")), "{causes:?}");
}

/// A session that is not the store's holds what lists are read from.
async fn hold_lists(url: &str) -> PgConnection {
    let mut holder = session(url).await;
    let sql = "SET idle_in_transaction_session_timeout = 0;
               BEGIN; LOCK TABLE settlements, settlement_slices, deliveries";
    holder.execute(sql).await.unwrap();
    holder
}

/// Asks for more lists of a merchant than there are connections.
async fn ask_for_lists(store: &PostgresStore, merchant: MerchantId) {
    let [first, deep] = [0, 10_000].map(|offset| PageRequest::new(1, offset).unwrap());
    let settlements = |page| join_all((0..CALLERS).map(move |_| store.settlement_page(merchant, page)));
    let settlements = join(settlements(first), settlements(deep));
    let deliveries = join_all((0..CALLERS).map(|_| store.delivery_page(merchant, None, first)));
    tokio::join!(settlements, deliveries);
}

/// How many connections the lists have that were asked for before.
async fn used(store: &PostgresStore) -> usize {
    // There is a connection for another.
    store.ping().await.unwrap();
    store.connections().unwrap().used
}

/// A merchant that asks for more than the database gives waits for itself.
#[tokio::test]
async fn lists_of_one_merchant_leave_connections_to_others() {
    let url = scratch_url().await;
    let store = PostgresStore::new(&url, CONNECTIONS_MAX).unwrap();
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    let mut holder = hold_lists(&url).await;
    let held_up = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IN
                   ('settlements'::regclass, 'settlement_slices'::regclass, 'deliveries'::regclass)";
    let given_up = async {
        let mut waiting = 0;
        while waiting < 2 {
            waiting = sqlx::query_scalar::<_, i64>(held_up).fetch_one(&mut holder).await.unwrap();
        }
    };
    tokio::select! {
        biased;
        () = ask_for_lists(&store, merchant) => panic!("somebody holds them"),
        () = given_up => {}
    }
    // What was given up still goes on in the database, and counts.
    let ((), used) = tokio::join!(biased; ask_for_lists(&store, merchant), used(&store));
    assert_eq!(used, 2, "a quarter of them");
}

#[tokio::test]
async fn transactions_leave_connections_to_reads() {
    let store = PostgresStore::new(&scratch_url().await, CONNECTIONS_MAX).unwrap();
    store.migrate().await.unwrap();
    let open = join_all((0..CONNECTIONS_MAX).map(|_| locked(&store, &[]))).await;
    store.ping().await.expect("there is a connection for reads");
    assert!(open.iter().any(Result::is_ok));
}
