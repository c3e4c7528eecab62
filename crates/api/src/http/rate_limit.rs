//! Limits how many requests a key may make.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use settle_domain::ids::KeyId;

use crate::error::RateLimited;
use crate::limits::Limits;

/// How many keys the limiter remembers before it forgets those whose bucket is full again.
const REMEMBERED_KEYS_MAX: usize = 10_000;

/// One bucket for each key: it fills at the rate and holds the burst.
pub struct RateLimiter {
    buckets: Option<DefaultKeyedRateLimiter<KeyId>>,
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

    /// Takes one request out of the key's bucket.
    pub fn admit(&self, key: KeyId) -> Result<(), RateLimited> {
        let Some(buckets) = &self.buckets else {
            return Ok(());
        };
        if buckets.len() > REMEMBERED_KEYS_MAX {
            buckets.retain_recent();
        }
        buckets.check_key(&key).map_err(|refused| {
            let wait = refused.wait_time_from(self.clock.now());
            RateLimited {
                retry_after_seconds: whole_seconds(wait),
                quota: self.burst.get(),
                window_seconds: self.burst.get().div_ceil(self.rate.get()),
            }
        })
    }
}

/// Rounds up, so that a caller who waits that many seconds is admitted.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}
