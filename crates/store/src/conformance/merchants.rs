//! Merchants and their locks.

use std::time::Duration;

use settle_domain::ids::{ImportId, MerchantId, SettlementId};
use settle_domain::seams::SeededEntropy;

use super::alerts::death;
use super::fixtures::{
    at, delivery, endpoint, enqueue, listed, merchant, record, settlement, settlements, unique_uuid,
};
use crate::{DeliveryState, Merchant, MerchantLock, Store, StoreError, Tx};

/// Each page starts after the last merchant of the page before.
pub async fn merchants_are_listed_in_pages_by_id(store: &dyn Store) {
    let mut created = Vec::new();
    for _ in 0..5 {
        created.push(merchant(store).await);
    }
    created.sort();
    let mut seen: Vec<Merchant> = Vec::new();
    loop {
        let page = store.merchant_list(seen.last().map(|last| last.merchant_id), 2).await.unwrap();
        assert!(page.len() <= 2);
        if page.is_empty() {
            break;
        }
        seen.extend(page);
    }
    assert_eq!(seen.iter().map(|merchant| merchant.merchant_id).collect::<Vec<_>>(), created);
    assert_eq!((seen[0].name.as_str(), seen[0].created_at), ("Café", at(0)));
}

/// By its id alone.
pub async fn a_merchant_is_found_by_its_id(store: &dyn Store) {
    let (one, _) = (merchant(store).await, merchant(store).await);
    let found = store.merchant_find(one).await.unwrap();
    assert_eq!(found, Some(Merchant { merchant_id: one, name: "Café".to_owned(), created_at: at(0) }));
    assert_eq!(store.merchant_find(MerchantId(unique_uuid())).await.unwrap(), None);
}

/// A transaction that does not wait for the disk commits and rolls back as any other.
pub async fn a_relaxed_transaction_is_one(store: &dyn Store) {
    let relaxed = merchant(store).await;
    let mut tx = store.begin_relaxed().await.unwrap();
    let lock = tx.merchant_lock(&[relaxed]).await.unwrap();
    tx.endpoint_put(&lock, relaxed, &endpoint(b"kept")).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.begin_relaxed().await.unwrap();
    let lock = tx.merchant_lock(&[relaxed]).await.unwrap();
    tx.endpoint_put(&lock, relaxed, &endpoint(b"dropped")).await.unwrap();
    drop(tx);
    assert_eq!(store.endpoint_find(relaxed).await.unwrap(), Some(endpoint(b"kept")));
}

/// The lock says which of the given merchants exist.
pub async fn only_existing_merchants_can_be_locked(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let stranger = MerchantId(unique_uuid());
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[two, stranger, one]).await.unwrap();
    assert_eq!(lock.merchants(), [one, two]);
    assert_eq!(tx.merchant_lock(&[]).await.unwrap().merchants(), []);
}

/// They refuse it even when it covers the same merchant.
pub async fn every_write_refuses_the_lock_of_another_transaction(store: &dyn Store) {
    let merchant = merchant(store).await;
    let mut tx = store.begin().await.unwrap();
    let ended = tx.merchant_lock(&[merchant]).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[merchant]).await.unwrap();
    assert_every_write_is_refused(&mut *tx, &ended, [merchant, merchant]).await;
}

/// They refuse it even when another lock of the same transaction covers the merchant.
pub async fn every_write_refuses_a_merchant_that_its_lock_leaves_out(store: &dyn Store) {
    let (locked, left_out) = (merchant(store).await, merchant(store).await);
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[locked]).await.unwrap();
    assert_every_write_is_refused(&mut *tx, &lock, [locked, left_out]).await;
    let lock = tx.merchant_lock_soon(&[locked]).await.unwrap().expect("nobody else has it");
    assert_every_write_is_refused(&mut *tx, &lock, [locked, left_out]).await;
    let lock = tx.merchant_lock_free(&[locked]).await.unwrap();
    tx.merchant_lock_free(&[left_out]).await.unwrap();
    assert_every_write_is_refused(&mut *tx, &lock, [locked, left_out]).await;
}

/// Calls every write: for both merchants where it takes many, else for the second. The refusal must name the
/// second.
async fn assert_every_write_is_refused(tx: &mut dyn Tx, lock: &MerchantLock, merchants: [MerchantId; 2]) {
    let [_, named] = merchants;
    let settlements = merchants.map(|owner| settlement(owner, SettlementId(unique_uuid()), at(1)));
    let new = merchants.map(|owner| delivery(owner, at(1)));
    let states = new.each_ref().map(|new| {
        let delivery = listed(new);
        DeliveryState { merchant_id: new.merchant_id, seen: (&delivery).into(), delivery }
    });
    let ids = new.each_ref().map(|new| (new.merchant_id, new.delivery_id));
    let deaths = merchants.map(|owner| death(owner, "https://merchant.example/", "timeout"));
    let (quiet, entropy) = (Duration::ZERO, SeededEntropy::new(1));
    let refused = [
        tx.settlement_record_many(lock, &settlements).await.err(),
        tx.import_stage(lock, ImportId::NIL, &settlements, at(1)).await.err(),
        tx.import_take(lock, ImportId::NIL, settlements.to_vec()).await.err(),
        tx.delivery_enqueue_many(lock, &new).await.err(),
        tx.delivery_record_many(lock, &states, at(1)).await.err(),
        tx.delivery_requeue_many(lock, &ids, at(1)).await.err(),
        tx.delivery_hasten_many(lock, &ids, at(1)).await.err(),
        tx.delivery_requeue(lock, named, ids[1].1, at(1)).await.err(),
        tx.endpoint_find_locked(lock, &merchants).await.err(),
        tx.endpoint_put(lock, named, &endpoint(b"s")).await.err(),
        tx.endpoint_clear(lock, named, at(1), 1).await.err(),
        tx.clearing_step(lock, named, 1).await.err(),
        tx.alert_raise_many(lock, &deaths, at(1), quiet, &entropy).await.err(),
        tx.queue_refresh(lock, &merchants, at(1)).await.err(),
    ];
    for (position, fault) in refused.into_iter().enumerate() {
        let Some(StoreError::Unexpected(cause)) = fault else {
            panic!("write {position} is not refused: {fault:?}");
        };
        assert!(cause.to_string().contains(&named.to_string()), "write {position}: {cause}");
    }
}

/// A dropped transaction changes no row, no count and no slice.
pub async fn what_is_not_committed_leaves_no_trace(store: &dyn Store) {
    let merchant = merchant(store).await;
    let kept = settlement(merchant, SettlementId(unique_uuid()), at(1));
    record(store, std::slice::from_ref(&kept)).await;
    let enqueued = delivery(merchant, at(1));
    enqueue(store, std::slice::from_ref(&enqueued)).await;

    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let lost = settlement(merchant, SettlementId(unique_uuid()), at(2));
    tx.settlement_record_many(&lock, &[lost]).await.unwrap();
    tx.delivery_enqueue_many(&lock, &[delivery(merchant, at(2))]).await.unwrap();
    tx.endpoint_clear(&lock, merchant, at(3), 1).await.unwrap();
    drop(tx);

    let page = settlements(store, merchant, 10, 0).await;
    assert_eq!((page.rows, page.total), (vec![kept.record], 1));
    let page = super::fixtures::deliveries(store, merchant, None).await;
    assert_eq!((page.rows, page.total), (vec![listed(&enqueued)], 1));
}
