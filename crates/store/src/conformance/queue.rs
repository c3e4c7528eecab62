//! The queue: which deliveries are due, and which process may send them.

use std::time::Duration;

use settle_domain::delivery::{DeliveryEvent, RetryPolicy};
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId, SettlementId};
use settle_domain::time::Timestamp;

use super::fixtures::{
    at, clear_endpoint, delivery, endpoint, enqueue, listed, merchant, put_endpoint, record, record_states,
    record_states_at, refresh, requeue, settlement, unique_keeper_id, unique_uuid,
};
use crate::{
    Ask, Claimed, DUE_LAG, DeliveryState, DueMerchant, DueTime, Duty, Leases, NewDelivery, SHARDS, Shard,
    ShardLease, Store,
};

const LEASE: Duration = Duration::from_secs(30);
/// Tries, until the database sees that a session has ended.
const LOOKS_MAX: usize = 10_000;

/// A settlement and its notification, enqueued at the given time.
async fn notified(store: &dyn Store, merchant: MerchantId, created_at: Timestamp) -> NewDelivery {
    let id = SettlementId(unique_uuid());
    record(store, &[settlement(merchant, id, created_at)]).await;
    let new = NewDelivery { settlement_id: id, ..delivery(merchant, created_at) };
    enqueue(store, std::slice::from_ref(&new)).await;
    new
}

/// When the merchant counts as due.
async fn due(store: &dyn Store, merchant: MerchantId) -> Option<Timestamp> {
    let shards: Vec<Shard> = Shard::all().collect();
    let found = store.queue_due(&shards, DueTime::by(Timestamp::MAX), &[], 1_000).await.unwrap();
    found.into_iter().find(|due| due.merchant_id == merchant).map(|due| due.due_at)
}

async fn claim(
    store: &dyn Store,
    merchant: MerchantId,
    number: u32,
    in_flight: &[DeliveryId],
    now: Timestamp,
) -> Vec<Claimed> {
    let asks = [Ask { merchant_id: merchant, number }];
    store.queue_claim(&asks, in_flight, DueTime::by(now)).await.unwrap().found
}

fn ids(claimed: &[Claimed]) -> Vec<DeliveryId> {
    claimed.iter().map(|claimed| claimed.delivery.delivery_id).collect()
}

/// It is found only in its own shard, once a delivery is due, and not among the known ones.
pub async fn a_due_merchant_is_found_in_its_shard(store: &dyn Store) {
    let merchant = merchant(store).await;
    notified(store, merchant, at(10)).await;
    let found = async |shard: Shard, until: Timestamp, known: &[MerchantId]| {
        store.queue_due(&[shard], DueTime::by(until), known, 10).await.unwrap()
    };
    let own = Shard::of(merchant);
    let expected = [DueMerchant { merchant_id: merchant, due_at: at(10) }];
    assert_eq!(found(own, at(10), &[]).await, expected);
    assert_eq!(found(own, at(9), &[]).await, []);
    assert_eq!(found(own, at(10), &[merchant]).await, []);
    assert_eq!(found(Shard((own.0 + 1) % SHARDS), at(10), &[]).await, []);
}

/// The time follows when a delivery is enqueued, retried, delivered, dead, requeued or cleared.
pub async fn the_time_a_merchant_is_due_follows_its_deliveries(store: &dyn Store) {
    let merchant = merchant(store).await;
    put_endpoint(store, merchant, &endpoint(b"s")).await;
    assert_eq!(due(store, merchant).await, None);
    let late = notified(store, merchant, at(20)).await;
    let early = notified(store, merchant, at(10)).await;
    assert_eq!(due(store, merchant).await, Some(at(10)));

    let policy = RetryPolicy::default();
    let failed = DeliveryEvent::Failed { response_status: None, error: "timeout".to_owned() };
    let mut retried = listed(&early);
    retried.apply(failed, at(30), &policy).unwrap();
    record_states(store, merchant, std::slice::from_ref(&retried)).await;
    assert_eq!(due(store, merchant).await, Some(at(20)));
    let mut delivered = listed(&late);
    delivered.apply(DeliveryEvent::Answered { response_status: 200 }, at(31), &policy).unwrap();
    record_states(store, merchant, &[delivered]).await;
    assert_eq!(due(store, merchant).await, Some(at(90)), "the retry");
    retried.apply(DeliveryEvent::EndpointGone, at(32), &policy).unwrap();
    record_states_at(store, merchant, &[retried], at(90)).await;
    assert_eq!(due(store, merchant).await, Some(at(90)), "not written for every row that is sent");
    refresh(store, merchant, at(90).plus(DUE_LAG)).await;
    assert_eq!(due(store, merchant).await, Some(at(90)), "and until the lag is over");
    refresh(store, merchant, at(92)).await;
    assert_eq!(due(store, merchant).await, None, "nothing is left");
    requeue(store, merchant, early.delivery_id, at(40)).await.unwrap();
    assert_eq!(due(store, merchant).await, Some(at(40)));
    clear_endpoint(store, merchant, at(41)).await;
    assert_eq!(due(store, merchant).await, None);
}

