//! A plain in-memory model of what lists show. Random operations must give the same answers here and in every
//! backend.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::sample::Index;
use settle_domain::delivery::{Delivery, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::endpoint::Endpoint;
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;

use super::fixtures::{
    at, endpoint, listed, page, refresh, settlement, settlements, unique_delivery_id, unique_uuid,
};
use crate::{
    Ask, ClearingStep, DUE_LAG, DeliveryState, DueTime, ListKey, Merchant, MerchantLock, NewDelivery,
    NewSettlement, QueueDepth, Seen, Shard, Store, Tx,
};

/// Merchants in one case.
const MERCHANTS: usize = 2;
/// Settlement ids of a merchant: few enough that some are recorded twice, enough to make several slices.
const SETTLEMENT_IDS: u128 = 900;
/// Merchants with clearings that are looked at: more than all cases make.
const CLEARINGS_MAX: u32 = 10_000;

/// One random operation on one merchant.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Settlements are recorded, and notified if the merchant has an endpoint.
    Record {
        /// The first id.
        from: u128,
        /// How many.
        number: u128,
    },
    /// An attempt at a delivery in any state.
    Attempt {
        /// Which of the merchant's deliveries.
        delivery: Index,
        /// The outcome.
        event: DeliveryEvent,
    },
    /// Somebody asks for a redelivery.
    Requeue {
        /// Which of the merchant's deliveries.
        delivery: Index,
    },
    /// An endpoint is set.
    Put {
        /// The sealed secret.
        secret: u8,
    },
    /// The endpoint is cleared.
    Clear {
        /// The most deliveries that end with it.
        ended_max: u32,
    },
    /// A step of the merchant's oldest clearing.
    ClearingStep {
        /// The most deliveries that end with it.
        ended_max: u32,
    },
}

/// An operation, its merchant, and whether its transaction is committed.
#[derive(Debug, Clone)]
pub struct Step {
    merchant: Index,
    operation: Operation,
    committed: bool,
}

/// Random steps.
pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let failed = |response_status| DeliveryEvent::Failed { response_status, error: "timeout".to_owned() };
    let event = prop_oneof![
        Just(DeliveryEvent::Answered { response_status: 200 }),
        Just(failed(None)),
        Just(failed(Some(500))),
    ];
    let operation = prop_oneof![
        4 => (0..SETTLEMENT_IDS, 1u128..300).prop_map(|(from, number)| Operation::Record { from, number }),
        6 => (any::<Index>(), event).prop_map(|(delivery, event)| Operation::Attempt { delivery, event }),
        2 => any::<Index>().prop_map(|delivery| Operation::Requeue { delivery }),
        2 => any::<u8>().prop_map(|secret| Operation::Put { secret }),
        1 => (0..8u32).prop_map(|ended_max| Operation::Clear { ended_max }),
        1 => (1..8u32).prop_map(|ended_max| Operation::ClearingStep { ended_max }),
    ];
    let step = (any::<Index>(), operation, prop::bool::weighted(0.8))
        .prop_map(|(merchant, operation, committed)| Step { merchant, operation, committed });
    prop::collection::vec(step, 1..25)
}

/// One merchant's rows.
#[derive(Debug, Clone, Default)]
struct Holdings {
    settlements: BTreeMap<ListKey, Record>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
    endpoint: Option<Endpoint>,
    /// The oldest first.
    clearings: VecDeque<Clearing>,
}

/// Deliveries that are pending but wait for their end alone.
#[derive(Debug, Clone)]
struct Clearing {
    cleared_at: Timestamp,
    /// In the order in which they were due.
    waiting: VecDeque<DeliveryId>,
}

impl Holdings {
    /// Whether it is one of those that wait for their end alone.
    fn is_left(&self, delivery: DeliveryId) -> bool {
        self.clearings.iter().any(|clearing| clearing.waiting.contains(&delivery))
    }

    /// Those that are pending and can be sent.
    fn sendable(&self) -> impl Iterator<Item = &Delivery> {
        let is_sendable =
            |row: &&Delivery| row.status == DeliveryStatus::Pending && !self.is_left(row.delivery_id);
        self.deliveries.values().filter(is_sendable)
    }

    /// Ends the first deliveries of a clearing.
    fn end(&mut self, clearing: &mut Clearing, ended_max: u32) -> ClearingStep {
        let number = clearing.waiting.len().min(ended_max as usize);
        for id in clearing.waiting.drain(..number) {
            let row = self.deliveries.get_mut(&id).unwrap();
            row.apply(DeliveryEvent::EndpointGone, clearing.cleared_at, &RetryPolicy::default()).unwrap();
        }
        ClearingStep { ended: number as u64, left: clearing.waiting.len() as u64 }
    }
}

