//! A dispatcher that has lost its shard records nothing, and alerts of nothing, on either store.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the message")]

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use settle_domain::delivery::{DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId, SettlementId};
use settle_domain::seams::SeededEntropy;
use settle_notify::alerts::AlerterWake;
use settle_notify::dispatcher::queue::{DeliveryQueue, Outcome, RecordedOutcomes, StoreQueue};
use settle_shards::leases::{ShardLeases, StoreLeases};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{
    Ask, Claimed, DeliveryState, DueTime, Duty, NewDelivery, Presence, Seen, Shard, ShardLease, StoreError,
};

const LEASE: Duration = Duration::from_secs(30);

settle_testing::on_both_stores! {
    a_late_outcome_changes_nothing,
    only_what_is_recorded_is_alerted_of,
}

/// A node that sends, with every shard.
struct Node {
    store: ScratchStore,
    queue: StoreQueue,
    alerter: AlerterWake,
    shards: StoreLeases,
    keeper: KeeperId,
    _presence: Box<dyn Presence>,
}

impl Node {
    async fn start(scratch: ScratchStore) -> Node {
        let store = scratch.migrated().await;
        let alerter = AlerterWake::default();
        let queue = StoreQueue::new(store.share(), Arc::new(SeededEntropy::new(1)), alerter.clone());
        let shards = StoreLeases(store.share(), Duty::Dispatch);
        let keeper = fixtures::unique_keeper_id();
        let presence = shards.presence(keeper).await.unwrap().expect("nobody else is there");
        Node { store, queue, alerter, shards, keeper, _presence: presence }
    }

    /// The shard of a merchant, as it is held now.
    async fn lease(&self, merchant: MerchantId) -> ShardLease {
        let leases = self.shards.renew(self.keeper, LEASE).await.unwrap();
        leases.held.into_iter().find(|lease| lease.shard == Shard::of(merchant)).expect("it holds all shards")
    }

    /// A delivery of a new merchant, which is enqueued and claimed.
    async fn claimed(&self) -> (NewDelivery, Claimed) {
        let merchant = fixtures::merchant(&*self.store).await;
        let id = SettlementId(fixtures::unique_uuid());
        fixtures::record(&*self.store, &[fixtures::settlement(merchant, id, fixtures::at(1))]).await;
        let new = NewDelivery { settlement_id: id, ..fixtures::delivery(merchant, fixtures::at(1)) };
        fixtures::enqueue(&*self.store, std::slice::from_ref(&new)).await;
        let asks = [Ask { merchant_id: merchant, number: 1 }];
        let claims = self.queue.claim(&asks, &[], DueTime::by(fixtures::at(1))).await.unwrap();
        (new, claims.found.into_iter().next().expect("it is due"))
    }

    async fn record(&self, outcomes: &[Outcome]) -> RecordedOutcomes {
        self.queue.record(outcomes, fixtures::at(2)).await.unwrap()
    }

    /// Whether the alerter was woken since it was asked last.
    fn has_woken(&self) -> bool {
        self.alerter.woken().now_or_never().is_some()
    }

    /// The deliveries that alerts name.
    async fn alerted(&self) -> Vec<DeliveryId> {
        let mut tx = self.store.begin().await.unwrap();
        let until = fixtures::at(60);
        let alerts = tx.alert_take(DueTime::by(fixtures::at(2)), until, 10).await.unwrap();
        alerts.into_iter().flat_map(|alert| alert.ids).map(DeliveryId).collect()
    }
}

fn outcome(claimed: &Claimed, lease: ShardLease, event: DeliveryEvent, policy: RetryPolicy) -> Outcome {
    let mut delivery = claimed.delivery.clone();
    let alert = matches!(event, DeliveryEvent::Failed { .. });
    delivery.apply(event, fixtures::at(2), &policy).unwrap();
    let (merchant_id, seen) = (claimed.merchant_id, Seen::from(&claimed.delivery));
    Outcome { lease, state: DeliveryState { merchant_id, seen, delivery }, alert }
}

fn answered(claimed: &Claimed, lease: ShardLease) -> Outcome {
    outcome(claimed, lease, DeliveryEvent::Answered { response_status: 200 }, RetryPolicy::default())
}

/// Its last attempt has failed.
fn died(claimed: &Claimed, lease: ShardLease) -> Outcome {
    let failed = DeliveryEvent::Failed { response_status: Some(500), error: "http_500".to_owned() };
    let policy = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
    outcome(claimed, lease, failed, policy)
}

