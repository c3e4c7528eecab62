//! Merchants that become due soon, and merchants that rest.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use tokio::time::Instant;

/// How long a merchant rests whose deliveries cannot be attempted for a reason of ours.
const REST: Duration = Duration::from_mins(1);

/// Merchants that become due before the next look, by the time at which they do.
#[derive(Debug, Default)]
pub(super) struct DueSoon(BTreeSet<(Timestamp, MerchantId)>);

impl DueSoon {
    pub(super) fn add(&mut self, at: Timestamp, merchant: MerchantId) {
        self.0.insert((at, merchant));
    }

    /// When the first one is due.
    pub(super) fn first(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Merchants that are due by now; they are forgotten here.
    pub(super) fn take(&mut self, now: Timestamp) -> Vec<MerchantId> {
        let mut due = Vec::new();
        while self.first().is_some_and(|at| at <= now) {
            due.extend(self.0.pop_first().map(|(_, merchant)| merchant));
        }
        due
    }
}

/// Merchants whom the dispatcher does not serve for a while.
#[derive(Debug, Default)]
pub(super) struct Resting(HashMap<MerchantId, Instant>);

impl Resting {
    pub(super) fn add(&mut self, merchant: MerchantId, now: Instant) {
        self.0.insert(merchant, now + REST);
    }

    pub(super) fn contains(&self, merchant: MerchantId) -> bool {
        self.0.contains_key(&merchant)
    }

    pub(super) fn merchants(&self) -> impl Iterator<Item = MerchantId> + '_ {
        self.0.keys().copied()
    }

    /// When the first one has rested.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.values().copied().min()
    }

    /// Forgets who has rested.
    pub(super) fn end(&mut self, now: Instant) {
        self.0.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn merchant(number: u128) -> MerchantId {
        MerchantId(Uuid::from_u128(number))
    }

    #[test]
    fn who_is_due_is_given_once_and_in_time() {
        let at = Timestamp::from_micros;
        let mut due = DueSoon::default();
        due.add(at(20), merchant(2));
        due.add(at(10), merchant(1));
        due.add(at(10), merchant(3));
        assert_eq!(due.first(), Some(at(10)));
        assert_eq!(due.take(at(9)), []);
        assert_eq!(due.take(at(10)), [merchant(1), merchant(3)]);
        assert_eq!((due.take(at(30)), due.first()), (vec![merchant(2)], None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_merchant_rests_for_its_time() {
        let now = Instant::now();
        let mut resting = Resting::default();
        resting.add(merchant(1), now);
        assert_eq!(resting.first(), Some(now + REST));
        resting.end(now);
        assert!(resting.contains(merchant(1)));
        resting.end(now + REST);
        assert!(!resting.contains(merchant(1)) && resting.first().is_none());
    }
}