/// The model after the steps so far, and the stores that must agree with it.
struct Run<'a> {
    stores: &'a [&'a dyn Store],
    merchants: Vec<MerchantId>,
    model: BTreeMap<MerchantId, Holdings>,
    /// What each store held before: other runs may have used it.
    before: Vec<QueueDepth>,
    clock: u64,
}

/// Takes the steps on every store and on the model, and compares the lists after each.
pub async fn agree(stores: &[&dyn Store], steps: &[Step]) {
    let merchants: Vec<MerchantId> = (0..MERCHANTS).map(|_| MerchantId(unique_uuid())).collect();
    for store in stores {
        let mut tx = store.begin().await.unwrap();
        for merchant_id in &merchants {
            let merchant =
                Merchant { merchant_id: *merchant_id, name: "model".to_owned(), created_at: at(0) };
            tx.merchant_create(&merchant).await.unwrap();
        }
        tx.commit().await.unwrap();
    }
    let model = merchants.iter().map(|merchant| (*merchant, Holdings::default())).collect();
    let mut before = Vec::new();
    for store in stores {
        before.push(store.queue_depth().await.unwrap());
    }
    let mut run = Run { stores, merchants, model, before, clock: 10_000 };
    for step in steps {
        run.clock += 1;
        run.take(step).await;
        run.compare().await;
    }
}

impl Run<'_> {
    async fn take(&mut self, step: &Step) {
        let merchant = *step.merchant.get(&self.merchants);
        let effect = self.effect(merchant, &step.operation);
        for store in self.stores {
            let mut tx = store.begin().await.unwrap();
            let lock = tx.merchant_lock(&[merchant]).await.unwrap();
            assert_eq!(lock.merchants(), [merchant]);
            effect.write(&mut *tx, &lock, merchant).await;
            if step.committed {
                tx.commit().await.unwrap();
            }
        }
        if step.committed {
            self.model.insert(merchant, effect.after);
        }
    }

    /// The write that an operation makes, the answer that a store must give, and the merchant's rows
    /// afterwards.
    fn effect(&self, merchant: MerchantId, operation: &Operation) -> Effect {
        let mut after = self.model[&merchant].clone();
        let write = match operation {
            Operation::Record { from, number } => return self.record(merchant, *from, *number),
            Operation::Attempt { delivery, event } => self.attempt(merchant, &mut after, *delivery, event),
            Operation::Requeue { delivery } => self.requeue(&mut after, *delivery),
            Operation::Put { secret } => {
                let endpoint = endpoint(&[*secret]);
                after.endpoint = Some(endpoint.clone());
                Write::Put(endpoint)
            }
            Operation::Clear { ended_max } => self.clear(&mut after, *ended_max),
            Operation::ClearingStep { ended_max } => clearing_step(&mut after, *ended_max),
        };
        Effect { write, after }
    }

    fn attempt(
        &self,
        merchant: MerchantId,
        after: &mut Holdings,
        delivery: Index,
        event: &DeliveryEvent,
    ) -> Write {
        let Some(id) = pick(after, delivery).map(|row| row.delivery_id) else {
            return Write::States { states: Vec::new(), changed: Vec::new() };
        };
        let is_left = after.is_left(id);
        let row = after.deliveries.get_mut(&id).unwrap();
        let seen = Seen::from(&*row);
        let applied = !is_left && row.apply(event.clone(), at(self.clock), &RetryPolicy::default()).is_ok();
        let mut state = row.clone();
        if !applied {
            // A late outcome of an attempt that no longer counts: the store must not record it.
            state.attempts += 1;
        }
        let changed = if applied { vec![state.delivery_id] } else { Vec::new() };
        Write::States {
            states: vec![DeliveryState { merchant_id: merchant, seen, delivery: state }],
            changed,
        }
    }

    fn requeue(&self, after: &mut Holdings, delivery: Index) -> Write {
        let (mut id, mut requeued) = (DeliveryId(unique_uuid()), None);
        if let Some(row) = pick(after, delivery) {
            id = row.delivery_id;
            let asked = row.apply(DeliveryEvent::RedeliveryAsked, at(self.clock), &RetryPolicy::default());
            requeued = asked.is_ok().then(|| row.clone());
        }
        Write::Requeue { id, at_second: self.clock, requeued }
    }

    fn clear(&self, after: &mut Holdings, ended_max: u32) -> Write {
        after.endpoint = None;
        let mut waiting: Vec<_> =
            after.sendable().map(|row| (row.next_attempt_at, row.delivery_id)).collect();
        waiting.sort_unstable();
        let waiting = waiting.into_iter().map(|(_, id)| id).collect();
        let mut clearing = Clearing { cleared_at: at(self.clock), waiting };
        let step = after.end(&mut clearing, ended_max);
        if step.left > 0 {
            after.clearings.push_back(clearing);
        }
        Write::Clear { ended_max, at_second: self.clock, step }
    }

    fn record(&self, merchant: MerchantId, from: u128, number: u128) -> Effect {
        let mut after = self.model[&merchant].clone();
        let ids = (from..from + number).map(|id| SettlementId(uuid::Uuid::from_u128(id)));
        // The id determines the time, so that recording an id again has the same content. The times are not
        // in the order of the ids.
        let time = |id: SettlementId| at(u64::try_from(id.0.as_u128() * 7_919 % 101).unwrap());
        let settlements: Vec<NewSettlement> = ids.map(|id| settlement(merchant, id, time(id))).collect();
        let mut recorded = Vec::new();
        let mut deliveries = Vec::new();
        for settlement in &settlements {
            if after.settlements.insert(settlement.list_key, settlement.record.clone()).is_some() {
                continue;
            }
            recorded.push((merchant, settlement.settlement_id));
            if let Some(endpoint) = after.endpoint.as_ref().filter(|_| recorded.len() <= 5) {
                let new = NewDelivery {
                    merchant_id: merchant,
                    delivery_id: unique_delivery_id(at(self.clock)),
                    settlement_id: settlement.settlement_id,
                    event_type: EventType::SettlementCompleted,
                    url: endpoint.url.clone(),
                    created_at: at(self.clock),
                };
                after.deliveries.insert(new.delivery_id, listed(&new));
                deliveries.push(new);
            }
        }
        Effect { write: Write::Record { settlements, recorded, deliveries }, after }
    }

    async fn compare(&self) {
        for (merchant, holdings) in &self.model {
            let records: Vec<&Record> = holdings.settlements.values().rev().collect();
            for store in self.stores {
                compare_settlements(*store, *merchant, &records).await;
                compare_deliveries(*store, *merchant, holdings).await;
                compare_queue(*store, *merchant, holdings).await;
                compare_clearings(*store, *merchant, holdings).await;
                assert_eq!(store.endpoint_find(*merchant).await.unwrap(), holdings.endpoint);
            }
        }
        let with = |status: DeliveryStatus| {
            let rows = self.model.values().flat_map(|holdings| holdings.deliveries.values());
            u64::try_from(rows.filter(|row| row.status == status).count()).unwrap()
        };
        for (store, before) in self.stores.iter().zip(&self.before) {
            let depth = store.queue_depth().await.unwrap();
            assert_eq!(depth.pending - before.pending, with(DeliveryStatus::Pending));
            assert_eq!(depth.dead - before.dead, with(DeliveryStatus::Dead));
        }
    }
}

