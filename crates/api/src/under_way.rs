//! What is under way at hosts that merchants choose: few a merchant, and not many in all.
//!
//! A test delivery is a connection of ours to such a host, and a new URL is judged by what its name servers
//! say: both last as long as somebody else likes. Notifications have places of their own, so neither holds
//! them up.

use std::time::Duration;

use settle_domain::ids::MerchantId;

use crate::error::{Quota, RateLimited};
use crate::http::{Share, Shares};

/// When to come back: most hosts have answered within it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The requests under way that wait for a host.
pub(crate) struct UnderWay {
    shares: Shares<MerchantId>,
    name: &'static str,
    per_merchant: usize,
}

impl UnderWay {
    /// Test deliveries: each holds a connection.
    pub(crate) fn test_deliveries() -> UnderWay {
        UnderWay { shares: Shares::new(32), name: "test-deliveries", per_merchant: 2 }
    }

    /// Changes of endpoints whose URLs are judged: each holds a place of the listener.
    pub(crate) fn endpoint_changes() -> UnderWay {
        UnderWay { shares: Shares::new(1_024), name: "endpoint-changes", per_merchant: 8 }
    }

    /// Begins one, which is under way until the share is dropped.
    pub(crate) fn begin(&self, merchant: MerchantId) -> Result<Share<MerchantId>, RateLimited> {
        self.shares.take(merchant, 1, self.per_merchant).ok_or(RateLimited {
            name: self.name,
            retry_after: RETRY_AFTER,
            quota: Quota::Concurrent(self.per_merchant),
        })
    }
}
