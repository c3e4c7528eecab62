//! Merchants and their locks.

use settle_domain::ids::MerchantId;

use super::fixtures::{at, delivery, enqueue, fresh_uuid, listed, merchant, record, settlement, settlements};
use crate::{Merchant, Store};

/// Pages by id, each from the first one after the last of the page before.
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

/// Whoever locks learns which merchants there are.
pub async fn only_existing_merchants_can_be_locked(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let stranger = MerchantId(fresh_uuid());
    let mut tx = store.begin().await.unwrap();
    let mut locked = tx.merchant_lock(&[two, stranger, one]).await.unwrap();
    locked.sort();
    assert_eq!(locked, [one, two]);
    assert_eq!(tx.merchant_lock(&[]).await.unwrap(), []);
}

/// A transaction that is dropped has done nothing: no row, no count, no slice.
pub async fn what_is_not_committed_leaves_no_trace(store: &dyn Store) {
    let merchant = merchant(store).await;
    let kept = settlement(merchant, settle_domain::ids::SettlementId(fresh_uuid()), at(1));
    record(store, std::slice::from_ref(&kept)).await;
    let enqueued = delivery(merchant, at(1));
    enqueue(store, std::slice::from_ref(&enqueued)).await;

    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[merchant]).await.unwrap();
    let lost = settlement(merchant, settle_domain::ids::SettlementId(fresh_uuid()), at(2));
    tx.settlement_record_many(&[lost]).await.unwrap();
    tx.delivery_enqueue_many(&[delivery(merchant, at(2))]).await.unwrap();
    tx.endpoint_clear(merchant, at(3)).await.unwrap();
    drop(tx);

    let page = settlements(store, merchant, 10, 0).await;
    assert_eq!((page.rows, page.total), (vec![kept.record], 1));
    let page = super::fixtures::deliveries(store, merchant, None).await;
    assert_eq!((page.rows, page.total), (vec![listed(&enqueued)], 1));
}
