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
    /// How many requests a second each merchant may make; `None` for no limit.
    pub requests_per_second: Option<NonZeroU32>,
    /// How many requests a merchant may make at once before the rate applies.
    pub requests_burst: NonZeroU32,
    /// How many bytes of pages a merchant may have asked for and not yet read.
    pub unread_bytes_max: usize,
    /// How many wrong credentials a source may give.
    pub guessing: Guessing,
}

/// How many wrong credentials a source may give before it gets a 429.
#[derive(Debug, Clone, Copy)]
pub struct Guessing {
    /// How many a second; `None` for no limit.
    pub per_second: Option<NonZeroU32>,
    /// How many at once before the rate applies.
    pub burst: NonZeroU32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            body_bytes_max: 64 * 1_024,
            body_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            requests_per_second: NonZeroU32::new(1_000),
            requests_burst: NonZeroU32::MIN.saturating_add(1_999),
            unread_bytes_max: 8 * 1_024 * 1_024,
            guessing: Guessing::default(),
        }
    }
}

impl Default for Guessing {
    fn default() -> Guessing {
        Guessing { per_second: NonZeroU32::new(10), burst: NonZeroU32::MIN.saturating_add(99) }
    }
}
