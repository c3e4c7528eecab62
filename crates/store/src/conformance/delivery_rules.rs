//! The domain alone says what an event does to a delivery ([`Delivery::apply`]). Two SQL statements do the
//! same to many rows at once; these tests compare whole rows with the domain, from every state.

use settle_domain::delivery::{Delivery, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::time::Timestamp;

use super::fixtures::{
    at, clear_endpoint, clear_endpoint_but, clearing_step, deliveries, delivery, enqueue, hasten_many,
    listed, merchant, record_states, requeue_many,
};
use crate::Store;

/// Times before, between and after the due times of the rows.
const SECONDS: [u64; 3] = [50, 150, 100_000];

/// The histories of deliveries: the events of each, ten seconds apart.
fn histories() -> Vec<Vec<DeliveryEvent>> {
    let answered = DeliveryEvent::Answered { response_status: 204 };
    let refused =
        DeliveryEvent::Failed { response_status: Some(503), error: "answered with status 503".to_owned() };
    let silent = DeliveryEvent::Failed { response_status: None, error: "timeout".to_owned() };
    let (gone, asked) = (DeliveryEvent::EndpointGone, DeliveryEvent::RedeliveryAsked);
    vec![
        vec![],
        vec![refused.clone()],
        vec![refused.clone(), silent.clone()],
        vec![answered.clone()],
        vec![silent.clone(), answered.clone()],
        vec![refused.clone(); 8],
        vec![silent.clone(); 8],
        vec![gone.clone()],
        vec![refused.clone(), gone],
        [vec![refused; 8], vec![asked.clone()]].concat(),
        [vec![silent; 8], vec![asked, answered]].concat(),
    ]
}

/// A merchant's deliveries in every state, newest first.
async fn every_state(store: &dyn Store, merchant: MerchantId) -> Vec<Delivery> {
    let mut rows = Vec::new();
    for (number, events) in histories().into_iter().enumerate() {
        let new = delivery(merchant, at(number as u64));
        enqueue(store, std::slice::from_ref(&new)).await;
        let mut row = listed(&new);
        for (turn, event) in events.into_iter().enumerate() {
            row.apply(event, at(10 * (turn as u64 + 1)), &RetryPolicy::default()).unwrap();
        }
        rows.push(row);
    }
    record_states(store, merchant, &rows).await;
    rows.reverse();
    assert_eq!(deliveries(store, merchant, None).await.rows, rows);
    for status in DeliveryStatus::ALL {
        assert!(rows.iter().any(|row| row.status == status), "{status}");
    }
    rows
}

/// The rows after the domain has applied the event, and those of them that it changed.
fn applied(before: &[Delivery], event: &DeliveryEvent, at: Timestamp) -> (Vec<Delivery>, Vec<Delivery>) {
    let (mut after, mut changed) = (before.to_vec(), Vec::new());
    for row in &mut after {
        if row.apply(event.clone(), at, &RetryPolicy::default()).is_ok() {
            changed.push(row.clone());
        }
    }
    assert!(!changed.is_empty() && changed.len() < before.len());
    (after, changed)
}

/// `delivery_requeue_many`.
pub async fn requeue_is_the_domains_redelivery_asked(store: &dyn Store) {
    for second in SECONDS {
        let merchant = merchant(store).await;
        let before = every_state(store, merchant).await;
        let (after, changed) = applied(&before, &DeliveryEvent::RedeliveryAsked, at(second));
        let all: Vec<(MerchantId, DeliveryId)> =
            before.iter().map(|row| (merchant, row.delivery_id)).collect();
        let mut requeued = requeue_many(store, &all, at(second)).await;
        requeued.sort_by_key(|(_, row)| std::cmp::Reverse(row.delivery_id));
        let changed: Vec<(MerchantId, Delivery)> = changed.into_iter().map(|row| (merchant, row)).collect();
        assert_eq!(requeued, changed, "at second {second}");
        assert_eq!(deliveries(store, merchant, None).await.rows, after, "at second {second}");
    }
}

/// `delivery_hasten_many`: those that are due later, and what the merchant is due at then.
pub async fn hasten_is_the_domains_haste_asked(store: &dyn Store) {
    for second in SECONDS {
        let merchant = merchant(store).await;
        let before = every_state(store, merchant).await;
        let mut after = before.clone();
        for row in &mut after {
            // A row that is not pending refuses, and stays as it is.
            let _ = row.apply(DeliveryEvent::HasteAsked, at(second), &RetryPolicy::default());
        }
        let all: Vec<(MerchantId, DeliveryId)> =
            before.iter().map(|row| (merchant, row.delivery_id)).collect();
        let changed = after.iter().zip(&before).filter(|(after, before)| after != before);
        let changed: Vec<(MerchantId, Delivery)> =
            changed.map(|(after, _)| (merchant, after.clone())).collect();
        let mut hastened = hasten_many(store, &all, at(second)).await;
        hastened.sort_by_key(|(_, row)| std::cmp::Reverse(row.delivery_id));
        assert_eq!(hastened, changed, "at second {second}");
        assert_eq!(deliveries(store, merchant, None).await.rows, after, "at second {second}");
        assert_eq!(hasten_many(store, &all, at(second)).await, [], "none is due later any more");
    }
    // What an endpoint left behind stays behind.
    let merchant = merchant(store).await;
    let new = delivery(merchant, at(100));
    enqueue(store, std::slice::from_ref(&new)).await;
    clear_endpoint_but(store, merchant, at(101), 0).await;
    assert_eq!(hasten_many(store, &[(merchant, new.delivery_id)], at(1)).await, []);
}

/// `endpoint_clear`, and `clearing_step` after one that ended nothing itself.
pub async fn clear_is_the_domains_endpoint_gone(store: &dyn Store) {
    for second in SECONDS {
        for is_in_steps in [false, true] {
            let merchant = merchant(store).await;
            let before = every_state(store, merchant).await;
            let (after, changed) = applied(&before, &DeliveryEvent::EndpointGone, at(second));
            let ended = if is_in_steps {
                clear_endpoint_but(store, merchant, at(second), 0).await;
                let first = clearing_step(store, merchant, 1).await;
                first.ended + clearing_step(store, merchant, 100).await.ended
            } else {
                clear_endpoint(store, merchant, at(second)).await
            };
            assert_eq!(ended, changed.len() as u64);
            assert_eq!(deliveries(store, merchant, None).await.rows, after, "at second {second}");
        }
    }
}
