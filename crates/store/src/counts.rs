//! How many rows a merchant has: one row of counts per merchant, written once in each transaction that
//! changes it.
//!
//! A backend collects the changes while the transaction works and writes them when it commits. Writing at
//! every change would write the same row several times.

use std::collections::{BTreeMap, HashSet};

use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::time::Timestamp;
use uuid::Uuid;

use crate::DeliveryState;

/// The change in one merchant's counts.
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
    /// When the first of the new or retried deliveries is due.
    pub due_at: Option<Timestamp>,
}

impl CountChange {
    /// Counts a new pending delivery.
    pub fn add_due(&mut self, due_at: Timestamp) {
        self.pending += 1;
        self.hasten(due_at);
    }

    /// A delivery that is pending becomes due earlier.
    pub fn hasten(&mut self, due_at: Timestamp) {
        self.due_at = Some(self.due_at.map_or(due_at, |earlier| earlier.min(due_at)));
    }

    /// Moves a pending delivery to its present status.
    fn record(&mut self, delivery: &Delivery) {
        self.pending -= 1;
        match delivery.status {
            DeliveryStatus::Pending => self.add_due(delivery.next_attempt_at),
            DeliveryStatus::Delivered => self.delivered += 1,
            DeliveryStatus::Dead => self.dead += 1,
        }
    }

    /// Moves pending deliveries to dead.
    pub fn end(&mut self, deliveries: u64) {
        let deliveries = i64::try_from(deliveries).unwrap_or(i64::MAX);
        self.pending -= deliveries;
        self.dead += deliveries;
    }

    /// Moves a dead delivery back to pending.
    pub fn requeue(&mut self, due_at: Timestamp) {
        self.dead -= 1;
        self.add_due(due_at);
    }
}

/// The changes by merchant, in the order of the ids, which is also the order of the locks.
#[derive(Debug, Default)]
pub struct CountChanges(BTreeMap<MerchantId, CountChange>);

impl CountChanges {
    /// One merchant's change.
    pub fn of(&mut self, merchant: MerchantId) -> &mut CountChange {
        self.0.entry(merchant).or_default()
    }

    /// Counts the recorded outcomes of those deliveries that changed, and gives those deliveries, each once.
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

    /// Gives all changes and forgets them.
    #[must_use]
    pub fn take(&mut self) -> Vec<(MerchantId, CountChange)> {
        std::mem::take(&mut self.0).into_iter().collect()
    }
}
