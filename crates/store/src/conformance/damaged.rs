//! A row that this version could not have written is an error, never a guess.

use std::collections::BTreeSet;

use settle_domain::actor::Actor;
use settle_domain::ids::{DeliveryId, MerchantId, PaymentId, SettlementId};

use super::ScratchStore;
use super::fixtures::{at, delivery, enqueue, merchant, page, record, settlement, unique_uuid};
use super::payments::{create, payment};
use crate::{Ask, DueTime, NewDelivery, PausedProvider, PaymentAsk, ProviderPause, Store, StoreError};

/// Makes every delivery one of another version.
const DAMAGE_DELIVERIES: &str = "UPDATE deliveries SET event_type = 'settlement.failed'";
/// Makes every payment one of another version.
const DAMAGE_PAYMENTS: &str = "UPDATE payments SET state = 'weighed'";
/// Makes two of three pauses those of another version: one by its provider's name, one by who made it.
const DAMAGE_PAUSES: &str = "
    UPDATE provider_pauses SET provider = 'Bank A' WHERE provider = 'bank-a';
    UPDATE provider_pauses SET paused_by = 'robot:7' WHERE provider = 'bank-b'";

/// What the delivery tells of is not made up.
pub async fn an_event_type_of_another_version_is_unexpected(scratch: &ScratchStore) {
    let store = scratch.alone();
    let merchant = merchant(store).await;
    enqueue(store, &[delivery(merchant, at(1))]).await;
    scratch.execute(DAMAGE_DELIVERIES).await;
    let read = store.delivery_page(merchant, None, page(1, 0)).await;
    assert!(matches!(read, Err(StoreError::Unexpected(_))), "{read:?}");
}

/// Neither the merchant's other deliveries nor those of others are held up: not even when as many cannot be
/// read as are asked for, and stand before the others.
pub async fn a_delivery_that_cannot_be_read_does_not_keep_others_from_being_claimed(scratch: &ScratchStore) {
    let store = scratch.alone();
    let (one, two) = (merchant(store).await, merchant(store).await);
    let damaged = BTreeSet::from([notify(store, one, 1).await, notify(store, one, 1).await]);
    scratch.execute(DAMAGE_DELIVERIES).await;
    let whole = BTreeSet::from([notify(store, one, 2).await, notify(store, two, 1).await]);
    let asks = [one, two].map(|merchant_id| Ask { merchant_id, number: 2 });
    let claims = store.queue_claim(&asks, &[], DueTime::by(at(2))).await.unwrap();
    let unreadable: BTreeSet<DeliveryId> =
        claims.unreadable.iter().map(|(_, delivery, _)| *delivery).collect();
    assert_eq!(unreadable, damaged);
    assert!(claims.unreadable.iter().all(|(merchant, ..)| *merchant == one));
    assert_eq!(claims.found.iter().map(|claimed| claimed.merchant_id).collect::<Vec<_>>(), [two]);
    let taken: Vec<DeliveryId> = unreadable.into_iter().collect();
    let left_out = store.queue_claim(&asks, &taken, DueTime::by(at(2))).await.unwrap();
    let found: BTreeSet<DeliveryId> =
        left_out.found.iter().map(|claimed| claimed.delivery.delivery_id).collect();
    assert!(left_out.unreadable.is_empty() && found == whole, "{left_out:?}");
}

/// Neither the merchant's other payments nor those of others are held up.
pub async fn a_payment_that_cannot_be_read_does_not_keep_others_from_being_claimed(scratch: &ScratchStore) {
    let store = scratch.alone();
    let (one, two) = (merchant(store).await, merchant(store).await);
    let damaged = payment(one, "pix 1", at(1));
    create(store, std::slice::from_ref(&damaged)).await;
    scratch.execute(DAMAGE_PAYMENTS).await;
    let whole = [payment(one, "pix 2", at(1)), payment(two, "pix 3", at(1))];
    create(store, &whole).await;
    let asks = [one, two].map(|merchant_id| PaymentAsk::new(merchant_id, 2));
    let claims = store.payment_claim(&asks, &[], DueTime::by(at(1))).await.unwrap();
    let found: BTreeSet<PaymentId> = claims.found.iter().map(|row| row.payment_id).collect();
    assert_eq!(found, whole.iter().map(|row| row.payment_id).collect());
    let unreadable: Vec<(MerchantId, PaymentId)> =
        claims.unreadable.iter().map(|(merchant, payment, _)| (*merchant, *payment)).collect();
    assert_eq!(unreadable, [(one, damaged.payment_id)]);
    let left_out = store.payment_claim(&asks, &unreadable, DueTime::by(at(1))).await.unwrap();
    assert!(left_out.unreadable.is_empty() && left_out.found.len() == 2);
}

/// Neither are the pauses of others lost, nor does the provider go on: nobody has said that it may.
pub async fn a_pause_that_cannot_be_read_holds_and_so_do_others(scratch: &ScratchStore) {
    let store = scratch.alone();
    let mut tx = store.begin().await.unwrap();
    for name in ["bank-a", "bank-b", "bank-c"] {
        let provider = name.parse().unwrap();
        tx.provider_pause(&ProviderPause { provider, paused_by: Actor::Command, paused_at: at(1) })
            .await
            .unwrap();
    }
    tx.commit().await.unwrap();
    scratch.execute(DAMAGE_PAUSES).await;
    let paused = |name: &str, paused_by| PausedProvider {
        provider: name.parse().unwrap(),
        paused_by,
        paused_at: Some(at(1)),
    };
    let expected = [paused("bank-b", None), paused("bank-c", Some(Actor::Command))];
    assert_eq!(store.provider_pauses().await.unwrap(), expected);
}

/// A notification of a merchant, due at this second.
async fn notify(store: &dyn Store, merchant: MerchantId, second: u64) -> DeliveryId {
    let id = SettlementId(unique_uuid());
    record(store, &[settlement(merchant, id, at(second))]).await;
    let new = NewDelivery { settlement_id: id, ..delivery(merchant, at(second)) };
    enqueue(store, std::slice::from_ref(&new)).await;
    new.delivery_id
}
