//! The bounds of one request.

use std::num::NonZeroU32;
use std::time::Duration;

/// The bounds of one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest body, in bytes.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a handler may take to answer.
    pub request_timeout: Duration,
    /// How many requests a second each key may make; `None` for no limit.
    pub requests_per_second: Option<NonZeroU32>,
    /// How many requests a key may make at once before the rate applies.
    pub requests_burst: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes_max: 64 * 1_024,
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            requests_per_second: NonZeroU32::new(100),
            requests_burst: NonZeroU32::MIN.saturating_add(199),
        }
    }
}
