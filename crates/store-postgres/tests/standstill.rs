//! A process that stands still in the middle of a transaction does not keep others waiting for long.

use settle_store::StoreError;
use settle_store::conformance::fixtures::merchant;
use settle_store_postgres::testing::scratch;

#[tokio::test]
async fn a_transaction_that_stands_still_loses_its_locks() {
    let store = scratch().await.migrated().await;
    let merchant = merchant(&*store).await;
    let mut still = store.begin().await.unwrap();
    still.merchant_lock(&[merchant]).await.unwrap();
    let mut other = store.begin_patiently().await.unwrap();
    other.merchant_lock(&[merchant]).await.expect("it is to be had before the wait for it ends");
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
}
