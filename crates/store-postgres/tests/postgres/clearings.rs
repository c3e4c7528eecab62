//! What several statements that end the deliveries of one clearing owe each other.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use settle_domain::ids::{DeliveryId, MerchantId};
use settle_store::conformance::fixtures::{
    at, clear_endpoint_but, delivery, endpoint, enqueue, merchant, put_endpoint,
};
use settle_store::{ClearingStep, NewDelivery, Store};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::{scratch_url, session, store_at};
use uuid::Uuid;

/// A merchant for whom a hundred deliveries wait, first due first.
async fn notified(url: &str) -> (PostgresStore, MerchantId, Vec<NewDelivery>) {
    let store = store_at(url, 4);
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    put_endpoint(&store, merchant, &endpoint(b"s")).await;
    let mut waiting: Vec<NewDelivery> = (0..100).map(|number| delivery(merchant, at(number / 30))).collect();
    enqueue(&store, &waiting).await;
    waiting.sort_by_key(|new| (new.created_at, new.delivery_id));
    (store, merchant, waiting)
}

/// The next step begins behind it.
#[tokio::test]
async fn a_clearing_remembers_the_last_one_that_ended() {
    let url = scratch_url().await;
    let (store, merchant, waiting) = notified(&url).await;
    let step = clear_endpoint_but(&store, merchant, at(9), 95).await;
    assert_eq!(step, ClearingStep { ended: 95, left: 5 });
    let after: Uuid = sqlx::query_scalar("SELECT after_delivery_id FROM clearings")
        .fetch_one(&mut session(&url).await)
        .await
        .unwrap();
    assert_eq!(DeliveryId(after), waiting[94].delivery_id);
}

/// They would wait for ever, also where all that are counted ended with a whole statement, or are as many as
/// may end.
#[tokio::test]
async fn more_that_wait_than_are_counted_are_a_fault() {
    for (counted, ended_max) in [(60, 500), (80, 500), (80, 80)] {
        let url = scratch_url().await;
        let (store, merchant, _) = notified(&url).await;
        sqlx::query("UPDATE merchant_counts SET deliveries_pending = $1")
            .bind(i64::from(counted))
            .execute(&mut session(&url).await)
            .await
            .unwrap();
        let mut tx = store.begin().await.unwrap();
        let lock = tx.merchant_lock(&[merchant]).await.unwrap();
        let fault = tx.endpoint_clear(&lock, merchant, at(9), ended_max).await.unwrap_err();
        let words = format!("{fault:?}");
        assert!(words.contains("more deliveries waited than are counted"), "{counted}: {words}");
    }
}
