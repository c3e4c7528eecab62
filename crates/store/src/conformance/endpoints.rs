//! Webhook endpoints.

use settle_domain::delivery::{DeliveryStatus, ENDPOINT_CLEARED};
use settle_domain::endpoint::Endpoint;

use super::fixtures::{
    at, clear_endpoint, deliveries, delivery, endpoint, enqueue, listed, merchant, put_endpoint,
    record_states,
};
use crate::Store;

/// A merchant has one endpoint; a new one replaces it.
pub async fn put_find_replace(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    assert_eq!(store.endpoint_find(merchant).await.unwrap(), None);
    put_endpoint(store, merchant, &endpoint(&[0, 255, 7])).await;
    assert_eq!(store.endpoint_find(merchant).await.unwrap(), Some(endpoint(&[0, 255, 7])));
    let replaced = Endpoint { url: "https://other.example/".to_owned(), ..endpoint(&[1]) };
    put_endpoint(store, merchant, &replaced).await;
    assert_eq!(store.endpoint_find(merchant).await.unwrap(), Some(replaced));
    assert_eq!(store.endpoint_find(other).await.unwrap(), None);
}

/// Pending deliveries become dead at once and say why; delivered and dead ones stay as they were.
pub async fn clear_ends_what_is_pending(store: &dyn Store) {
    let merchant = merchant(store).await;
    put_endpoint(store, merchant, &endpoint(b"s")).await;
    let [waiting, done, retry] = [1, 2, 0].map(|second| delivery(merchant, at(second)));
    enqueue(store, &[waiting.clone(), done.clone(), retry.clone()]).await;
    let mut delivered = listed(&done);
    delivered.status = DeliveryStatus::Delivered;
    delivered.attempts = 1;
    delivered.delivered_at = Some(at(3));
    record_states(store, merchant, std::slice::from_ref(&delivered)).await;

    let mut retried = listed(&retry);
    retried.attempts = 1;
    retried.next_attempt_at = at(60);
    record_states(store, merchant, std::slice::from_ref(&retried)).await;

    assert_eq!(clear_endpoint(store, merchant, at(50)).await, 2);
    assert_eq!(store.endpoint_find(merchant).await.unwrap(), None);
    let mut ended = listed(&waiting);
    ended.status = DeliveryStatus::Dead;
    ended.last_error = Some(ENDPOINT_CLEARED.to_owned());
    retried.status = DeliveryStatus::Dead;
    retried.last_error = Some(ENDPOINT_CLEARED.to_owned());
    retried.next_attempt_at = at(50);
    assert_eq!(deliveries(store, merchant, None).await.rows, [delivered, ended, retried]);
    for (status, total) in
        [(DeliveryStatus::Pending, 0), (DeliveryStatus::Delivered, 1), (DeliveryStatus::Dead, 2)]
    {
        assert_eq!(deliveries(store, merchant, Some(status)).await.total, total, "{status}");
    }
    assert_eq!(clear_endpoint(store, merchant, at(50)).await, 0, "clearing nothing is fine");
}

/// Other merchants keep their endpoints and their deliveries.
pub async fn clear_touches_no_other_merchant(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    for owner in [merchant, other] {
        put_endpoint(store, owner, &endpoint(b"s")).await;
        enqueue(store, &[delivery(owner, at(1))]).await;
    }
    clear_endpoint(store, merchant, at(50)).await;
    assert!(store.endpoint_find(other).await.unwrap().is_some());
    assert_eq!(deliveries(store, other, Some(DeliveryStatus::Pending)).await.total, 1);
}

/// A transaction reads its own writes.
pub async fn found_in_the_transaction_that_put_it(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant, other]).await.unwrap();
    assert_eq!(tx.endpoint_find_locked(&lock, &[merchant, other]).await.unwrap(), []);
    tx.endpoint_put(&lock, merchant, &endpoint(b"s")).await.unwrap();
    assert_eq!(
        tx.endpoint_find_locked(&lock, &[merchant, other]).await.unwrap(),
        [(merchant, endpoint(b"s"))]
    );
}
