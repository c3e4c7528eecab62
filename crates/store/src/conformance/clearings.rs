//! Clearings: what is left of an endpoint that was cleared while many deliveries waited.

use settle_domain::delivery::{Delivery, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::time::Timestamp;

use super::fixtures::{
    at, clear_endpoint, clear_endpoint_but, clearing_step, deliveries, delivery, endpoint, enqueue, listed,
    merchant, put_endpoint, record, record_states, refresh, requeue, settlement, unique_uuid,
};
use crate::{Ask, ClearingStep, ClearingsLeft, DueTime, NewDelivery, Shard, Store};

/// A merchant with an endpoint and so many notifications, each due a second after the one before.
async fn notified(store: &dyn Store, number: u64) -> (MerchantId, Vec<NewDelivery>) {
    let merchant = merchant(store).await;
    put_endpoint(store, merchant, &endpoint(b"old")).await;
    let mut waiting = Vec::new();
    for second in 0..number {
        waiting.push(notify(store, merchant, at(second)).await);
    }
    (merchant, waiting)
}

/// A merchant with an endpoint and so many notifications, first due first, of which thirty are due at a time.
async fn notified_of_many(store: &dyn Store, number: u64) -> (MerchantId, Vec<NewDelivery>) {
    let merchant = merchant(store).await;
    put_endpoint(store, merchant, &endpoint(b"old")).await;
    let mut waiting: Vec<_> = (0..number).map(|each| delivery(merchant, at(each / 30))).collect();
    enqueue(store, &waiting).await;
    waiting.sort_by_key(|new| (new.created_at, new.delivery_id));
    (merchant, waiting)
}

/// A settlement and its notification.
async fn notify(store: &dyn Store, merchant: MerchantId, created_at: Timestamp) -> NewDelivery {
    let id = SettlementId(unique_uuid());
    record(store, &[settlement(merchant, id, created_at)]).await;
    let new = NewDelivery { settlement_id: id, ..delivery(merchant, created_at) };
    enqueue(store, std::slice::from_ref(&new)).await;
    new
}

/// A waiting delivery after its endpoint was cleared.
fn ended(new: &NewDelivery, cleared_at: Timestamp) -> Delivery {
    let mut row = listed(new);
    row.apply(DeliveryEvent::EndpointGone, cleared_at, &RetryPolicy::default()).unwrap();
    row
}

/// The rows, newest first, of which the first so many have ended.
fn rows(waiting: &[NewDelivery], number_ended: usize, cleared_at: Timestamp) -> Vec<Delivery> {
    let row = |(place, new)| if place < number_ended { ended(new, cleared_at) } else { listed(new) };
    waiting.iter().enumerate().map(row).rev().collect()
}

/// Lists and totals say that so many have ended and the others are pending.
async fn assert_ended(store: &dyn Store, merchant: MerchantId, expected: &[Delivery]) {
    let page = deliveries(store, merchant, None).await;
    assert_eq!((page.rows.as_slice(), page.total), (expected, expected.len() as u64));
    for status in DeliveryStatus::ALL {
        let of_status: Vec<Delivery> = expected.iter().filter(|row| row.status == status).cloned().collect();
        let page = deliveries(store, merchant, Some(status)).await;
        assert_eq!((page.total, page.rows), (of_status.len() as u64, of_status), "{status}");
    }
}

async fn left(store: &dyn Store) -> ClearingsLeft {
    store.clearing_left(10).await.unwrap()
}

async fn claimed(store: &dyn Store, merchant: MerchantId) -> Vec<DeliveryId> {
    let asks = [Ask { merchant_id: merchant, number: 8 }];
    let claimed = store.queue_claim(&asks, &[], DueTime::by(at(1_000))).await.unwrap().found;
    claimed.iter().map(|claimed| claimed.delivery.delivery_id).collect()
}

async fn due(store: &dyn Store, merchant: MerchantId) -> Option<Timestamp> {
    let found =
        store.queue_due(&[Shard::of(merchant)], DueTime::by(Timestamp::MAX), &[], 1_000).await.unwrap();
    found.into_iter().find(|due| due.merchant_id == merchant).map(|due| due.due_at)
}

/// A clear ends as many as it may, first due first; steps end the others, as of the time of the clear.
pub async fn steps_end_what_a_clear_left(store: &dyn Store) {
    let (merchant, waiting) = notified(store, 7).await;
    let cleared_at = at(4);
    let step = clear_endpoint_but(store, merchant, cleared_at, 2).await;
    assert_eq!(step, ClearingStep { ended: 2, left: 5 });
    assert_eq!(store.endpoint_find(merchant).await.unwrap(), None);
    assert_ended(store, merchant, &rows(&waiting, 2, cleared_at)).await;
    for (number_ended, left_after) in [(5, 2), (7, 0)] {
        assert_eq!(left(store).await.merchants, [merchant]);
        let step = clearing_step(store, merchant, 3).await;
        assert_eq!(step.left, left_after);
        assert_ended(store, merchant, &rows(&waiting, number_ended, cleared_at)).await;
        assert_eq!(left(store).await.deliveries, left_after);
    }
    assert_eq!(left(store).await, ClearingsLeft::default());
    assert_eq!(clearing_step(store, merchant, 3).await, ClearingStep::default(), "nothing is left");
    assert_ended(store, merchant, &rows(&waiting, 7, cleared_at)).await;
}

/// A backend may end many with several statements, which follow each other in the order in which rows are
/// due, also of those that are due at the same time.
pub async fn a_step_ends_many_first_due_first(store: &dyn Store) {
    let (merchant, waiting) = notified_of_many(store, 95).await;
    let step = clear_endpoint_but(store, merchant, at(4), 41).await;
    assert_eq!(step, ClearingStep { ended: 41, left: 54 });
    assert_ended(store, merchant, &rows(&waiting, 41, at(4))).await;
    assert_eq!(clearing_step(store, merchant, 50).await, ClearingStep { ended: 50, left: 4 });
    assert_ended(store, merchant, &rows(&waiting, 91, at(4))).await;
    assert_eq!(clearing_step(store, merchant, 85).await, ClearingStep { ended: 4, left: 0 });
    assert_ended(store, merchant, &rows(&waiting, 95, at(4))).await;
}

/// A clear that ends all leaves nothing behind, also when it ends exactly as many as it may, or when the last
/// of its statements finds none.
pub async fn a_clear_that_ends_all_leaves_nothing(store: &dyn Store) {
    let (merchant, waiting) = notified(store, 3).await;
    assert_eq!(clear_endpoint_but(store, merchant, at(9), 3).await, ClearingStep { ended: 3, left: 0 });
    assert_ended(store, merchant, &rows(&waiting, 3, at(9))).await;
    let (merchant, waiting) = notified_of_many(store, 80).await;
    assert_eq!(clear_endpoint_but(store, merchant, at(9), 200).await, ClearingStep { ended: 80, left: 0 });
    assert_ended(store, merchant, &rows(&waiting, 80, at(9))).await;
    assert_eq!(left(store).await, ClearingsLeft::default());
}

/// From the moment of the clear no claim finds what waited, also when a new endpoint is set at once: that one
/// gets what is new. An outcome of an attempt under way comes too late.
pub async fn what_a_clear_left_is_never_sent(store: &dyn Store) {
    let (merchant, waiting) = notified(store, 4).await;
    assert_eq!(claimed(store, merchant).await.len(), 4);
    clear_endpoint_but(store, merchant, at(10), 1).await;
    let set_at_once = Endpoint { url: "https://other.example/".to_owned(), ..endpoint(b"new") };
    put_endpoint(store, merchant, &set_at_once).await;
    assert_eq!((claimed(store, merchant).await, due(store, merchant).await), (vec![], None));

    let policy = RetryPolicy::default();
    let mut delivered = listed(&waiting[1]);
    delivered.apply(DeliveryEvent::Answered { response_status: 200 }, at(11), &policy).unwrap();
    let mut failed = listed(&waiting[2]);
    let event = DeliveryEvent::Failed { response_status: None, error: "timeout".to_owned() };
    failed.apply(event, at(11), &policy).unwrap();
    assert_eq!(record_states(store, merchant, &[delivered, failed]).await, 0, "too late");
    assert_ended(store, merchant, &rows(&waiting, 1, at(10))).await;

    let new = notify(store, merchant, at(20)).await;
    assert_eq!(claimed(store, merchant).await, [new.delivery_id]);
    refresh(store, merchant, Timestamp::MAX).await;
    assert_eq!(
        (claimed(store, merchant).await, due(store, merchant).await),
        (vec![new.delivery_id], Some(at(20)))
    );
    assert_eq!(clearing_step(store, merchant, 10).await, ClearingStep { ended: 3, left: 0 });
    assert_eq!(
        (claimed(store, merchant).await, due(store, merchant).await),
        (vec![new.delivery_id], Some(at(20)))
    );
    let mut expected = rows(&waiting, 4, at(10));
    expected.insert(0, listed(&new));
    assert_ended(store, merchant, &expected).await;
}

/// A delivery that shows as pending is refused, whoever will end it; once dead it can be redelivered.
pub async fn a_redelivery_waits_for_its_step(store: &dyn Store) {
    let (merchant, waiting) = notified(store, 3).await;
    clear_endpoint_but(store, merchant, at(10), 1).await;
    put_endpoint(store, merchant, &endpoint(b"new")).await;
    assert!(requeue(store, merchant, waiting[0].delivery_id, at(11)).await.is_some());
    assert_eq!(requeue(store, merchant, waiting[1].delivery_id, at(11)).await, None);
    assert_eq!(claimed(store, merchant).await, [waiting[0].delivery_id]);
    let step = clearing_step(store, merchant, 10).await;
    assert_eq!(step, ClearingStep { ended: 2, left: 0 }, "what was requeued is of the present epoch");
    assert!(requeue(store, merchant, waiting[1].delivery_id, at(12)).await.is_some());
    assert_eq!(claimed(store, merchant).await, [waiting[0].delivery_id, waiting[1].delivery_id]);
    assert_eq!(deliveries(store, merchant, Some(DeliveryStatus::Dead)).await.total, 1);
}

/// A second clear ends what came after the first; steps end the older clearing first, each as of its time.
pub async fn clearings_of_one_endpoint_follow_each_other(store: &dyn Store) {
    let (merchant, mut waiting) = notified(store, 3).await;
    assert_eq!(clear_endpoint_but(store, merchant, at(10), 1).await, ClearingStep { ended: 1, left: 2 });
    put_endpoint(store, merchant, &endpoint(b"new")).await;
    for second in 11..14 {
        waiting.push(notify(store, merchant, at(second)).await);
    }
    assert_eq!(clear_endpoint_but(store, merchant, at(12), 1).await, ClearingStep { ended: 1, left: 2 });
    assert_eq!(left(store).await, ClearingsLeft { merchants: vec![merchant], deliveries: 4 });
    assert_eq!(clearing_step(store, merchant, 1).await, ClearingStep { ended: 1, left: 1 });
    assert_eq!(clearing_step(store, merchant, 2).await, ClearingStep { ended: 1, left: 0 });
    assert_eq!(left(store).await.deliveries, 2);
    assert_eq!(clearing_step(store, merchant, 2).await, ClearingStep { ended: 2, left: 0 });
    assert_eq!(left(store).await, ClearingsLeft::default());
    let cleared_at = |place: usize| if place < 3 { at(10) } else { at(12) };
    let expected = waiting.iter().enumerate().map(|(place, new)| ended(new, cleared_at(place)));
    assert_ended(store, merchant, &expected.rev().collect::<Vec<_>>()).await;
    assert_eq!(clear_endpoint(store, merchant, at(20)).await, 0, "nothing waits");
}

/// A process that dies between a step and its commit leaves the clearing as it was; the next goes on there.
pub async fn a_step_that_is_not_committed_leaves_no_trace(store: &dyn Store) {
    let (merchant, waiting) = notified(store, 4).await;
    clear_endpoint_but(store, merchant, at(10), 1).await;
    for (ended_max, number_ended) in [(2, 1), (3, 1)] {
        let mut tx = store.begin().await.unwrap();
        let lock = tx.merchant_lock(&[merchant]).await.unwrap();
        tx.clearing_step(&lock, merchant, ended_max).await.unwrap();
        drop(tx);
        assert_ended(store, merchant, &rows(&waiting, number_ended, at(10))).await;
        assert_eq!(left(store).await, ClearingsLeft { merchants: vec![merchant], deliveries: 3 });
    }
    assert_eq!(clearing_step(store, merchant, 10).await, ClearingStep { ended: 3, left: 0 });
    assert_ended(store, merchant, &rows(&waiting, 4, at(10))).await;
}

/// A step is of its merchant. Merchants are named in the order of their ids, as many as asked for.
pub async fn a_step_touches_no_other_merchant(store: &dyn Store) {
    let (one, of_one) = notified(store, 2).await;
    let (two, of_two) = notified(store, 2).await;
    let (three, of_three) = notified(store, 2).await;
    clear_endpoint_but(store, two, at(10), 0).await;
    clear_endpoint_but(store, one, at(10), 0).await;
    assert_eq!(left(store).await, ClearingsLeft { merchants: vec![one, two], deliveries: 4 });
    let first = store.clearing_left(1).await.unwrap();
    assert_eq!(first, ClearingsLeft { merchants: vec![one], deliveries: 4 });
    clearing_step(store, one, 10).await;
    assert_ended(store, one, &rows(&of_one, 2, at(10))).await;
    assert_ended(store, two, &rows(&of_two, 0, at(10))).await;
    assert_ended(store, three, &rows(&of_three, 0, at(10))).await;
    assert_eq!(left(store).await, ClearingsLeft { merchants: vec![two], deliveries: 2 });
    assert_eq!(claimed(store, three).await.len(), 2);
}
