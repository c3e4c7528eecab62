//! The test deliveries under way: few a merchant, and not many in all.
//!
//! A test delivery is a connection of ours to an address that the merchant chose, and lasts as long as the
//! merchant's endpoint likes. Notifications have their own places, so tests hold none of them up.

use std::time::Duration;

use settle_domain::ids::MerchantId;

use crate::error::{Quota, RateLimited};
use crate::http::{Share, Shares};

/// How many test deliveries may be under way, for one merchant and in all.
pub(crate) const PER_MERCHANT_MAX: usize = 2;
pub(crate) const MAX: usize = 32;
/// When to come back: most endpoints have answered within it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The test deliveries under way.
pub(crate) struct TestDeliveries(Shares<MerchantId>);

impl Default for TestDeliveries {
    fn default() -> TestDeliveries {
        TestDeliveries(Shares::new(MAX))
    }
}

impl TestDeliveries {
    /// Begins a test delivery, which is under way until the share is dropped.
    pub(crate) fn begin(&self, merchant: MerchantId) -> Result<Share<MerchantId>, RateLimited> {
        self.0.take(merchant, 1, PER_MERCHANT_MAX).ok_or(RateLimited {
            name: "test-deliveries",
            retry_after: RETRY_AFTER,
            quota: Quota::Concurrent(PER_MERCHANT_MAX),
        })
    }
}
