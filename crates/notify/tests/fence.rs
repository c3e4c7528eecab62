//! A dispatcher that has lost its shard records nothing, on either store.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the message")]

use std::sync::Arc;
use std::time::Duration;

use settle_domain::delivery::{DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::ids::SettlementId;
use settle_domain::seams::SeededEntropy;
use settle_notify::alerts::AlerterWake;
use settle_notify::dispatcher::queue::{DeliveryQueue, Outcome, StoreQueue};
use settle_shards::leases::{ShardLeases, StoreLeases};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Ask, DeliveryState, DueTime, Duty, NewDelivery, Seen, Shard};

const LEASE: Duration = Duration::from_secs(30);

/// A delivery is claimed, its shard changes hands, and only then does its attempt end.
async fn a_late_outcome_changes_nothing(store: ScratchStore) {
    let queue = StoreQueue::new(store.share(), Arc::new(SeededEntropy::new(1)), AlerterWake::default());
    let shards = StoreLeases(store.share(), Duty::Dispatch);
    let keeper = fixtures::unique_keeper_id();
    let _presence = shards.presence(keeper).await.unwrap().expect("nobody else is there");
    let merchant = fixtures::merchant(&*store).await;
    let id = SettlementId(fixtures::unique_uuid());
    fixtures::record(&*store, &[fixtures::settlement(merchant, id, fixtures::at(1))]).await;
    let new = NewDelivery { settlement_id: id, ..fixtures::delivery(merchant, fixtures::at(1)) };
    fixtures::enqueue(&*store, std::slice::from_ref(&new)).await;

    let lease_of = async || {
        let leases = shards.renew(keeper, LEASE).await.unwrap();
        leases.held.into_iter().find(|lease| lease.shard == Shard::of(merchant)).expect("it holds all shards")
    };
    let lost = lease_of().await;
    let asks = [Ask { merchant_id: merchant, number: 1 }];
    let claimed = queue.claim(&asks, &[], DueTime::by(fixtures::at(1))).await.unwrap().found.remove(0);
    shards.release(&[lost]).await.unwrap();
    let held = lease_of().await;
    assert_ne!(lost, held, "the shard has changed hands");

    let mut delivery = claimed.delivery.clone();
    let answered = DeliveryEvent::Answered { response_status: 200 };
    delivery.apply(answered, fixtures::at(2), &RetryPolicy::default()).unwrap();
    let state = DeliveryState { merchant_id: merchant, seen: Seen::from(&claimed.delivery), delivery };
    let outcome = |lease| Outcome { lease, state: state.clone(), alert: false };
    assert_eq!(queue.record(&[outcome(lost)], fixtures::at(2)).await.unwrap().changed, []);
    queue.record_in_turn(&[outcome(lost)], fixtures::at(2)).await.unwrap();
    let pending = fixtures::deliveries(&*store, merchant, Some(DeliveryStatus::Pending)).await;
    assert_eq!(pending.rows, [fixtures::listed(&new)]);
    assert_eq!(queue.record(&[outcome(held)], fixtures::at(2)).await.unwrap().changed, [new.delivery_id]);
}

#[tokio::test]
async fn sqlite() {
    a_late_outcome_changes_nothing(settle_store_sqlite::testing::scratch().await.migrated().await).await;
}

#[tokio::test]
async fn postgres() {
    a_late_outcome_changes_nothing(settle_store_postgres::testing::scratch().await.migrated().await).await;
}