/// A delivery is claimed, its shard changes hands, and only then does its attempt end.
async fn a_late_outcome_changes_nothing(store: ScratchStore) {
    let node = Node::start(store).await;
    let (new, claimed) = node.claimed().await;
    let lost = node.lease(new.merchant_id).await;
    node.shards.release(&[lost]).await.unwrap();
    let held = node.lease(new.merchant_id).await;
    assert_ne!(lost, held, "the shard has changed hands");

    assert_eq!(node.record(&[answered(&claimed, lost)]).await, RecordedOutcomes::default());
    node.queue.record_in_turn(&[answered(&claimed, lost)], fixtures::at(2)).await.unwrap();
    let pending = fixtures::deliveries(&*node.store, new.merchant_id, Some(DeliveryStatus::Pending)).await;
    assert_eq!(pending.rows, [fixtures::listed(&new)]);
    let recorded = RecordedOutcomes { changed: vec![new.delivery_id], locked: Vec::new() };
    assert_eq!(node.record(&[answered(&claimed, held)]).await, recorded);
    assert!(!node.has_woken() && node.alerted().await.is_empty(), "nothing has died");
}

/// Of two that died, one under a lease that is lost: only of the other are operations told.
async fn only_what_is_recorded_is_alerted_of(store: ScratchStore) {
    let node = Node::start(store).await;
    let ((late, claimed_late), (dead, claimed)) = (node.claimed().await, node.claimed().await);
    let lost = node.lease(late.merchant_id).await;
    node.shards.release(&[lost]).await.unwrap();
    let held = node.lease(dead.merchant_id).await;
    assert_eq!(node.record(&[died(&claimed_late, lost)]).await, RecordedOutcomes::default());
    assert!(!node.has_woken() && node.alerted().await.is_empty());
    let both = [died(&claimed_late, lost), died(&claimed, held)];
    assert_eq!(node.record(&both).await.changed, [dead.delivery_id]);
    assert!(node.has_woken());
    assert_eq!(node.alerted().await, [dead.delivery_id]);
}

/// Somebody holds a merchant for long: the others' outcomes are recorded, and its own are said to be left.
async fn who_is_locked_is_said(store: ScratchStore) {
    let node = Node::start(store).await;
    let ((locked, claimed_locked), (free, claimed)) = (node.claimed().await, node.claimed().await);
    let mut holder = node.store.begin().await.unwrap();
    holder.merchant_lock(&[locked.merchant_id]).await.unwrap();
    let leases = [node.lease(locked.merchant_id).await, node.lease(free.merchant_id).await];
    let outcomes = [answered(&claimed_locked, leases[0]), answered(&claimed, leases[1])];
    let recorded = RecordedOutcomes { changed: vec![free.delivery_id], locked: vec![locked.merchant_id] };
    assert_eq!(node.record(&outcomes).await, recorded);
    // One that is dropped ends later, by itself.
    holder.commit().await.unwrap();
    assert_eq!(node.record(&outcomes[..1]).await.changed, [locked.delivery_id]);
}

/// On SQLite there is one writer: nobody but it holds anything.
#[tokio::test]
async fn who_is_locked_on_postgres_is_said() {
    who_is_locked_is_said(settle_store_postgres::testing::scratch().await).await;
}

/// Who waits in turn waits for a holder, and fails if that takes too long: it never passes a merchant over,
/// as its outcomes would count as recorded.
#[tokio::test]
async fn an_outcome_that_waits_in_turn_is_never_passed_over() {
    let node = Node::start(settle_store_postgres::testing::scratch().await).await;
    let (new, claimed) = node.claimed().await;
    let outcomes = [answered(&claimed, node.lease(new.merchant_id).await)];
    let mut holder = node.store.begin().await.unwrap();
    holder.merchant_lock(&[new.merchant_id]).await.unwrap();
    let waited = node.queue.record_in_turn(&outcomes, fixtures::at(2)).await;
    assert!(matches!(waited, Err(StoreError::Unavailable(_))), "{waited:?}");
    // Who has asked before the holder ends has its turn after it.
    let recording = node.queue.record_in_turn(&outcomes, fixtures::at(2));
    let mut recording = std::pin::pin!(recording);
    assert!(recording.as_mut().now_or_never().is_none());
    drop(holder);
    recording.await.unwrap();
    let delivered =
        fixtures::deliveries(&*node.store, new.merchant_id, Some(DeliveryStatus::Delivered)).await;
    assert_eq!(delivered.rows.len(), 1);
}