/// A clock that stepped forward for a while has left a time that no wait can give: it counts as due. When the
/// delivery has been sent nothing is left of that time.
pub async fn what_is_due_later_than_anybody_waits_counts_as_due(store: &dyn Store) {
    let merchant = merchant(store).await;
    let far = notified(store, merchant, at(90_000)).await;
    let later = notified(store, merchant, at(90_001)).await;
    let shards = [Shard::of(merchant)];
    let asks = [Ask { merchant_id: merchant, number: 1 }];
    let now = DueTime { by: at(10), beyond: at(4_000) };
    let known = DueMerchant { merchant_id: merchant, due_at: at(90_000) };
    assert_eq!(store.queue_due(&shards, now, &[], 10).await.unwrap(), [known]);
    assert_eq!(store.queue_due(&shards, now, &[merchant], 10).await.unwrap(), []);
    let found = async |due| ids(&store.queue_claim(&asks, &[], due).await.unwrap().found);
    assert_eq!(found(now).await, [far.delivery_id]);
    let taken = store.queue_claim(&asks, &[far.delivery_id], now).await.unwrap();
    assert_eq!(ids(&taken.found), [later.delivery_id]);
    // What is due in the ordinary way comes first.
    let due_now = notified(store, merchant, at(9)).await;
    assert_eq!(found(now).await, [due_now.delivery_id]);
    let waits = DueTime { by: at(8), beyond: at(90_001) };
    assert_eq!(store.queue_due(&shards, waits, &[], 10).await.unwrap(), []);
    assert_eq!(found(waits).await, []);

    let policy = RetryPolicy::default();
    for new in [&due_now, &far] {
        let mut delivered = listed(new);
        delivered.apply(DeliveryEvent::Answered { response_status: 200 }, at(11), &policy).unwrap();
        record_states_at(store, merchant, &[delivered], at(11)).await;
    }
    assert_eq!(due(store, merchant).await, Some(at(90_001)));
    let mut retried = listed(&later);
    let failed = DeliveryEvent::Failed { response_status: None, error: "timeout".to_owned() };
    retried.apply(failed, at(12), &policy).unwrap();
    record_states_at(store, merchant, &[retried.clone()], at(12)).await;
    assert_eq!(due(store, merchant).await, Some(at(72)), "the retry waits as any other");
    retried.apply(DeliveryEvent::Answered { response_status: 200 }, at(13), &policy).unwrap();
    record_states_at(store, merchant, &[retried], at(13)).await;
    assert_eq!(due(store, merchant).await, None, "nothing is left");
}

/// One transaction enqueues two deliveries and records that one is delivered: the other is due.
pub async fn a_merchant_is_due_for_what_came_with_an_outcome(store: &dyn Store) {
    let merchant = merchant(store).await;
    enqueue_with_an_outcome(store, merchant).await;
    assert_eq!(due(store, merchant).await, Some(at(7)));
    let depth = store.queue_depth().await.unwrap();
    assert_eq!((depth.pending, depth.dead, depth.first_due_at), (1, 0, Some(at(7))));
}

/// Also when another delivery waits for later.
pub async fn a_merchant_is_due_for_what_came_before_what_waits(store: &dyn Store) {
    let merchant = merchant(store).await;
    enqueue(store, &[delivery(merchant, at(100))]).await;
    enqueue_with_an_outcome(store, merchant).await;
    assert!(due(store, merchant).await.is_some_and(|due| due <= at(7)));
}

