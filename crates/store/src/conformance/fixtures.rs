//! The shared building blocks of the suite.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::value::RawValue;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::endpoint::Endpoint;
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId, SettlementId};
use settle_domain::page::{Page, PageRequest};
use settle_domain::pricing::InternalPricing;
use settle_domain::quote::FixedSide;
use settle_domain::settlement::{CompletedSettlement, Origin, Record, RecordPage, Settlement};
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::SealedSecret;
use uuid::Uuid;

use crate::{
    ClearingStep, DeliveryState, ENDED_AT_ONCE_MAX, Merchant, MerchantLock, NewDelivery, NewSettlement,
    RecordedBatch, Store, Tx,
};

static COUNTER: AtomicU64 = AtomicU64::new(1);

/// A uuid that is unique in this process.
pub fn unique_uuid() -> Uuid {
    Uuid::from_u128(0x7000_8000_0000_0000_0000 + u128::from(COUNTER.fetch_add(1, Ordering::Relaxed)))
}

/// The id of a delivery enqueued at the given time, unique in this process.
#[must_use]
pub fn unique_delivery_id(created_at: Timestamp) -> DeliveryId {
    let first = DeliveryId::first_at(created_at).0.as_u128();
    DeliveryId(Uuid::from_u128(first + u128::from(COUNTER.fetch_add(1, Ordering::Relaxed))))
}

/// A keeper id that no other test has in any process: all keepers' signs of life are locks of one
/// server.
#[must_use]
pub fn unique_keeper_id() -> KeeperId {
    let process = u128::from(std::process::id()) << 8;
    KeeperId(Uuid::from_u128(unique_uuid().as_u128() + process))
}

/// So many seconds after the suite's start time.
#[must_use]
pub fn at(seconds: u64) -> Timestamp {
    Timestamp::from_micros(1_767_225_600_123_456).plus(Duration::from_secs(seconds))
}

/// A new merchant.
pub async fn merchant(store: &dyn Store) -> MerchantId {
    let merchant =
        Merchant { merchant_id: MerchantId(unique_uuid()), name: "Café".to_owned(), created_at: at(0) };
    let mut tx = store.begin().await.unwrap();
    tx.merchant_create(&merchant).await.unwrap();
    tx.commit().await.unwrap();
    merchant.merchant_id
}

/// A settlement completed at the given time.
#[must_use]
pub fn settlement(merchant: MerchantId, id: SettlementId, completed_at: Timestamp) -> NewSettlement {
    settlement_of(merchant, id, completed_at, "pix “1”\\")
}

/// A settlement of the given pay-in.
#[must_use]
pub fn settlement_of(
    merchant: MerchantId,
    id: SettlementId,
    completed_at: Timestamp,
    payin_reference: &str,
) -> NewSettlement {
    let settlement = Settlement {
        settlement_id: id,
        completed_at: Some(completed_at),
        occurred_at: completed_at,
        payin_reference: payin_reference.to_owned(),
        payout_reference: None,
        destination_reference: "wallet".to_owned(),
        incoming_currency: "BRL".to_owned(),
        incoming_amount: "1000.00".parse().unwrap(),
        outgoing_currency: "USDC".to_owned(),
        outgoing_amount: Some("181.149631".parse().unwrap()),
        conversion_rate: "5.43".parse().unwrap(),
        fixed_side: FixedSide::Incoming,
        fee_percentage: "1.5".parse().unwrap(),
        fee_percentage_amount: Some("2.762431".parse().unwrap()),
        fee_fixed: "0.250000".parse().unwrap(),
    };
    CompletedSettlement { merchant_id: merchant, settlement, pricing: None, origin: Origin::Hand }.into()
}

/// Internal pricing with the given spread revenue.
#[must_use]
pub fn pricing(spread_revenue: &str) -> InternalPricing {
    InternalPricing {
        provider_rate: "5.3".parse().unwrap(),
        spread_revenue: spread_revenue.parse().unwrap(),
        partner_commission: "0".parse().unwrap(),
    }
}

/// Records settlements, and commits.
pub async fn record(store: &dyn Store, settlements: &[NewSettlement]) -> RecordedBatch {
    let merchants: Vec<MerchantId> = settlements.iter().map(|settlement| settlement.merchant_id).collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    let batch = tx.settlement_record_many(&lock, settlements).await.unwrap();
    tx.commit().await.unwrap();
    batch
}

/// A delivery enqueued at the given time.
#[must_use]
pub fn delivery(merchant: MerchantId, created_at: Timestamp) -> NewDelivery {
    NewDelivery {
        merchant_id: merchant,
        delivery_id: unique_delivery_id(created_at),
        settlement_id: SettlementId(unique_uuid()),
        event_type: EventType::SettlementCompleted,
        url: "https://merchant.example/hook?a=“b”".to_owned(),
        created_at,
    }
}

/// A delivery just enqueued, as the log shows it.
#[must_use]
pub fn listed(new: &NewDelivery) -> Delivery {
    Delivery {
        delivery_id: new.delivery_id,
        settlement_id: new.settlement_id,
        event_type: EventType::SettlementCompleted,
        status: DeliveryStatus::Pending,
        attempts: 0,
        created_at: new.created_at,
        delivered_at: None,
        next_attempt_at: new.created_at,
        response_status: None,
        last_error: None,
        url: new.url.clone(),
    }
}

/// Enqueues deliveries of one merchant, and commits.
pub async fn enqueue(store: &dyn Store, deliveries: &[NewDelivery]) {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[deliveries[0].merchant_id]).await.unwrap();
    tx.delivery_enqueue_many(&lock, deliveries).await.unwrap();
    tx.commit().await.unwrap();
}