async fn compare_settlements(store: &dyn Store, merchant: MerchantId, records: &[&Record]) {
    for (limit, offset) in [(200, 0), (7, 127), (7, 128), (50, 300), (200, 513), (50, 10_000)] {
        let found = settlements(store, merchant, limit, offset).await;
        let expected = slice(records, limit, offset);
        assert_eq!(found.rows.iter().collect::<Vec<_>>(), expected, "limit {limit}, offset {offset}");
        assert_eq!(found.total, u64::try_from(records.len()).unwrap());
    }
}

async fn compare_deliveries(store: &dyn Store, merchant: MerchantId, holdings: &Holdings) {
    for status in
        [None, Some(DeliveryStatus::Pending), Some(DeliveryStatus::Delivered), Some(DeliveryStatus::Dead)]
    {
        let mut rows: Vec<&Delivery> = holdings
            .deliveries
            .values()
            .filter(|row| status.is_none_or(|status| row.status == status))
            .collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.created_at, row.delivery_id)));
        for (limit, offset) in [(200, 0), (3, 5)] {
            let found = store.delivery_page(merchant, status, page(limit, offset)).await.unwrap();
            assert_eq!(found.rows.iter().collect::<Vec<_>>(), slice(&rows, limit, offset), "{status:?}");
            assert_eq!(found.total, u64::try_from(rows.len()).unwrap(), "{status:?}");
        }
    }
}

