//! A store with a long history. One merchant owns all of it, which is the hardest case.

use settle_domain::delivery::{Delivery, DeliveryEvent, RetryPolicy};
use settle_domain::event::EventType;
use settle_domain::ids::DeliveryId;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_store::{Ask, BATCH_MAX, DeliveryState, DueTime, NewDelivery, NewSettlement, Seen};
use settle_wiring::Context;
use settle_wiring::system::{SystemClock, SystemEntropy};

use crate::error::BenchError;
use crate::load::completed;
use crate::progress::Progress;
use crate::scratch::{Scratch, Shop, StoreKind};

/// An endpoint where nobody listens: nothing is ever sent to it.
const ENDPOINT: ([u8; 4], u16) = ([127, 0, 0, 1], 9);
/// Deliveries that one claim reads, to mark them as delivered.
const CLAIM: u32 = 512;

/// The store, and the merchant that owns everything in it.
pub(crate) struct History {
    pub(crate) context: Context,
    pub(crate) scratch: Scratch,
    pub(crate) shop: Shop,
    /// Settlements in the store, each with its delivery.
    pub(crate) rows: usize,
}

impl History {
    /// A merchant without a history.
    pub(crate) async fn new(kind: StoreKind) -> Result<History, BenchError> {
        let scratch = Scratch::new(kind).await?;
        let context = scratch.open().await?;
        let shops = scratch.shops(&context, 1, &[ENDPOINT.into()], "/hook").await?;
        let none = || BenchError::Failed("no merchant was made".to_owned());
        let shop = shops.into_iter().next().ok_or_else(none)?;
        Ok(History { context, scratch, shop, rows: 0 })
    }

    /// Adds settlements, each with a finished delivery, until the store has this many. The service takes more
    /// steps for the same, but the rows on the disk are alike.
    pub(crate) async fn grow(&mut self, rows: usize, progress: &Progress) -> Result<(), BenchError> {
        progress.step("filling the store", rows);
        while self.rows < rows {
            let last = rows.min(self.rows + BATCH_MAX);
            self.add(self.rows..last).await?;
            self.rows = last;
            progress.at(last);
        }
        Ok(())
    }

    async fn add(&self, numbers: std::ops::Range<usize>) -> Result<(), BenchError> {
        let now = SystemClock.now();
        let completed = numbers.map(|number| completed(&self.shop, number).map(NewSettlement::from));
        let settlements = completed.collect::<Result<Vec<_>, _>>()?;
        let url = format!("http://{}/hook", std::net::SocketAddr::from(ENDPOINT));
        let deliveries: Vec<NewDelivery> = settlements
            .iter()
            .map(|settlement| NewDelivery {
                merchant_id: self.shop.merchant_id,
                delivery_id: DeliveryId::new(now, &SystemEntropy),
                settlement_id: settlement.settlement_id,
                event_type: EventType::SettlementCompleted,
                url: url.clone(),
                created_at: now,
            })
            .collect();
        let states: Vec<DeliveryState> =
            deliveries.iter().map(|new| self.delivered(new.into(), now)).collect();
        let mut tx = self.context.store.begin().await?;
        let lock = tx.merchant_lock(&[self.shop.merchant_id]).await?;
        tx.settlement_record_many(&lock, &settlements).await?;
        tx.delivery_enqueue_many(&lock, &deliveries).await?;
        let changed = tx.delivery_record_many(&lock, &states, now).await?.len();
        if changed != deliveries.len() {
            return Err(BenchError::Failed("the store is not filled as it should be".to_owned()));
        }
        Ok(tx.commit().await?)
    }

    /// Marks every pending delivery as delivered.
    pub(crate) async fn deliver_pending(&self) -> Result<(), BenchError> {
        loop {
            let now = SystemClock.now();
            let ask = Ask { merchant_id: self.shop.merchant_id, number: CLAIM };
            let claimed = self.context.store.queue_claim(&[ask], &[], DueTime::by(now)).await?.found;
            if claimed.is_empty() {
                return Ok(());
            }
            let states: Vec<DeliveryState> =
                claimed.into_iter().map(|claimed| self.delivered(claimed.delivery, now)).collect();
            let mut tx = self.context.store.begin().await?;
            let lock = tx.merchant_lock(&[self.shop.merchant_id]).await?;
            tx.delivery_record_many(&lock, &states, now).await?;
            tx.commit().await?;
        }
    }

    fn delivered(&self, mut delivery: Delivery, at: Timestamp) -> DeliveryState {
        let seen = Seen::from(&delivery);
        // A pending delivery accepts this event.
        let _ = delivery.apply(DeliveryEvent::Answered { response_status: 200 }, at, &RetryPolicy::default());
        DeliveryState { merchant_id: self.shop.merchant_id, seen, delivery }
    }
}
