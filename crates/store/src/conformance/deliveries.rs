//! Notification deliveries.

use std::collections::BTreeMap;

use settle_domain::delivery::{Delivery, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::ids::{DeliveryId, MerchantId};

use super::fixtures::{
    at, deliveries, delivery, enqueue, listed, merchant, page, record_states, requeue, requeue_many,
    unique_uuid,
};
use crate::{DeliveryCursor, DeliveryFilter, DeliveryState, DueTime, NewDelivery, Seen, Shard, Store};

fn failed() -> DeliveryEvent {
    DeliveryEvent::Failed { response_status: Some(503), error: "answered with status 503".to_owned() }
}

/// The delivery after the given events.
fn after(new: &NewDelivery, events: &[DeliveryEvent]) -> Delivery {
    let mut delivery = listed(new);
    for (number, event) in events.iter().enumerate() {
        delivery.apply(event.clone(), at(1_000 + number as u64), &RetryPolicy::default()).unwrap();
    }
    delivery
}

async fn dead(store: &dyn Store, merchant: MerchantId) -> Delivery {
    let new = delivery(merchant, at(1));
    enqueue(store, std::slice::from_ref(&new)).await;
    let dead = after(&new, &vec![failed(); 8]);
    assert_eq!(record_states(store, merchant, std::slice::from_ref(&dead)).await, 1);
    dead
}

/// Sorted by the time they were enqueued, then by id.
pub async fn newest_first_with_every_field(store: &dyn Store) {
    let merchant = merchant(store).await;
    let [a, b, c] = [3, 1, 3].map(|time| delivery(merchant, at(time)));
    enqueue(store, &[a.clone(), b.clone(), c.clone()]).await;
    let page = deliveries(store, merchant, None).await;
    assert_eq!(page.rows, [listed(&c), listed(&a), listed(&b)]);
    assert_eq!(page.total, 3);
}

/// Totals are exact for each status and for all, also on a page past the end.
pub async fn totals_by_status(store: &dyn Store) {
    let merchant = merchant(store).await;
    for status in DeliveryStatus::ALL {
        assert_eq!(deliveries(store, merchant, Some(status)).await.total, 0);
    }
    let new: Vec<NewDelivery> = (0..6).map(|number| delivery(merchant, at(number))).collect();
    enqueue(store, &new).await;
    let answered = DeliveryEvent::Answered { response_status: 200 };
    let delivered = after(&new[0], std::slice::from_ref(&answered));
    let dead = [after(&new[1], &vec![failed(); 8]), after(&new[2], &[DeliveryEvent::EndpointGone])];
    let retried = after(&new[3], &[failed()]);
    let states = [delivered.clone(), dead[0].clone(), dead[1].clone(), retried.clone()];
    assert_eq!(record_states(store, merchant, &states).await, 4);

    let pending = [listed(&new[5]), listed(&new[4]), retried];
    let by_status = [
        (DeliveryStatus::Pending, pending.to_vec()),
        (DeliveryStatus::Delivered, vec![delivered]),
        (DeliveryStatus::Dead, vec![dead[1].clone(), dead[0].clone()]),
    ];
    for (status, expected) in by_status {
        let total = u64::try_from(expected.len()).unwrap();
        let found = deliveries(store, merchant, Some(status)).await;
        assert_eq!((found.rows, found.total), (expected, total), "{status}");
        let past = store.delivery_page(merchant, Some(status), page(1, 10_000)).await.unwrap();
        assert_eq!((past.rows, past.total), (Vec::new(), total), "{status}");
    }
    assert_eq!(deliveries(store, merchant, None).await.total, 6);
}

/// A page contains no rows of others, and its total does not count them.
pub async fn a_merchant_sees_its_own_alone(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let own = delivery(one, at(1));
    enqueue(store, std::slice::from_ref(&own)).await;
    enqueue(store, &[delivery(two, at(2)), delivery(two, at(3))]).await;
    let page = deliveries(store, one, None).await;
    assert_eq!((page.rows, page.total), (vec![listed(&own)], 1));
}

/// A late outcome does not overwrite an earlier one.
pub async fn an_outcome_changes_only_a_pending_row(store: &dyn Store) {
    let merchant = merchant(store).await;
    let new = delivery(merchant, at(1));
    enqueue(store, std::slice::from_ref(&new)).await;
    let delivered = after(&new, &[DeliveryEvent::Answered { response_status: 204 }]);
    assert_eq!(record_states(store, merchant, std::slice::from_ref(&delivered)).await, 1);
    let late = after(&new, &[failed()]);
    assert_eq!(record_states(store, merchant, &[late]).await, 0);
    let page = deliveries(store, merchant, None).await;
    assert_eq!((page.rows, page.total), (vec![delivered], 1));
    assert_eq!(deliveries(store, merchant, Some(DeliveryStatus::Pending)).await.total, 0);
}

/// An outcome changes nothing if another attempt or a redelivery was recorded after its claim.
pub async fn an_outcome_changes_only_what_was_seen(store: &dyn Store) {
    let merchant = merchant(store).await;
    let new = delivery(merchant, at(1));
    enqueue(store, std::slice::from_ref(&new)).await;
    let seen = Seen::from(&listed(&new));
    let late = DeliveryState {
        merchant_id: merchant,
        seen,
        delivery: after(&new, &[DeliveryEvent::Answered { response_status: 200 }]),
    };
    let record = async || {
        let mut tx = store.begin().await.unwrap();
        let lock = tx.merchant_lock(&[merchant]).await.unwrap();
        let recorded = tx.delivery_record_many(&lock, std::slice::from_ref(&late), at(2)).await.unwrap();
        tx.commit().await.unwrap();
        recorded
    };
    record_states(store, merchant, &[after(&new, &[failed()])]).await;
    assert_eq!(record().await, []);
    record_states(store, merchant, &[after(&new, &[DeliveryEvent::EndpointGone])]).await;
    let requeued = requeue(store, merchant, new.delivery_id, at(9)).await.unwrap();
    assert_eq!(record().await, []);
    assert_eq!(deliveries(store, merchant, None).await.rows, [requeued]);
}

/// The row is pending, with no attempts and due now; the last error stays until the next attempt.
pub async fn requeue_of_a_dead_row(store: &dyn Store) {
    let merchant = merchant(store).await;
    let mut expected = dead(store, merchant).await;
    let requeued = requeue(store, merchant, expected.delivery_id, at(9_000)).await.unwrap();
    expected.apply(DeliveryEvent::RedeliveryAsked, at(9_000), &RetryPolicy::default()).unwrap();
    assert_eq!(requeued, expected);
    assert_eq!(requeued.response_status, Some(503));
    assert_eq!(deliveries(store, merchant, Some(DeliveryStatus::Pending)).await.rows, [expected]);
    assert_eq!(deliveries(store, merchant, Some(DeliveryStatus::Dead)).await.total, 0);
}

/// It leaves pending and delivered rows, other merchants' rows and unknown ids alone.
pub async fn requeue_finds_nothing_else(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    let (pending, done) = (delivery(merchant, at(1)), delivery(merchant, at(2)));
    enqueue(store, &[pending.clone(), done.clone()]).await;
    let delivered = after(&done, &[DeliveryEvent::Answered { response_status: 200 }]);
    record_states(store, merchant, &[delivered]).await;
    let dead = dead(store, merchant).await;
    for (owner, id) in [
        (merchant, pending.delivery_id),
        (merchant, done.delivery_id),
        (merchant, DeliveryId(unique_uuid())),
        (other, dead.delivery_id),
    ] {
        assert_eq!(requeue(store, owner, id, at(9)).await, None);
    }
    let totals = DeliveryStatus::ALL
        .map(|status| async move { deliveries(store, merchant, Some(status)).await.total });
    for (total, expected) in totals.into_iter().zip([1, 1, 1]) {
        assert_eq!(total.await, expected);
    }
}

/// The log is in the order in which deliveries were enqueued.
pub async fn a_requeue_does_not_move_its_row(store: &dyn Store) {
    let merchant = merchant(store).await;
    let old = dead(store, merchant).await;
    let young = delivery(merchant, at(2));
    enqueue(store, std::slice::from_ref(&young)).await;
    requeue(store, merchant, old.delivery_id, at(9_000)).await.unwrap();
    let ids: Vec<DeliveryId> =
        deliveries(store, merchant, None).await.rows.iter().map(|row| row.delivery_id).collect();
    assert_eq!(ids, [young.delivery_id, old.delivery_id]);
}

/// The deliveries belong to several merchants, and one is named twice. Counts and due times follow.
pub async fn requeue_of_many_changes_the_dead_ones_alone(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let expected =
        [(one, dead(store, one).await), (one, dead(store, one).await), (two, dead(store, two).await)];
    let untouched = dead(store, two).await;
    let (pending, done) = (delivery(one, at(5_000)), delivery(one, at(2)));
    enqueue(store, &[pending.clone(), done.clone()]).await;
    let delivered = after(&done, &[DeliveryEvent::Answered { response_status: 200 }]);
    record_states(store, one, std::slice::from_ref(&delivered)).await;

    let mut asked: Vec<(MerchantId, DeliveryId)> =
        expected.iter().map(|(merchant, dead)| (*merchant, dead.delivery_id)).collect();
    asked.push(asked[0]);
    asked.extend([(one, pending.delivery_id), (one, done.delivery_id)]);
    asked.extend([(one, untouched.delivery_id), (two, DeliveryId(unique_uuid()))]);
    let requeued = requeue_many(store, &asked, at(4_000)).await;
    let mut by_id = BTreeMap::new();
    for (merchant, mut row) in expected {
        row.apply(DeliveryEvent::RedeliveryAsked, at(4_000), &RetryPolicy::default()).unwrap();
        by_id.insert((merchant, row.delivery_id), row);
    }
    assert_eq!(requeued.len(), by_id.len(), "once each");
    for (merchant, row) in requeued {
        assert_eq!(Some(&row), by_id.get(&(merchant, row.delivery_id)));
    }
    for (merchant, totals) in [(one, [3, 1, 0]), (two, [1, 0, 1])] {
        for (status, total) in DeliveryStatus::ALL.into_iter().zip(totals) {
            assert_eq!(deliveries(store, merchant, Some(status)).await.total, total, "{status}");
        }
    }
    let rows = deliveries(store, one, None).await.rows;
    assert!(rows.contains(&listed(&pending)) && rows.contains(&delivered), "{rows:?}");
    let shards: Vec<Shard> = Shard::all().collect();
    let due = store.queue_due(&shards, DueTime::by(at(4_000)), &[], 10).await.unwrap();
    assert_eq!(due.len(), 2, "{due:?}");
    assert!(due.iter().all(|due| due.due_at == at(4_000)), "{due:?}");
    assert_eq!(requeue_many(store, &asked, at(9_000)).await, [], "none of them is dead any more");
}

type Owned = (MerchantId, Delivery);

async fn search(store: &dyn Store, filter: &DeliveryFilter) -> Vec<Owned> {
    store.delivery_search(filter, None, 1_000).await.unwrap()
}

/// Sorted by the time they were enqueued over all merchants, then by id.
pub async fn a_search_finds_all_merchants_newest_first(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    assert_eq!(search(store, &DeliveryFilter::default()).await, []);
    let [a, b, c, d] =
        [(one, 3), (two, 5), (one, 4), (two, 3)].map(|(owner, time)| delivery(owner, at(time)));
    enqueue(store, &[a.clone(), c.clone()]).await;
    enqueue(store, &[b.clone(), d.clone()]).await;
    let expected = [(two, listed(&b)), (one, listed(&c)), (two, listed(&d)), (one, listed(&a))];
    assert_eq!(search(store, &DeliveryFilter::default()).await, expected);
    let first = store.delivery_search(&DeliveryFilter::default(), None, 2).await.unwrap();
    assert_eq!(first, expected[..2]);
}

/// Each condition alone and all together; `delivery_count` agrees.
pub async fn a_search_gives_what_its_filter_says(store: &dyn Store) {
    let merchants = [merchant(store).await, merchant(store).await];
    let unknown = MerchantId(unique_uuid());
    let urls = ["https://a.example/hook", "https://a.example/hook2", "https://A.example/_%"];
    let mut all: Vec<Owned> = Vec::new();
    for (owner, number) in merchants.iter().flat_map(|owner| (0..9).map(move |number| (*owner, number))) {
        let url = urls[number % 3].to_owned();
        let new = NewDelivery { url, ..delivery(owner, at(number as u64)) };
        enqueue(store, std::slice::from_ref(&new)).await;
        let events = [vec![], vec![DeliveryEvent::Answered { response_status: 200 }], vec![failed(); 8]];
        let row = after(&new, &events[number / 3]);
        record_states(store, owner, std::slice::from_ref(&row)).await;
        all.push((owner, row));
    }
    all.sort_by_key(|(_, row)| std::cmp::Reverse((row.created_at, row.delivery_id)));

    let owners = [None, Some(merchants[0]), Some(merchants[1]), Some(unknown)];
    let statuses = DeliveryStatus::ALL.map(Some).into_iter().chain([None]);
    let times = [None, Some(at(0)), Some(at(4)), Some(at(99))];
    let starts =
        [None, Some("https://a.example/hook"), Some(urls[1]), Some(urls[2]), Some("https://a.example/_")];
    for filter in owners.into_iter().flat_map(|merchant| {
        let statuses = statuses.clone();
        statuses.flat_map(move |status| {
            times.into_iter().flat_map(move |since| {
                let filter = move |url: Option<&str>| DeliveryFilter {
                    merchant,
                    status,
                    since,
                    url: url.map(str::to_owned),
                };
                starts.into_iter().map(filter)
            })
        })
    }) {
        let expected: Vec<Owned> = all.iter().filter(|owned| matches(&filter, owned)).cloned().collect();
        assert_eq!(search(store, &filter).await, expected, "{filter:?}");
        let mut counts = BTreeMap::new();
        for (owner, _) in &expected {
            *counts.entry(*owner).or_default() += 1_u64;
        }
        let counts: Vec<(MerchantId, u64)> = counts.into_iter().collect();
        assert_eq!(store.delivery_count(&filter).await.unwrap(), counts, "{filter:?}");
    }
}

fn matches(filter: &DeliveryFilter, (owner, row): &Owned) -> bool {
    filter.merchant.is_none_or(|merchant| merchant == *owner)
        && filter.status.is_none_or(|status| status == row.status)
        && filter.since.is_none_or(|since| row.created_at >= since)
        && filter.url.as_ref().is_none_or(|url| row.url.starts_with(url))
}

/// Page by page gives the same as all at once, also with equal times and equal ids.
pub async fn a_search_goes_on_where_it_ended(store: &dyn Store) {
    let merchants = [merchant(store).await, merchant(store).await, merchant(store).await];
    for owner in merchants {
        let new: Vec<NewDelivery> = (0..7).map(|number| delivery(owner, at(number / 3))).collect();
        enqueue(store, &new).await;
    }
    let shared = delivery(merchants[0], at(1));
    for merchant_id in merchants {
        enqueue(store, &[NewDelivery { merchant_id, ..shared.clone() }]).await;
    }
    for status in [None, Some(DeliveryStatus::Pending)] {
        let filter = DeliveryFilter { status, ..DeliveryFilter::default() };
        let all = search(store, &filter).await;
        assert_eq!(all.len(), 24);
        for limit in [1, 2, 5, 24] {
            let mut walked: Vec<Owned> = Vec::new();
            loop {
                let after = walked.last().map(DeliveryCursor::at);
                let page = store.delivery_search(&filter, after, limit).await.unwrap();
                assert!(page.len() <= usize::try_from(limit).unwrap());
                if page.is_empty() {
                    break;
                }
                walked.extend(page);
            }
            assert_eq!(walked, all, "{limit} at a time");
        }
    }
}

/// A requeued delivery that dies again is behind the search, which does not find it again.
pub async fn a_walk_meets_what_dies_again_once(store: &dyn Store) {
    let merchant = merchant(store).await;
    let all = [dead(store, merchant).await, dead(store, merchant).await, dead(store, merchant).await];
    let filter = DeliveryFilter { status: Some(DeliveryStatus::Dead), ..DeliveryFilter::default() };
    let (mut met, mut place) = (Vec::new(), None);
    while let [owned] = &store.delivery_search(&filter, place, 1).await.unwrap()[..] {
        place = Some(DeliveryCursor::at(owned));
        let id = owned.1.delivery_id;
        met.push(id);
        assert_eq!(requeue_many(store, &[(merchant, id)], at(9)).await.len(), 1);
        let mut again = owned.1.clone();
        again.apply(DeliveryEvent::RedeliveryAsked, at(9), &RetryPolicy::default()).unwrap();
        again.apply(DeliveryEvent::EndpointGone, at(10), &RetryPolicy::default()).unwrap();
        assert_eq!(record_states(store, merchant, &[again]).await, 1);
    }
    let expected: Vec<DeliveryId> = all.iter().rev().map(|row| row.delivery_id).collect();
    assert_eq!(met, expected);
    assert_eq!(store.delivery_count(&filter).await.unwrap(), [(merchant, 3)]);
}

/// Each comes with its merchant; unknown ids are left out.
pub async fn deliveries_are_found_by_id_alone(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let (mine, theirs) = (delivery(one, at(1)), dead(store, two).await);
    enqueue(store, &[mine.clone(), delivery(one, at(2))]).await;
    let ids = [theirs.delivery_id, DeliveryId(unique_uuid()), mine.delivery_id];
    let mut found = store.delivery_find_many(&ids).await.unwrap();
    found.sort_by_key(|(owner, _)| *owner);
    assert_eq!(found, [(one, listed(&mine)), (two, theirs)]);
    assert_eq!(store.delivery_find_many(&[]).await.unwrap(), []);
}