/// In one transaction: two deliveries become due, at 5 and at 7, and the first one is delivered.
async fn enqueue_with_an_outcome(store: &dyn Store, merchant: MerchantId) {
    let (sent, waits) = (delivery(merchant, at(5)), delivery(merchant, at(7)));
    let mut delivered = listed(&sent);
    delivered
        .apply(DeliveryEvent::Answered { response_status: 200 }, at(8), &RetryPolicy::default())
        .unwrap();
    let state = DeliveryState { merchant_id: merchant, seen: (&listed(&sent)).into(), delivery: delivered };
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    tx.delivery_enqueue_many(&lock, &[sent, waits]).await.unwrap();
    // The same outcome twice counts once.
    assert_eq!(tx.delivery_record_many(&lock, &[state.clone(), state], at(9)).await.unwrap().len(), 1);
    tx.commit().await.unwrap();
}

/// A claim gives the delivery, its settlement and the merchant's present secret.
pub async fn a_claim_gives_what_an_attempt_needs(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    put_endpoint(store, merchant, &endpoint(b"first")).await;
    put_endpoint(store, merchant, &endpoint(b"second")).await;
    let new = notified(store, merchant, at(10)).await;
    notified(store, other, at(10)).await;
    let claimed = claim(store, merchant, 8, &[], at(10)).await;
    let told = settlement(merchant, new.settlement_id, at(10));
    let expected = Claimed {
        merchant_id: merchant,
        delivery: listed(&new),
        record: told.record,
        secret: Some(endpoint(b"second").secret),
    };
    assert_eq!(claimed, [expected]);
    assert_eq!(claim(store, other, 8, &[], at(10)).await[0].secret, None, "it has no endpoint");
}

/// A claim gives as many as asked for, first due first, without those in flight and those due later.
pub async fn a_claim_takes_the_first_due(store: &dyn Store) {
    let (merchant, other) = (merchant(store).await, merchant(store).await);
    let mut new = Vec::new();
    for second in [40, 10, 30, 20] {
        new.push(notified(store, merchant, at(second)).await);
    }
    let [d, a, c, b] = [0, 1, 2, 3].map(|position: usize| new[position].delivery_id);
    let now = at(30);
    assert_eq!(ids(&claim(store, merchant, 8, &[], now).await), [a, b, c]);
    assert_eq!(ids(&claim(store, merchant, 2, &[], now).await), [a, b]);
    assert_eq!(ids(&claim(store, merchant, 2, &[a, c], now).await), [b]);
    assert_eq!(ids(&claim(store, merchant, 1, &[a, b, c], at(40)).await), [d]);
    let another = notified(store, other, at(5)).await.delivery_id;
    let asks = [(merchant, 1), (other, 4)].map(|(merchant_id, number)| Ask { merchant_id, number });
    let mut both = ids(&store.queue_claim(&asks, &[], DueTime::by(now)).await.unwrap().found);
    both.sort();
    let mut expected = vec![a, another];
    expected.sort();
    assert_eq!(both, expected, "each merchant has a limit of its own");
}

/// A claim leaves out delivered and dead deliveries.
pub async fn a_claim_takes_only_what_is_pending(store: &dyn Store) {
    let merchant = merchant(store).await;
    let (done, ended) = (notified(store, merchant, at(1)).await, notified(store, merchant, at(2)).await);
    let policy = RetryPolicy::default();
    let (mut delivered, mut dead) = (listed(&done), listed(&ended));
    delivered.apply(DeliveryEvent::Answered { response_status: 200 }, at(3), &policy).unwrap();
    dead.apply(DeliveryEvent::EndpointGone, at(3), &policy).unwrap();
    record_states(store, merchant, &[delivered, dead]).await;
    assert_eq!(claim(store, merchant, 8, &[], Timestamp::MAX).await, []);
    requeue(store, merchant, ended.delivery_id, at(9)).await.unwrap();
    assert_eq!(ids(&claim(store, merchant, 8, &[], at(9)).await), [ended.delivery_id]);
}

/// The depth counts the deliveries of all merchants.
pub async fn depth_counts_what_waits(store: &dyn Store) {
    let (one, two) = (merchant(store).await, merchant(store).await);
    let empty = store.queue_depth().await.unwrap();
    assert_eq!((empty.pending, empty.dead, empty.first_due_at), (0, 0, None));
    let ended = notified(store, one, at(1)).await;
    notified(store, one, at(7)).await;
    notified(store, two, at(5)).await;
    let mut dead = listed(&ended);
    dead.apply(DeliveryEvent::EndpointGone, at(8), &RetryPolicy::default()).unwrap();
    record_states(store, one, &[dead]).await;
    let depth = store.queue_depth().await.unwrap();
    assert_eq!((depth.pending, depth.dead, depth.first_due_at), (2, 1, Some(at(5))));
}