/// A claim gives what can be sent and nothing else, and a merchant is named while it has a clearing.
async fn compare_clearings(store: &dyn Store, merchant: MerchantId, holdings: &Holdings) {
    let asks = [Ask { merchant_id: merchant, number: 1_000 }];
    let claimed = store.queue_claim(&asks, &[], DueTime::by(Timestamp::MAX)).await.unwrap().found;
    let claimed: BTreeSet<DeliveryId> = claimed.iter().map(|claimed| claimed.delivery.delivery_id).collect();
    assert_eq!(claimed, holdings.sendable().map(|row| row.delivery_id).collect());
    let left = store.clearing_left(CLEARINGS_MAX).await.unwrap();
    assert_eq!(left.merchants.contains(&merchant), !holdings.clearings.is_empty());
}

/// A merchant counts as due when its first pending delivery is due, or up to [`DUE_LAG`] earlier. One with
/// nothing left may count as due until `queue_refresh`.
async fn compare_queue(store: &dyn Store, merchant: MerchantId, holdings: &Holdings) {
    let first = holdings.sendable().map(|row| row.next_attempt_at).min();
    let due_at = async || {
        let due =
            store.queue_due(&[Shard::of(merchant)], DueTime::by(Timestamp::MAX), &[], 1_000).await.unwrap();
        due.into_iter().find(|due| due.merchant_id == merchant).map(|due| due.due_at)
    };
    assert!(due_at().await.is_some() || first.is_none());
    refresh(store, merchant, Timestamp::MAX).await;
    let due = due_at().await;
    assert_eq!(due.is_some(), first.is_some());
    if let Some((due, first)) = due.zip(first) {
        assert!(due <= first && first <= due.plus(DUE_LAG), "due at {due}, its first at {first}");
    }
}

fn clearing_step(after: &mut Holdings, ended_max: u32) -> Write {
    let mut step = ClearingStep::default();
    if let Some(mut oldest) = after.clearings.pop_front() {
        step = after.end(&mut oldest, ended_max);
        if step.left > 0 {
            after.clearings.push_front(oldest);
        }
    }
    Write::ClearingStep { ended_max, step }
}

fn slice<'r, T>(rows: &[&'r T], limit: u32, offset: u32) -> Vec<&'r T> {
    let (limit, offset) = (usize::try_from(limit).unwrap(), usize::try_from(offset).unwrap());
    rows.iter().skip(offset).take(limit).copied().collect()
}

fn pick(holdings: &mut Holdings, delivery: Index) -> Option<&mut Delivery> {
    let length = holdings.deliveries.len();
    if length == 0 { None } else { holdings.deliveries.values_mut().nth(delivery.index(length)) }
}

/// A write with the answer that it must get, and the merchant's rows afterwards.
struct Effect {
    write: Write,
    after: Holdings,
}

enum Write {
    Record {
        settlements: Vec<NewSettlement>,
        recorded: Vec<(MerchantId, SettlementId)>,
        deliveries: Vec<NewDelivery>,
    },
    States {
        states: Vec<DeliveryState>,
        changed: Vec<DeliveryId>,
    },
    Requeue {
        id: DeliveryId,
        at_second: u64,
        requeued: Option<Delivery>,
    },
    Put(Endpoint),
    Clear {
        ended_max: u32,
        at_second: u64,
        step: ClearingStep,
    },
    ClearingStep {
        ended_max: u32,
        step: ClearingStep,
    },
}

impl Effect {
    async fn write(&self, tx: &mut dyn Tx, lock: &MerchantLock, merchant: MerchantId) {
        match &self.write {
            Write::Record { settlements, recorded, deliveries } => {
                let batch = tx.settlement_record_many(lock, settlements).await.unwrap();
                assert_eq!((&batch.recorded, batch.conflicting.len()), (recorded, 0));
                tx.delivery_enqueue_many(lock, deliveries).await.unwrap();
            }
            Write::States { states, changed } => {
                assert_eq!(&tx.delivery_record_many(lock, states, at(0)).await.unwrap(), changed);
            }
            Write::Requeue { id, at_second, requeued } => {
                assert_eq!(
                    &tx.delivery_requeue(lock, merchant, *id, at(*at_second)).await.unwrap(),
                    requeued
                );
            }
            Write::Put(endpoint) => tx.endpoint_put(lock, merchant, endpoint).await.unwrap(),
            Write::Clear { ended_max, at_second, step } => {
                let cleared = tx.endpoint_clear(lock, merchant, at(*at_second), *ended_max).await;
                assert_eq!(cleared.unwrap(), *step);
            }
            Write::ClearingStep { ended_max, step } => {
                assert_eq!(tx.clearing_step(lock, merchant, *ended_max).await.unwrap(), *step);
            }
        }
    }
}
