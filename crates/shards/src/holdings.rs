//! Which shards a process holds, under which tokens, and until when.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use settle_domain::ids::MerchantId;
use settle_store::{LeaseToken, Leases, Shard, ShardLease};
use tokio::time::Instant;

/// One time that a shard leaves. A shard that stays after all and leaves again later has another one, so that
/// what a tenant said of the first time does not count for the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Departure(u64);

/// The shards held, as far as the keeper knows.
#[derive(Debug, Clone)]
pub struct Holdings {
    held: BTreeMap<Shard, LeaseToken>,
    /// Shards that are given back once every tenant has let go of them.
    leaving: BTreeMap<Shard, Departure>,
    departures: u64,
    /// Until when nobody else can have taken them.
    valid_until: Instant,
}

impl Holdings {
    /// No shards.
    #[must_use]
    pub fn none(now: Instant) -> Holdings {
        Holdings { held: BTreeMap::new(), leaving: BTreeMap::new(), departures: 0, valid_until: now }
    }

    /// Takes note of a renewal that the keeper asked for at the given time.
    pub(crate) fn renew(&mut self, leases: &Leases, asked_at: Instant, duration: Duration) {
        self.held = leases.held.iter().map(|lease| (lease.shard, lease.token)).collect();
        self.valid_until = asked_at + duration;
        let excess = self.held.len().saturating_sub(leases.share);
        self.leaving.retain(|shard, _| self.held.contains_key(shard));
        while self.leaving.len() > excess {
            self.leaving.pop_first();
        }
        // The last ones leave: the keeper takes the first ones first, so nothing moves back and forth.
        for shard in self.held.keys().rev().take(excess) {
            self.leaving.entry(*shard).or_insert_with(|| {
                self.departures += 1;
                Departure(self.departures)
            });
        }
    }

    /// Takes note that the keeper gave leases back.
    pub(crate) fn released(&mut self, leases: &[ShardLease]) {
        for lease in leases {
            self.held.remove(&lease.shard);
            self.leaving.remove(&lease.shard);
        }
    }

    /// The leases of shards that leave and of which every tenant has let go.
    pub(crate) fn to_release(&self, let_go: impl Fn(Departure) -> bool) -> Vec<ShardLease> {
        let free = self.leaving.iter().filter(|(_, departure)| let_go(**departure));
        free.filter_map(|(shard, _)| Some(ShardLease { shard: *shard, token: *self.held.get(shard)? }))
            .collect()
    }

    /// All leases.
    pub(crate) fn all(&self) -> Vec<ShardLease> {
        self.held.iter().map(|(shard, token)| ShardLease { shard: *shard, token: *token }).collect()
    }

    /// Whether there is a shard here that the earlier holdings did not have under the same token.
    #[must_use]
    pub fn has_gained(&self, earlier: &Holdings) -> bool {
        self.held.iter().any(|(shard, token)| earlier.held.get(shard) != Some(token))
    }

    /// The lease under which a merchant may be served, if its shard is ours.
    #[must_use]
    pub fn lease_of(&self, merchant: MerchantId) -> Option<ShardLease> {
        let shard = Shard::of(merchant);
        self.held.get(&shard).map(|token| ShardLease { shard, token: *token })
    }

    /// Whether a lease is still ours.
    #[must_use]
    pub fn holds(&self, lease: ShardLease) -> bool {
        self.held.get(&lease.shard) == Some(&lease.token)
    }

    /// Whether a tenant may start work for a merchant.
    #[must_use]
    pub fn serves(&self, merchant: MerchantId) -> bool {
        let shard = Shard::of(merchant);
        self.held.contains_key(&shard) && !self.leaving.contains_key(&shard)
    }

    /// Whether a tenant may start work for anybody.
    #[must_use]
    pub fn serves_any(&self) -> bool {
        self.held.len() > self.leaving.len()
    }

    /// Shards in which a tenant may start work.
    #[must_use]
    pub fn served(&self) -> Vec<Shard> {
        self.held.keys().copied().filter(|shard| !self.leaving.contains_key(shard)).collect()
    }

    /// Whether there are shards to be given back.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// The departures of shards in which a tenant has nothing left to do.
    #[must_use]
    pub fn departures_outside(&self, occupied: &BTreeSet<Shard>) -> BTreeSet<Departure> {
        let free = self.leaving.iter().filter(|(shard, _)| !occupied.contains(shard));
        free.map(|(_, departure)| *departure).collect()
    }

