//! A process that stands still in the middle of a transaction does not keep others waiting for long.

use settle_store::conformance::fixtures::merchant;
use settle_store::{Store, StoreError};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::{scratch, scratch_url};
use settle_testing::log::Log;

#[tokio::test]
async fn a_transaction_that_stands_still_loses_its_locks() {
    let url = scratch_url().await;
    let (store, patient) = (PostgresStore::new(&url, 1).unwrap(), PostgresStore::patient(&url, 1).unwrap());
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    let mut still = store.begin().await.unwrap();
    still.merchant_lock(&[merchant]).await.unwrap();
    let log = Log::of(tracing::Level::WARN, "");
    let mut other = patient.begin().await.unwrap();
    other.merchant_lock(&[merchant]).await.expect("it is to be had before the wait for it ends");
    assert_eq!(log.taken(), [""; 0], "the person who waits sees it");
    drop(log);
    let late = still.merchant_lock(&[merchant]).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
}

#[tokio::test]
async fn a_merchant_that_is_locked_can_be_passed_over() {
    let store = scratch().await.migrated().await;
    let (held, free) = (merchant(&*store).await, merchant(&*store).await);
    let mut holder = store.begin().await.unwrap();
    holder.merchant_lock(&[held]).await.unwrap();
    let mut other = store.begin().await.unwrap();
    assert_eq!(other.merchant_lock_free(&[held, free]).await.unwrap().merchants(), [free]);
    drop(other);
    let mut other = store.begin().await.unwrap();
    assert!(other.merchant_lock_soon(&[held, free]).await.unwrap().is_none(), "a moment is not enough");
    drop(other);
    let mut other = store.begin().await.unwrap();
    // With a statement before it as well.
    other.merchant_lock(&[]).await.unwrap();
    assert!(other.merchant_lock_soon(&[held]).await.unwrap().is_none());
    drop(other);
    // A transaction that is dropped ends later, by itself.
    holder.commit().await.unwrap();
    let mut other = store.begin().await.unwrap();
    assert_eq!(other.merchant_lock_soon(&[held]).await.unwrap().expect("it is free").merchants(), [held]);
}
