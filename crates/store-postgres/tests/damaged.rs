//! A row that this version could not have written is an error, never a guess.

use settle_domain::ids::{MerchantId, SettlementId};
use settle_store::conformance::fixtures::{
    at, delivery, enqueue, merchant, page, record, settlement, unique_uuid,
};
use settle_store::{Ask, DeliveryReads, DueTime, NewDelivery, QueueReads, Store, StoreError};
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

/// Neither the merchant's other deliveries nor those of others are held up.
#[tokio::test]
async fn a_delivery_that_cannot_be_read_does_not_keep_others_from_being_claimed() {
    let url = scratch_url().await;
    let store = PostgresStore::new(&url, 2).unwrap();
    store.migrate().await.unwrap();
    let damaged = notified(&store).await;
    let mut session = session(&url).await;
    session.execute("UPDATE deliveries SET event_type = 'settlement.failed'").await.unwrap();
    let whole = notified(&store).await;
    let asks = [damaged, whole].map(|merchant_id| Ask { merchant_id, number: 2 });
    let claims = store.queue_claim(&asks, &[], DueTime::by(at(1))).await.unwrap();
    assert_eq!(claims.found.iter().map(|claimed| claimed.merchant_id).collect::<Vec<_>>(), [whole]);
    assert_eq!(claims.unreadable.iter().map(|(merchant, _)| *merchant).collect::<Vec<_>>(), [damaged]);
}

/// A merchant with a notification that is due.
async fn notified(store: &PostgresStore) -> MerchantId {
    let merchant = merchant(store).await;
    let id = SettlementId(unique_uuid());
    record(store, &[settlement(merchant, id, at(1))]).await;
    enqueue(store, &[NewDelivery { settlement_id: id, ..delivery(merchant, at(1)) }]).await;
    merchant
}
