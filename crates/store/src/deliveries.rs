//! Notification deliveries: the log that a merchant reads, and the queue that the dispatcher works on.
//!
//! The log is in the order of the delivery ids, which carry their time (see [`settle_domain::ids`]). Its
//! pages skip rows one by one, up to the largest offset: rows change status, and keeping slices per status
//! would cost every delivery more than it saves the rare deep page.

use async_trait::async_trait;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, MerchantId, SettlementId};
use settle_domain::page::{Page, PageRequest};
use settle_domain::time::Timestamp;
use uuid::Uuid;

use crate::{MerchantLock, StoreResult};

/// A delivery to enqueue: pending, no attempt made, due at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDelivery {
    /// The merchant whose endpoint it goes to.
    pub merchant_id: MerchantId,
    /// The delivery's id, made at `created_at`: the log is in the order of these ids.
    pub delivery_id: DeliveryId,
    /// The settlement that it reports.
    pub settlement_id: SettlementId,
    /// What happened to the settlement.
    pub event_type: EventType,
    /// The endpoint at this time; later changes do not apply to it.
    pub url: String,
    /// When it is enqueued.
    pub created_at: Timestamp,
}

/// The delivery as the log shows it after it is enqueued.
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

/// A delivery after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryState {
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
    /// The delivery as the claim saw it before the attempt.
    pub seen: Seen,
    /// The delivery after the attempt; the store writes only the fields that an attempt changes.
    pub delivery: Delivery,
}

/// Two fields that show whether a pending delivery changed: every attempt and every redelivery changes one of
/// them.
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

/// An operator's filter over the deliveries of all merchants. A field that is `None` filters nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryFilter {
    /// The merchant they belong to.
    pub merchant: Option<MerchantId>,
    /// Their status.
    pub status: Option<DeliveryStatus>,
    /// Only those enqueued at this time or later.
    pub since: Option<Timestamp>,
    /// The start of the endpoint's URL.
    pub url: Option<String>,
}

/// A place in the order of a search. Nothing that happens to a delivery moves it, so a search that continues
/// from the end of the last page finds each delivery once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryCursor {
    /// The delivery's id.
    pub delivery_id: DeliveryId,
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
}

impl DeliveryCursor {
    /// Before every delivery: the start of a search.
    pub const START: DeliveryCursor =
        DeliveryCursor { delivery_id: DeliveryId(Uuid::max()), merchant_id: MerchantId(Uuid::max()) };

    /// The place of a found delivery.
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

    /// Deliveries of all merchants that match an operator's filter, newest first, after the given place.
    async fn delivery_search(
        &self,
        filter: &DeliveryFilter,
        after: Option<DeliveryCursor>,
        limit: u32,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>>;

    /// How many deliveries match, for each merchant that has any, in the order of the merchants' ids.
    async fn delivery_count(&self, filter: &DeliveryFilter) -> StoreResult<Vec<(MerchantId, u64)>>;

    /// The deliveries with the given ids, for an operator who does not know their merchants.
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

    /// Records the outcomes of attempts. It changes, and gives, only deliveries that are pending and as the
    /// claim saw them.
    async fn delivery_record_many(
        &mut self,
        lock: &MerchantLock,
        states: &[DeliveryState],
        at: Timestamp,
    ) -> StoreResult<Vec<DeliveryId>>;

    /// Makes pending deliveries due now that are due later, and gives them. It leaves out deliveries that are
    /// not pending, not the merchant's, or left behind by an endpoint that was cleared.
    async fn delivery_hasten_many(
        &mut self,
        lock: &MerchantLock,
        deliveries: &[(MerchantId, DeliveryId)],
        at: Timestamp,
    ) -> StoreResult<Vec<(MerchantId, Delivery)>>;

    /// Makes dead deliveries pending again, with no attempts and due now, and gives them. It leaves out
    /// deliveries that are not dead or not the merchant's.
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
