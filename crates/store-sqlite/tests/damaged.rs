//! A row that this version could not have written is an error, never a guess.

use rusqlite::Connection;
use settle_store::conformance::fixtures::{at, delivery, enqueue, merchant, page};
use settle_store::{DeliveryReads, Store, StoreError};
use settle_store_sqlite::SqliteStore;
use settle_store_sqlite::testing::scratch_url;

#[tokio::test]
async fn an_event_type_of_another_version_is_unexpected() {
    let (url, _folder) = scratch_url();
    let store = SqliteStore::new(&url).unwrap();
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    enqueue(&store, &[delivery(merchant, at(1))]).await;
    let file = Connection::open(store.path()).unwrap();
    file.execute("UPDATE deliveries SET event_type = 'settlement.failed'", []).unwrap();
    let read = store.delivery_page(merchant, None, page(1, 0)).await;
    assert!(matches!(read, Err(StoreError::Unexpected(_))), "{read:?}");
}
