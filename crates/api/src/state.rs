//! What every handler of the merchant API can reach.

use std::sync::Arc;

use settle_accounts::keys::AuthenticatedKey;
use settle_domain::seams::{Clock, Entropy};
use settle_domain::vault::KeyRing;
use settle_notify::guard::Guard;
use settle_notify::sender::Transport;
use settle_outbox::Outbox;
use settle_store::Store;

use crate::http::{Answers, EnvelopeState, Lookups, RateLimiter};
use crate::language::Messages;
use crate::limits::Limits;
use crate::under_way::UnderWay;

/// The parts a merchant API is made from.
pub struct Parts {
    /// The database.
    pub store: Arc<dyn Store>,
    /// The master keys.
    pub ring: Arc<KeyRing>,
    /// Judges webhook URLs.
    pub guard: Guard,
    /// Sends test deliveries to their endpoints.
    pub transport: Arc<dyn Transport>,
    /// Commits what becomes due, and wakes whoever must know.
    pub outbox: Outbox,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives randomness.
    pub entropy: Arc<dyn Entropy>,
    /// What errors say, in every language.
    pub messages: &'static Messages,
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
    answers: Answers,
    tests: UnderWay,
    changes: UnderWay,
    envelope: Arc<EnvelopeState>,
}

impl ApiState {
    /// The state of a merchant API, with every merchant's bucket full.
    #[must_use]
    pub fn new(parts: Parts) -> ApiState {
        let rate_limiter = RateLimiter::new(&parts.limits);
        let keys = Lookups::new(parts.limits.guessing);
        let answers = Answers::new(parts.limits.unread_bytes_max);
        let (tests, changes) = (UnderWay::test_deliveries(), UnderWay::endpoint_changes());
        let envelope = Arc::new(EnvelopeState::new(
            parts.clock.clone(),
            parts.entropy.clone(),
            parts.messages,
            parts.limits.request_timeout,
        ));
        ApiState(Arc::new(Shared { parts, rate_limiter, keys, answers, tests, changes, envelope }))
    }

    /// What the envelope layer works with.
    pub(crate) fn envelope(&self) -> Arc<EnvelopeState> {
        self.0.envelope.clone()
    }

    /// The lookups of API keys that are under way.
    pub(crate) fn keys(&self) -> &Lookups<AuthenticatedKey> {
        &self.0.keys
    }

    /// The long answers that callers have not read yet.
    pub(crate) fn answers(&self) -> &Answers {
        &self.0.answers
    }

    /// The test deliveries under way.
    pub(crate) fn tests(&self) -> &UnderWay {
        &self.0.tests
    }

    /// The changes of endpoints under way whose URLs are being judged.
    pub(crate) fn changes(&self) -> &UnderWay {
        &self.0.changes
    }

    /// Counts the requests of each merchant.
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
