//! A transaction that may make deliveries due, and wakes whoever must know once it is committed.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::{Deref, DerefMut};

use settle_domain::delivery::Delivery;
use settle_domain::endpoint::Endpoint;
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::time::Timestamp;
use settle_store::{
    ALERT_QUIET, Claimed, MerchantLock, NewDelivery, NewSettlement, Occurrence, RecordedBatch, StoreError,
    StoreResult, Tx,
};

use crate::wake::{ClaimsEnded, HANDED_OVER_MAX, JustCommitted, Wake};
use crate::{Outbox, Wakes};

/// A transaction and what becomes due with its commit. Everything else that a transaction can write is
/// reached through it.
pub struct Work {
    tx: Box<dyn Tx>,
    outbox: Outbox,
    due: Due,
    /// Whether it has recorded a settlement that an import under way has with other content.
    is_reserved: bool,
}

/// What became of settlements that were to be recorded.
#[derive(Debug, Default)]
pub struct Completed {
    /// Those that were new, in the order given.
    pub recorded: Vec<(MerchantId, SettlementId)>,
    /// Those whose id the merchant already has, with other content, or that are payments. Whoever sees one
    /// does not commit.
    pub conflicting: Vec<(MerchantId, SettlementId)>,
    /// Those of the conflicting ones whose id or pay-in is a payment's.
    pub payments: Vec<(MerchantId, SettlementId)>,
    /// Those that an import has staged with other content; it may still be discarded. With one of them the
    /// transaction cannot be committed: trying again later may work.
    pub reserved: Vec<(MerchantId, SettlementId)>,
    /// Merchants who are notified of those that were new.
    pub notified: HashSet<MerchantId>,
    /// Notifications enqueued.
    pub notifications: usize,
}

/// What becomes due with a commit.
#[derive(Debug, Default)]
struct Due {
    merchants: BTreeSet<MerchantId>,
    /// What the dispatcher can send without reading it back, as long as it is few.
    deliveries: Vec<Claimed>,
}

impl Work {
    pub(crate) fn new(tx: Box<dyn Tx>, outbox: Outbox) -> Work {
        Work { tx, outbox, due: Due::default(), is_reserved: false }
    }

    /// Records completed settlements, at most [`BATCH_MAX`](settle_store::BATCH_MAX), without a word to their
    /// merchants.
    pub async fn record(
        &mut self,
        lock: &MerchantLock,
        settlements: &[NewSettlement],
    ) -> StoreResult<Completed> {
        let batch = self.tx.settlement_record_many(lock, settlements).await?;
        let RecordedBatch { recorded, conflicting, payments, reserved } = batch;
        self.is_reserved |= !reserved.is_empty();
        Ok(Completed { recorded, conflicting, payments, reserved, ..Completed::default() })
    }

    /// Records completed settlements and enqueues a notification of each new one whose merchant has an
    /// endpoint. If one is in conflict nothing is enqueued: the transaction is of no use any more.
    pub async fn complete(
        &mut self,
        lock: &MerchantLock,
        settlements: &[NewSettlement],
    ) -> StoreResult<Completed> {
        let mut completed = self.record(lock, settlements).await?;
        if completed.conflicting.is_empty() && completed.reserved.is_empty() {
            let endpoints = self.endpoints(lock, &completed.recorded).await?;
            let deliveries = self.deliveries(&completed.recorded, &endpoints);
            self.tx.delivery_enqueue_many(lock, &deliveries).await?;
            completed.notifications = deliveries.len();
            completed.notified = endpoints.keys().copied().collect();
            self.due.add(&deliveries, settlements, &endpoints);
        }
        Ok(completed)
    }

    /// Makes dead deliveries pending again, due at the given time. Gives those that were dead.
    pub async fn requeue(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let requeued = self.tx.delivery_requeue_many(lock, deliveries, at).await?;
        self.due.merchants.extend(requeued.iter().map(|(merchant, _)| *merchant));
        Ok(requeued)
    }

