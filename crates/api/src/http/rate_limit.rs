//! Limits how many requests a merchant may make, with whichever of its keys.

use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use settle_domain::ids::MerchantId;

use crate::error::{Quota as Allowed, RateLimited};
use crate::limits::Limits;

/// How many merchants the limiter remembers before it forgets those whose bucket is full again.
const REMEMBERED_MAX: usize = 10_000;

/// One bucket for each merchant: it fills at the rate and holds the burst.
pub struct RateLimiter {
    buckets: Option<DefaultKeyedRateLimiter<MerchantId>>,
    rate: NonZeroU32,
    burst: NonZeroU32,
    clock: DefaultClock,
}

impl RateLimiter {
    /// A limiter whose buckets are full.
    #[must_use]
    pub fn new(limits: &Limits) -> RateLimiter {
        let burst = limits.requests_burst;
        let quota = limits.requests_per_second.map(|rate| Quota::per_second(rate).allow_burst(burst));
        RateLimiter {
            buckets: quota.map(DefaultKeyedRateLimiter::keyed),
            rate: limits.requests_per_second.unwrap_or(NonZeroU32::MIN),
            burst,
            clock: DefaultClock::default(),
        }
    }

    /// Takes one request out of the merchant's bucket.
    pub fn admit(&self, merchant: MerchantId) -> Result<(), RateLimited> {
        let Some(buckets) = &self.buckets else {
            return Ok(());
        };
        if buckets.len() > REMEMBERED_MAX {
            buckets.retain_recent();
        }
        buckets.check_key(&merchant).map_err(|refused| RateLimited {
            name: "merchant",
            retry_after: refused.wait_time_from(self.clock.now()),
            quota: Allowed::Requests {
                number: self.burst.get(),
                window_seconds: self.burst.get().div_ceil(self.rate.get()),
            },
        })
    }
}
