//! How many rows a merchant has: one row each, changed once in a transaction, whatever the transaction does.
//!
//! A backend notes what changes while it works and writes it down when the transaction commits: a row that is
//! changed twice in one transaction is written twice.

use std::collections::{BTreeMap, HashSet};

use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::time::Timestamp;
use uuid::Uuid;

use crate::DeliveryState;

/// By how much the counts of one merchant change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountChange {
    /// Settlements.
    pub settlements: i64,
    /// Deliveries that are pending.
    pub pending: i64,
    /// Deliveries that were delivered.
    pub delivered: i64,
    /// Deliveries that are dead.
    pub dead: i64,
    /// When the first of the deliveries is due that have come, or wait for another attempt.
    pub due_at: Option<Timestamp>,
}

impl CountChange {
    /// A pending delivery has come.
    pub fn add_due(&mut self, due_at: Timestamp) {
        self.pending += 1;
        self.due_at = Some(self.due_at.map_or(due_at, |earlier| earlier.min(due_at)));
    }

    /// A delivery was pending, and stands where it stands now.
    fn record(&mut self, delivery: &Delivery) {
        self.pending -= 1;
        match delivery.status {
            DeliveryStatus::Pending => self.add_due(delivery.next_attempt_at),
            DeliveryStatus::Delivered => self.delivered += 1,
            DeliveryStatus::Dead => self.dead += 1,
        }
    }

    /// A delivery that was dead is pending again.
    pub fn requeue(&mut self, due_at: Timestamp) {
        self.dead -= 1;
        self.add_due(due_at);
    }
}

/// What changes, by merchant. In the order of their ids, as everything that is locked.
#[derive(Debug, Default)]
pub struct CountChanges(BTreeMap<MerchantId, CountChange>);

impl CountChanges {
    /// What changes of one merchant.
    pub fn of(&mut self, merchant: MerchantId) -> &mut CountChange {
        self.0.entry(merchant).or_default()
    }

    /// Outcomes were recorded, of those deliveries that were changed. Gives them, each once.
    pub fn record(&mut self, states: &[DeliveryState], changed: Vec<Uuid>) -> Vec<DeliveryId> {
        let mut changed: HashSet<Uuid> = changed.into_iter().collect();
        let mut recorded = Vec::with_capacity(changed.len());
        for DeliveryState { merchant_id, delivery, .. } in states {
            if changed.remove(&delivery.delivery_id.0) {
                self.of(*merchant_id).record(delivery);
                recorded.push(delivery.delivery_id);
            }
        }
        recorded
    }

    /// All that was noted; it is forgotten here.
    #[must_use]
    pub fn take(&mut self) -> Vec<(MerchantId, CountChange)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}
