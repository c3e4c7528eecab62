//! A row that this version could not have written is an error, never a guess.

use settle_store::conformance::fixtures::{at, delivery, enqueue, merchant, page};
use settle_store::{DeliveryReads, Store, StoreError};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::{scratch_url, session};
use sqlx::Executor;

#[tokio::test]
async fn an_event_type_of_another_version_is_unexpected() {
    let url = scratch_url().await;
    let store = PostgresStore::new(&url, 2).unwrap();
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    enqueue(&store, &[delivery(merchant, at(1))]).await;
    let mut session = session(&url).await;
    session.execute("UPDATE deliveries SET event_type = 'settlement.failed'").await.unwrap();
    let read = store.delivery_page(merchant, None, page(1, 0)).await;
    assert!(matches!(read, Err(StoreError::Unexpected(_))), "{read:?}");
}
