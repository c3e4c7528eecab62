//! Notification deliveries: the log a merchant reads, and the queue the dispatcher works on.

use async_trait::async_trait;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::page::{Page, PageRequest};
use settle_domain::time::Timestamp;
use uuid::Uuid;

use crate::{MerchantLock, StoreResult};

/// A delivery to be enqueued: pending, no attempt made, due at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// Whose endpoint it goes to.
    pub merchant_id: MerchantId,
    /// Which delivery. Made at the time at which it is enqueued: the log is in the order of these ids.
    pub delivery_id: DeliveryId,
    /// The settlement it tells of.
    pub settlement_id: SettlementId,
    /// What happened to it.
    pub event_type: EventType,
    /// The endpoint, frozen.
    pub url: String,
    /// When it is enqueued.
    pub created_at: Timestamp,
}

/// What the log shows of it once it is enqueued.
impl From<&NewDelivery> for Delivery {
    fn from(new: &NewDelivery) -> Delivery {
        Delivery {
            delivery_id: new.delivery_id,
            settlement_id: new.settlement_id,
            event_type: new.event_type,
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
}

/// Where a delivery stands after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryState {
    /// Whose it is.
    pub merchant_id: MerchantId,
    /// What was seen of the delivery before the attempt.
    pub seen: Seen,
    /// The delivery after the attempt; its frozen parts are not written.
    pub delivery: Delivery,
}

/// What tells whether a pending delivery has changed: every attempt and every redelivery changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Attempts made.
    pub attempts: i32,
    /// When the next was due.
    pub next_attempt_at: Timestamp,
}

impl From<&Delivery> for Seen {
    fn from(delivery: &Delivery) -> Seen {
        Seen { attempts: delivery.attempts, next_attempt_at: delivery.next_attempt_at }
    }
}

/// Which deliveries an operator looks for, over all merchants. What is not named does not narrow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// Whose.
    pub merchant: Option<MerchantId>,
    /// Of which status.
    pub status: Option<DeliveryStatus>,
    /// Enqueued then or later.
    pub since: Option<Timestamp>,
    /// What the endpoint's URL starts with.
    pub url: Option<String>,
}

/// A place in the order of a search. Nothing that happens to a delivery moves it, so that whoever goes on
/// from where the last page ended meets each delivery once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryCursor {
    /// Which delivery.
    pub delivery_id: DeliveryId,
    /// Whose it is.
    pub merchant_id: MerchantId,
}

impl DeliveryCursor {
    /// Before everything: where a search without a place begins.
    pub const START: DeliveryCursor =
        DeliveryCursor { delivery_id: DeliveryId(Uuid::max()), merchant_id: MerchantId(Uuid::max()) };

    /// The place of a delivery that was found.
    #[must_use]
    pub fn at((merchant_id, delivery): &(MerchantId, Delivery)) -> DeliveryCursor {
        DeliveryCursor { delivery_id: delivery.delivery_id, merchant_id: *merchant_id }
    }
}

/// Questions about deliveries.
#[async_trait]
pub trait DeliveryReads {
    /// A page of a merchant's delivery log, newest first, of one status or of all.
    async fn delivery_page(
        &self,
        merchant: MerchantId,
        status: Option<DeliveryStatus>,
        page: PageRequest,
    ) -> StoreResult<Page<Delivery>>;

    /// An operator's view: deliveries of all merchants that match, newest first, from the first one after the
    /// given place.
    async fn delivery_search(
        &self,
        filter: &DeliveryFilter,
        after: Option<DeliveryCursor>,
        limit: u32,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>>;

    /// How many deliveries match, for each merchant that has any, in the order of their ids.
    async fn delivery_count(&self, filter: &DeliveryFilter) -> StoreResult<Vec<(MerchantId, u64)>>;

    /// The deliveries with the given ids, for an operator who does not know whose they are.
    async fn delivery_find_many(&self, deliveries: &[DeliveryId])
    -> StoreResult<Vec<(MerchantId, Delivery)>>;
}

/// Changes to deliveries.
#[async_trait]
pub trait DeliveryWrites: Send {
    /// Enqueues deliveries.
    async fn delivery_enqueue_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[NewDelivery],
    ) -> StoreResult<()>;

    /// Stores where deliveries stand after an attempt; only those that are pending and as they were seen are
    /// changed, and given.
    async fn delivery_record_many(
        &mut self,
        lock: &MerchantLock,
        states: &[DeliveryState],
        at: Timestamp,
    ) -> StoreResult<Vec<DeliveryId>>;

    /// Makes dead deliveries pending again, their counters at 0 and due now. Gives those that were changed:
    /// what the merchant does not have, or is not dead, is left out.
    async fn delivery_requeue_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>>;

    /// The same for one. `None` when the merchant has no such delivery, or it is not dead.
    async fn delivery_requeue(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        delivery: DeliveryId,
        at: Timestamp,
    ) -> StoreResult<Option<Delivery>> {
        let requeued = self.delivery_requeue_many(lock, &[(merchant, delivery)], at).await?;
        Ok(requeued.into_iter().next().map(|(_, delivery)| delivery))
    }
}
