//! The callers behind a proxy: how many requests of each may be under way at once.
//!
//! A proxy's connections are many callers', so the cap on a source's connections (`places.rs`) does not hold
//! for them. The proxy names the source of every request instead, and a source may have as many requests
//! under way as it could have connections of its own: beyond it a request gets a 429. What a proxy asks on
//! its own account, such as whether the service lives, has no such source and no cap.

use std::net::IpAddr;
use std::time::Duration;

use axum::http::HeaderMap;

use crate::error::{Quota, RateLimited};
use crate::http::{Origin, Proxies, Share, Shares, Source, Tally};

/// When a caller may try again, whose requests are expected to take less.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The callers of a listener. Cheap to clone.
#[derive(Clone)]
pub(super) struct Callers {
    proxies: Proxies,
    per_source: usize,
    /// A connection has one request under way, so there are never more than connections.
    under_way: Shares<Source>,
    refused: Tally,
}

/// Marks a request of a source that has too many under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowded(pub(crate) RateLimited);

/// Where a request comes from, and what its source holds while it is under way.
pub(super) struct Caller {
    pub(super) source: Source,
    /// None for a source without a cap.
    pub(super) share: Result<Option<Share<Source>>, Crowded>,
}

impl Callers {
    pub(super) fn new(connections_max: usize, per_source: usize, proxies: Proxies) -> Callers {
        let refused = Tally::new("requests of sources that have too many under way were refused");
        Callers { proxies, per_source, under_way: Shares::new(connections_max), refused }
    }

    /// Who sends the request that arrived on a connection of this peer.
    pub(super) fn caller(&self, peer: IpAddr, headers: &HeaderMap) -> Caller {
        let Origin { source, is_forwarded } = self.proxies.origin(peer, headers);
        if !is_forwarded {
            return Caller { source, share: Ok(None) };
        }
        let share = self.under_way.take(source, 1, self.per_source).map(Some).ok_or_else(|| {
            self.refused.count(source);
            let quota = Quota::Concurrent(self.per_source);
            Crowded(RateLimited { name: "source", retry_after: RETRY_AFTER, quota })
        });
        Caller { source, share }
    }
}
