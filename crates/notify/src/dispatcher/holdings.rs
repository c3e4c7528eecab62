//! Which shards a dispatcher holds, and until when.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use settle_domain::ids::MerchantId;
use settle_store::{LeaseToken, Leases, Shard, ShardLease};
use tokio::time::Instant;

/// The shards held, as far as the dispatcher knows.
#[derive(Debug)]
pub(super) struct Holdings {
    held: HashMap<Shard, LeaseToken>,
    /// Shards that are given back once nothing of theirs is in flight.
    leaving: BTreeSet<Shard>,
    /// Until when nobody else can have taken them.
    valid_until: Instant,
}

impl Holdings {
    pub(super) fn none(now: Instant) -> Holdings {
        Holdings { held: HashMap::new(), leaving: BTreeSet::new(), valid_until: now }
    }

    /// Takes note of a renewal that was asked for at the given time. Says whether shards were gained.
    pub(super) fn renew(&mut self, leases: &Leases, asked_at: Instant, lease: Duration) -> bool {
        let renewed: HashMap<Shard, LeaseToken> =
            leases.held.iter().map(|lease| (lease.shard, lease.token)).collect();
        let gained = renewed.iter().any(|(shard, token)| self.held.get(shard) != Some(token));
        self.held = renewed;
        self.valid_until = asked_at + lease;
        let excess = self.held.len().saturating_sub(leases.share);
        self.leaving.retain(|shard| self.held.contains_key(shard));
        while self.leaving.len() > excess {
            self.leaving.pop_first();
        }
        // The last ones: those that were asked for first are kept, so that nothing moves back and forth.
        let mut shards: Vec<Shard> = self.held.keys().copied().collect();
        shards.sort();
        self.leaving.extend(shards.into_iter().rev().take(excess));
        gained
    }

    /// The lease under which a merchant may be served, if its shard is ours.
    pub(super) fn lease_of(&self, merchant: MerchantId) -> Option<ShardLease> {
        let shard = Shard::of(merchant);
        self.held.get(&shard).map(|token| ShardLease { shard, token: *token })
    }

    /// Whether a lease is still ours.
    pub(super) fn holds(&self, lease: ShardLease) -> bool {
        self.held.get(&lease.shard) == Some(&lease.token)
    }

    /// Whether new attempts are made for a merchant.
    pub(super) fn serves(&self, merchant: MerchantId) -> bool {
        let shard = Shard::of(merchant);
        self.held.contains_key(&shard) && !self.leaving.contains(&shard)
    }

    /// Whether new attempts are made for anybody.
    pub(super) fn serves_any(&self) -> bool {
        self.held.len() > self.leaving.len()
    }

    /// Shards that are served.
    pub(super) fn served(&self) -> Vec<Shard> {
        self.held.keys().copied().filter(|shard| !self.leaving.contains(shard)).collect()
    }

    /// Whether there are shards to be given back.
    pub(super) fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Leases to be given back: of shards that leave and have nothing in flight.
    pub(super) fn to_release(&self, busy: &BTreeSet<Shard>) -> Vec<ShardLease> {
        let free = self.leaving.iter().filter(|shard| !busy.contains(shard));
        free.filter_map(|shard| Some(ShardLease { shard: *shard, token: *self.held.get(shard)? })).collect()
    }

    /// All leases.
    pub(super) fn all(&self) -> Vec<ShardLease> {
        self.held.iter().map(|(shard, token)| ShardLease { shard: *shard, token: *token }).collect()
    }

    /// Takes note that leases were given back.
    pub(super) fn released(&mut self, leases: &[ShardLease]) {
        for lease in leases {
            self.held.remove(&lease.shard);
            self.leaving.remove(&lease.shard);
        }
    }

    /// Whether an attempt that starts now and takes its whole time ends while the shards are ours.
    pub(super) fn covers(&self, now: Instant, timeout: Duration) -> bool {
        now + timeout < self.valid_until
    }
}