    /// Makes pending deliveries due at the given time that are due later. Gives those.
    pub async fn hasten(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>> {
        let hastened = self.tx.delivery_hasten_many(lock, deliveries, at).await?;
        self.due.merchants.extend(hastened.iter().map(|(merchant, _)| *merchant));
        Ok(hastened)
    }

    /// Tells operators what the transaction has learnt, once it is committed.
    pub async fn tell(&mut self, lock: &MerchantLock, occurrences: &[Occurrence]) -> StoreResult<()> {
        if occurrences.is_empty() {
            return Ok(());
        }
        let (clock, entropy) = (self.outbox.clock.clone(), self.outbox.entropy.clone());
        self.tx.alert_tell_many(Some(lock), occurrences, clock.now(), ALERT_QUIET, &*entropy).await
    }

    /// Commits, and wakes whoever must know of what has become due.
    pub async fn commit(self) -> StoreResult<()> {
        let Work { tx, outbox, due, is_reserved } = self;
        if is_reserved {
            let reserved = "an import under way has one of the settlements with other content";
            return Err(StoreError::Unavailable(reserved.into()));
        }
        #[cfg(feature = "testing")]
        outbox.faulty(|faults| faults.commits())?;
        match &outbox.wakes {
            Wakes::ThisProcess(wake) => {
                // Counted before the commit: a claim that ends later may have found what is committed now.
                let after = wake.claims_ended();
                tx.commit().await?;
                #[cfg(feature = "testing")]
                outbox.faulty(|faults| faults.committed())?;
                due.tell(wake, after);
            }
            Wakes::OtherProcesses => {
                tx.commit().await?;
                outbox.wake_others(&due.into_merchants()).await;
            }
        }
        Ok(())
    }

    /// Commits, and gives what the commit would have told the dispatcher: for a simulation, in which hints
    /// come late or not at all.
    #[cfg(feature = "testing")]
    pub async fn commit_untold(self, wake: &Wake) -> StoreResult<Untold> {
        let after = wake.claims_ended();
        self.tx.commit().await?;
        Ok(Untold { due: self.due, after })
    }

    async fn endpoints(
        &mut self,
        lock: &MerchantLock,
        recorded: &[(MerchantId, SettlementId)],
    ) -> StoreResult<HashMap<MerchantId, Endpoint>> {
        let merchants: BTreeSet<MerchantId> = recorded.iter().map(|(merchant, _)| *merchant).collect();
        let merchants: Vec<MerchantId> = merchants.into_iter().collect();
        Ok(self.tx.endpoint_find_locked(lock, &merchants).await?.into_iter().collect())
    }

    fn deliveries(
        &self,
        recorded: &[(MerchantId, SettlementId)],
        endpoints: &HashMap<MerchantId, Endpoint>,
    ) -> Vec<NewDelivery> {
        let now = self.outbox.clock.now();
        let new = recorded.iter().filter_map(|(merchant, settlement)| {
            let endpoint = endpoints.get(merchant)?;
            Some(NewDelivery {
                merchant_id: *merchant,
                delivery_id: DeliveryId::new(now, &*self.outbox.entropy),
                settlement_id: *settlement,
                event_type: EventType::SettlementCompleted,
                url: endpoint.url.clone(),
                created_at: now,
            })
        });
        new.collect()
    }
}

impl Deref for Work {
    type Target = dyn Tx;

    fn deref(&self) -> &Self::Target {
        &*self.tx
    }
}

impl DerefMut for Work {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.tx
    }
}

impl Due {
    /// Deliveries were enqueued. While they are few they are kept whole, with all that a claim would give.
    fn add(
        &mut self,
        deliveries: &[NewDelivery],
        settlements: &[NewSettlement],
        endpoints: &HashMap<MerchantId, Endpoint>,
    ) {
        if self.deliveries.len() + deliveries.len() > HANDED_OVER_MAX {
            self.merchants.extend(self.deliveries.drain(..).map(|claimed| claimed.merchant_id));
            self.merchants.extend(deliveries.iter().map(|new| new.merchant_id));
            return;
        }
        let records: HashMap<_, _> =
            settlements.iter().map(|row| ((row.merchant_id, row.settlement_id), &row.record)).collect();
        for new in deliveries {
            let merchant_id = new.merchant_id;
            let record = records.get(&(merchant_id, new.settlement_id));
            match (record, endpoints.get(&merchant_id)) {
                (Some(record), Some(endpoint)) => self.deliveries.push(Claimed {
                    merchant_id,
                    delivery: new.into(),
                    record: (*record).clone(),
                    secret: Some(endpoint.secret.clone()),
                }),
                _ => drop(self.merchants.insert(merchant_id)),
            }
        }
    }

    fn tell(self, wake: &Wake, after: ClaimsEnded) {
        let committed = |claimed| JustCommitted { claimed, after };
        wake.hand_over(self.deliveries.into_iter().map(committed).collect());
        wake.merchants(self.merchants);
    }

    fn into_merchants(self) -> Vec<MerchantId> {
        let mut merchants = self.merchants;
        merchants.extend(self.deliveries.iter().map(|claimed| claimed.merchant_id));
        merchants.into_iter().collect()
    }
}

/// What a commit has made due and nobody was told of yet.
#[cfg(feature = "testing")]
#[derive(Debug)]
pub struct Untold {
    due: Due,
    after: ClaimsEnded,
}

#[cfg(feature = "testing")]
impl Untold {
    /// The deliveries that would be handed over.
    pub fn deliveries(&self) -> impl Iterator<Item = DeliveryId> + '_ {
        self.due.deliveries.iter().map(|claimed| claimed.delivery.delivery_id)
    }

    /// Tells the dispatcher now.
    pub fn tell(self, wake: &Wake) {
        self.due.tell(wake, self.after);
    }
}
