//! Merchants that become due soon, and merchants that rest.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use settle_domain::ids::MerchantId;
use tokio::time::Instant;

/// How long a merchant rests whose deliveries cannot be attempted for a reason of ours: at first and at most.
/// Each rest is twice as long as the last, until an attempt is made.
const REST_FIRST: Duration = Duration::from_secs(1);
const REST_MAX: Duration = Duration::from_mins(1);

/// Merchants that become due before the next look, by the time at which they do. It is a time of the clock
/// that never steps: what was due in a second stays due in a second when somebody sets the other clock.
#[derive(Debug, Default)]
pub(super) struct DueSoon(BTreeSet<(Instant, MerchantId)>);

impl DueSoon {
    pub(super) fn add(&mut self, at: Instant, merchant: MerchantId) {
        self.0.insert((at, merchant));
    }

    /// When the first one is due.
    pub(super) fn first(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Merchants that are due by now; they are forgotten here.
    pub(super) fn take(&mut self, now: Instant) -> Vec<MerchantId> {
        let mut due = Vec::new();
        while self.first().is_some_and(|at| at <= now) {
            due.extend(self.0.pop_first().map(|(_, merchant)| merchant));
        }
        due
    }
}

/// Merchants whom the dispatcher does not serve for a while.
#[derive(Debug, Default)]
pub(super) struct Resting {
    until: HashMap<MerchantId, Instant>,
    /// Rests of each merchant since its last attempt, and when the last one began.
    rests: HashMap<MerchantId, (u32, Instant)>,
}

impl Resting {
    /// Puts a merchant to rest, unless it rests already: its other attempts under way tell nothing new.
    pub(super) fn add(&mut self, merchant: MerchantId, now: Instant) {
        if self.contains(merchant) {
            return;
        }
        let (rests, begun) = self.rests.entry(merchant).or_insert((0, now));
        let rest = REST_FIRST.saturating_mul(2u32.saturating_pow(*rests)).min(REST_MAX);
        (*rests, *begun) = (rests.saturating_add(1), now);
        self.until.insert(merchant, now + rest);
    }

    /// An attempt of this merchant was made: its next rest is short again.
    pub(super) fn attempted(&mut self, merchant: MerchantId) {
        self.rests.remove(&merchant);
    }

    pub(super) fn contains(&self, merchant: MerchantId) -> bool {
        self.until.contains_key(&merchant)
    }

    pub(super) fn merchants(&self) -> impl Iterator<Item = MerchantId> + '_ {
        self.until.keys().copied()
    }

    /// When the first one has rested.
    pub(super) fn first(&self) -> Option<Instant> {
        self.until.values().copied().min()
    }

    /// Forgets who has rested, and in time how often.
    pub(super) fn end(&mut self, now: Instant) {
        self.until.retain(|_, until| *until > now);
        self.rests.retain(|_, (_, begun)| *begun + 2 * REST_MAX > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn merchant(number: u128) -> MerchantId {
        MerchantId(Uuid::from_u128(number))
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_due_is_given_once_and_in_time() {
        let now = Instant::now();
        let at = |micros| now + Duration::from_micros(micros);
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
        assert_eq!(resting.first(), Some(now + REST_FIRST));
        resting.end(now);
        assert!(resting.contains(merchant(1)));
        resting.end(now + REST_FIRST);
        assert!(!resting.contains(merchant(1)) && resting.first().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn rests_double_up_to_the_longest_and_an_attempt_makes_them_short_again() {
        let (mut now, mut resting) = (Instant::now(), Resting::default());
        let mut rest = |resting: &mut Resting| {
            resting.add(merchant(1), now);
            resting.add(merchant(1), now);
            let until = resting.first().unwrap();
            let rested = until - now;
            now = until;
            resting.end(now);
            rested.as_secs()
        };
        let rests: Vec<u64> = (0..8).map(|_| rest(&mut resting)).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 32, 60, 60]);
        resting.attempted(merchant(1));
        assert_eq!(rest(&mut resting), 1);
        resting.end(Instant::now() + 10 * REST_MAX);
        assert!(resting.rests.is_empty(), "nobody is remembered for ever");
    }
}