/// Renews the lease of a keeper, and commits.
pub async fn lease(store: &dyn Store, keeper: KeeperId, lease: Duration) -> Leases {
    let mut tx = store.begin().await.unwrap();
    let leases = tx.queue_lease(keeper, Duty::Dispatch, lease).await.unwrap();
    tx.commit().await.unwrap();
    leases
}

/// The shards of those given leases that still hold.
pub async fn fenced(store: &dyn Store, leases: &[ShardLease]) -> Vec<Shard> {
    let held = store.begin().await.unwrap().queue_fence(leases).await.unwrap();
    assert!(held.iter().all(|lease| leases.contains(lease)));
    let mut shards: Vec<Shard> = held.into_iter().map(|lease| lease.shard).collect();
    shards.sort();
    shards
}

/// It keeps them all under the same tokens as long as it renews.
pub async fn a_lone_keeper_holds_every_shard(store: &dyn Store) {
    let keeper = unique_keeper_id();
    let _presence = store.presence(keeper, Duty::Dispatch).await.unwrap().expect("nobody else is there");
    let leases = lease(store, keeper, LEASE).await;
    assert_eq!(leases.share, leases.held.len());
    assert_eq!(fenced(store, &leases.held).await, Shard::all().collect::<Vec<_>>());
    let mut renewed = lease(store, keeper, LEASE).await;
    renewed.held.sort_by_key(|lease| lease.shard);
    let mut held = leases.held;
    held.sort_by_key(|lease| lease.shard);
    assert_eq!(renewed.held, held);
}

/// Whoever holds every shard for one duty leaves every shard of the other one free.
pub async fn duties_have_leases_of_their_own(store: &dyn Store) {
    let (sends, settles) = (unique_keeper_id(), unique_keeper_id());
    let _sending = store.presence(sends, Duty::Dispatch).await.unwrap().expect("nobody else sends");
    let _settling = store.presence(settles, Duty::Engine).await.unwrap().expect("nobody else settles");
    let sending = lease(store, sends, LEASE).await;
    let mut tx = store.begin().await.unwrap();
    let settling = tx.queue_lease(settles, Duty::Engine, LEASE).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!((sending.share, settling.share), (sending.held.len(), settling.held.len()));
    for held in [&sending.held, &settling.held] {
        assert_eq!(fenced(store, held).await, Shard::all().collect::<Vec<_>>());
    }
    let mut tx = store.begin().await.unwrap();
    tx.queue_release(&settling.held).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fenced(store, &settling.held).await, []);
    assert_eq!(fenced(store, &sending.held).await.len(), sending.held.len());
}

/// Its shards get new tokens, and its old tokens no longer prove anything.
pub async fn a_dead_keeper_is_replaced_at_once(store: &dyn Store) {
    let (dead, next) = (unique_keeper_id(), unique_keeper_id());
    let presence = store.presence(dead, Duty::Dispatch).await.unwrap().expect("nobody else is there");
    let before = lease(store, dead, LEASE).await;
    drop(presence);
    let mut looks = 0;
    let _presence = loop {
        looks += 1;
        assert!(looks < LOOKS_MAX, "the dead keeper's sign stays");
        if let Some(presence) = store.presence(next, Duty::Dispatch).await.unwrap()
            && lease(store, next, LEASE).await.held.len() == before.held.len()
        {
            break presence;
        }
    };
    assert_eq!(fenced(store, &before.held).await, []);
    let after = lease(store, next, LEASE).await;
    assert_eq!(fenced(store, &after.held).await.len(), before.held.len());
}

/// Released shards belong to nobody until a keeper takes them again.
pub async fn released_shards_are_free(store: &dyn Store) {
    let keeper = unique_keeper_id();
    let _presence = store.presence(keeper, Duty::Dispatch).await.unwrap().expect("nobody else is there");
    let leases = lease(store, keeper, LEASE).await;
    let (given, kept) = leases.held.split_at(3);
    let mut tx = store.begin().await.unwrap();
    tx.queue_release(given).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(fenced(store, given).await, []);
    assert_eq!(fenced(store, kept).await.len(), kept.len());
    assert_eq!(lease(store, keeper, LEASE).await.held.len(), leases.held.len(), "taken again");
    assert_eq!(fenced(store, given).await, [], "with new tokens");
}