    /// Whether work that starts now and takes this long ends while the shards are ours.
    #[must_use]
    pub fn covers(&self, now: Instant, duration: Duration) -> bool {
        now + duration < self.valid_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const LEASE: Duration = Duration::from_secs(15);

    fn lease(shard: i16, token: u128) -> ShardLease {
        ShardLease { shard: Shard(shard), token: LeaseToken(Uuid::from_u128(token)) }
    }

    fn leases(shards: std::ops::Range<i16>, share: usize) -> Leases {
        Leases { held: shards.map(|shard| lease(shard, 1)).collect(), share }
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_shards_leave_and_stay_when_the_share_grows_again() {
        let now = Instant::now();
        let mut holdings = Holdings::none(now);
        holdings.renew(&leases(0..4, 4), now, LEASE);
        assert!(!holdings.is_leaving());
        holdings.renew(&leases(0..4, 2), now, LEASE);
        assert_eq!(holdings.leaving.keys().copied().collect::<Vec<_>>(), [Shard(2), Shard(3)]);
        let first = holdings.departures_outside(&BTreeSet::from([Shard(2)]));
        holdings.renew(&leases(0..4, 4), now, LEASE);
        assert!(!holdings.is_leaving() && holdings.serves_any());
        holdings.renew(&leases(0..4, 3), now, LEASE);
        let second = holdings.departures_outside(&BTreeSet::new());
        assert!(first.is_disjoint(&second), "what a tenant said of the first time does not count");
        assert_eq!(holdings.to_release(|departure| first.contains(&departure)), []);
        assert_eq!(holdings.to_release(|departure| second.contains(&departure)), [lease(3, 1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_merchant_is_served_under_the_lease_of_its_shard_until_the_shard_leaves() {
        let now = Instant::now();
        let merchant = MerchantId(Uuid::from_u128(7));
        let (own, other) = (Shard::of(merchant), Shard((Shard::of(merchant).0 + 1) % 64));
        let mut holdings = Holdings::none(now);
        assert!(!holdings.serves(merchant) && !holdings.serves_any());
        holdings.renew(&Leases { held: vec![lease(other.0, 1)], share: 1 }, now, LEASE);
        assert_eq!((holdings.lease_of(merchant), holdings.served()), (None, vec![other]));
        assert!(!holdings.serves(merchant) && holdings.serves_any());
        holdings.renew(&Leases { held: vec![lease(own.0, 2)], share: 1 }, now, LEASE);
        assert_eq!((holdings.lease_of(merchant), holdings.served()), (Some(lease(own.0, 2)), vec![own]));
        assert!(holdings.serves(merchant) && holdings.serves_any());
        // It leaves: nothing starts there any more, but what has started is still recorded.
        holdings.renew(&Leases { held: vec![lease(own.0, 2)], share: 0 }, now, LEASE);
        assert_eq!((holdings.lease_of(merchant), holdings.served()), (Some(lease(own.0, 2)), vec![]));
        assert!(!holdings.serves(merchant) && !holdings.serves_any() && holdings.is_leaving());
        holdings.released(&[lease(own.0, 2)]);
        assert_eq!((holdings.lease_of(merchant), holdings.all()), (None, vec![]));
        assert!(!holdings.is_leaving());
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_goes_on_leaving_leaves_once() {
        let now = Instant::now();
        let mut holdings = Holdings::none(now);
        holdings.renew(&leases(0..4, 2), now, LEASE);
        let first = holdings.departures_outside(&BTreeSet::new());
        holdings.renew(&leases(0..4, 2), now, LEASE);
        assert_eq!((first.len(), holdings.departures_outside(&BTreeSet::new())), (2, first));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_token_is_a_gain_and_the_old_one_holds_no_more() {
        let now = Instant::now();
        let mut holdings = Holdings::none(now);
        holdings.renew(&Leases { held: vec![lease(1, 1)], share: 1 }, now, LEASE);
        let earlier = holdings.clone();
        holdings.renew(&Leases { held: vec![lease(1, 1)], share: 1 }, now, LEASE);
        assert!(!holdings.has_gained(&earlier));
        holdings.renew(&Leases { held: vec![lease(1, 2)], share: 1 }, now, LEASE);
        assert!(holdings.has_gained(&earlier));
        assert!(holdings.holds(lease(1, 2)) && !holdings.holds(lease(1, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_would_outlast_the_lease_is_not_covered() {
        let now = Instant::now();
        let mut holdings = Holdings::none(now);
        assert!(!holdings.covers(now, Duration::ZERO));
        holdings.renew(&leases(0..1, 1), now, LEASE);
        assert!(holdings.covers(now, Duration::from_secs(14)));
        assert!(!holdings.covers(now, LEASE));
    }
}