/// Records outcomes of one merchant's deliveries, seen as they are now, and commits. Gives how many changed.
pub async fn record_states(store: &dyn Store, merchant: MerchantId, after: &[Delivery]) -> usize {
    record_states_at(store, merchant, after, Timestamp::MAX).await
}

/// Like [`record_states`], at the given time.
pub async fn record_states_at(
    store: &dyn Store,
    merchant: MerchantId,
    after: &[Delivery],
    at: Timestamp,
) -> usize {
    let before = deliveries(store, merchant, None).await.rows;
    let states: Vec<DeliveryState> = after
        .iter()
        .map(|delivery| {
            let seen = before.iter().find(|row| row.delivery_id == delivery.delivery_id).unwrap_or(delivery);
            DeliveryState { merchant_id: merchant, seen: seen.into(), delivery: delivery.clone() }
        })
        .collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let recorded = tx.delivery_record_many(&lock, &states, at).await.unwrap();
    tx.commit().await.unwrap();
    recorded.len()
}

/// Asks for a redelivery, and commits.
pub async fn requeue(
    store: &dyn Store,
    merchant: MerchantId,
    id: DeliveryId,
    now: Timestamp,
) -> Option<Delivery> {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let requeued = tx.delivery_requeue(&lock, merchant, id, now).await.unwrap();
    tx.commit().await.unwrap();
    requeued
}

/// A transaction that has locked the merchants of these deliveries.
async fn begin_with(
    store: &dyn Store,
    deliveries: &[(MerchantId, DeliveryId)],
) -> (Box<dyn Tx>, MerchantLock) {
    let merchants: Vec<MerchantId> = deliveries.iter().map(|(merchant, _)| *merchant).collect();
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&merchants).await.unwrap();
    (tx, lock)
}

/// Asks for many redeliveries, and commits.
pub async fn requeue_many(
    store: &dyn Store,
    asked: &[(MerchantId, DeliveryId)],
    now: Timestamp,
) -> Vec<(MerchantId, Delivery)> {
    let (mut tx, lock) = begin_with(store, asked).await;
    let requeued = tx.delivery_requeue_many(&lock, asked, now).await.unwrap();
    tx.commit().await.unwrap();
    requeued
}

/// Asks for haste with many deliveries, and commits.
pub async fn hasten_many(
    store: &dyn Store,
    asked: &[(MerchantId, DeliveryId)],
    now: Timestamp,
) -> Vec<(MerchantId, Delivery)> {
    let (mut tx, lock) = begin_with(store, asked).await;
    let hastened = tx.delivery_hasten_many(&lock, asked, now).await.unwrap();
    tx.commit().await.unwrap();
    hastened
}

/// An endpoint with the given secret.
#[must_use]
pub fn endpoint(secret: &[u8]) -> Endpoint {
    Endpoint { url: "https://merchant.example/é".to_owned(), secret: SealedSecret(secret.to_vec()) }
}

/// Stores an endpoint, and commits.
pub async fn put_endpoint(store: &dyn Store, merchant: MerchantId, endpoint: &Endpoint) {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    tx.endpoint_put(&lock, merchant, endpoint).await.unwrap();
    tx.commit().await.unwrap();
}

/// Clears an endpoint for which few deliveries wait, and commits. Gives how many it ended.
pub async fn clear_endpoint(store: &dyn Store, merchant: MerchantId, at: Timestamp) -> u64 {
    let ClearingStep { ended, left } = clear_endpoint_but(store, merchant, at, ENDED_AT_ONCE_MAX).await;
    assert_eq!(left, 0, "few were waiting");
    ended
}

/// Clears an endpoint, ends at most so many of its deliveries, and commits.
pub async fn clear_endpoint_but(
    store: &dyn Store,
    merchant: MerchantId,
    at: Timestamp,
    ended_max: u32,
) -> ClearingStep {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let step = tx.endpoint_clear(&lock, merchant, at, ended_max).await.unwrap();
    tx.commit().await.unwrap();
    step
}

/// Takes a step of a clearing, and commits.
pub async fn clearing_step(store: &dyn Store, merchant: MerchantId, ended_max: u32) -> ClearingStep {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    let step = tx.clearing_step(&lock, merchant, ended_max).await.unwrap();
    tx.commit().await.unwrap();
    step
}

/// Computes anew when a merchant is due, and commits.
pub async fn refresh(store: &dyn Store, merchant: MerchantId, at: Timestamp) {
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    tx.queue_refresh(&lock, &[merchant], at).await.unwrap();
    tx.commit().await.unwrap();
}

/// A page request that is inside the bounds.
#[must_use]
pub fn page(limit: u32, offset: u32) -> PageRequest {
    PageRequest::new(limit, offset).unwrap()
}

/// A page of settlements.
pub async fn settlements(store: &dyn Store, merchant: MerchantId, limit: u32, offset: u32) -> Page<Record> {
    let RecordPage { records, total } = store.settlement_page(merchant, page(limit, offset)).await.unwrap();
    let rows: Vec<Box<RawValue>> = serde_json::from_str(&format!("[{records}]")).unwrap();
    let rows = rows.iter().map(|row| Record::from_stored(row.get().to_owned())).collect();
    Page { rows, total }
}

/// A page of deliveries of one status or of all.
pub async fn deliveries(
    store: &dyn Store,
    merchant: MerchantId,
    status: Option<DeliveryStatus>,
) -> Page<Delivery> {
    store.delivery_page(merchant, status, page(200, 0)).await.unwrap()
}
