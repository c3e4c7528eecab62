//! What every handler of the merchant API can reach.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::seams::{Clock, Entropy};
use settle_domain::vault::KeyRing;
use settle_notify::guard::Guard;
use settle_notify::sender::Transport;
use settle_outbox::Outbox;
use settle_store::{AuthenticatedKey, Store};

use crate::http::{EnvelopeState, Lookups, RateLimiter};
use crate::language::Messages;

/// The bounds of one request.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest body, in bytes.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_timeout: Duration,
    /// How long a request may take to be answered.
    pub request_timeout: Duration,
    /// Requests per second and key; `None` for no limit.
    pub requests_per_second: Option<NonZeroU32>,
    /// Requests a key may make at once before the rate applies.
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

/// The parts a merchant API is made from.
pub struct Parts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// The master keys.
    pub ring: Arc<KeyRing>,
    /// The judge of webhook URLs.
    pub guard: Guard,
    /// Who carries a test delivery to its endpoint.
    pub transport: Arc<dyn Transport>,
    /// Where what becomes due is committed.
    pub outbox: Outbox,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub entropy: Arc<dyn Entropy>,
    /// What errors say, in every language.
    pub messages: Arc<Messages>,
    /// The bounds of one request.
    pub limits: Limits,
}

/// What every handler can reach. Cheap to clone.
#[derive(Clone)]
pub struct ApiState(Arc<Shared>);

struct Shared {
    parts: Parts,
    rate_limiter: RateLimiter,
    keys: Lookups<AuthenticatedKey>,
}

impl ApiState {
    /// The state of a merchant API, with every key's bucket full.
    #[must_use]
    pub fn new(parts: Parts) -> ApiState {
        let rate_limiter = RateLimiter::new(&parts.limits);
        ApiState(Arc::new(Shared { parts, rate_limiter, keys: Lookups::default() }))
    }

    /// What the outermost layer works with.
    pub(crate) fn envelope(&self) -> EnvelopeState {
        EnvelopeState {
            clock: self.clock.clone(),
            entropy: self.entropy.clone(),
            messages: self.messages.clone(),
            request_timeout: self.limits.request_timeout,
        }
    }

    /// Keys that are being looked up.
    pub(crate) fn keys(&self) -> &Lookups<AuthenticatedKey> {
        &self.0.keys
    }

    /// Who has asked how often.
    pub(crate) fn rate_limiter(&self) -> &RateLimiter {
        &self.0.rate_limiter
    }
}

impl std::ops::Deref for ApiState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0.parts
    }
}
