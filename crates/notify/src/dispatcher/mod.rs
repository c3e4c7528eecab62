//! The dispatcher: claims what is due, sends it, records what came of it.
//!
//! | module | what it does |
//! |---|---|
//! | [`lanes`] | who is served next, and how much of it: fairness without I/O |
//! | `holdings` | which shards are ours, and until when |
//! | `attempt` | one attempt: open the secret, sign, send, judge |
//! | [`ledger`] | what is asked of the database |
//! | `run` | the loop that drives them |
//!
//! One task drives everything and never waits for anything in particular: calls to the database and attempts
//! run beside it and report back. Claims are batches that grow by themselves under load, because the next one
//! starts when the last has ended; outcomes wait for each other a moment. A delivery is remembered until its
//! outcome is recorded, so that no claim can find it a second time.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::delivery::RetryPolicy;
use settle_domain::seams::{Clock, Entropy};
use settle_domain::vault::KeyRing;

use crate::sender::Transport;
use settle_outbox::wake::Wake;

mod attempt;
mod holdings;
pub mod lanes;
pub mod ledger;
mod run;

use lanes::InFlightLimits;
use ledger::Ledger;

/// How often a dispatcher renews its lease, and so how soon it sees that another one has died.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(1);

/// How a dispatcher works.
#[derive(Debug, Clone, Copy)]
pub struct DispatchSettings {
    /// How long one attempt may take: the transport's own limit.
    pub timeout: Duration,
    /// How long shards are held without being renewed. Longer than an attempt may take.
    pub lease: Duration,
    /// How often and how far apart a delivery is tried.
    pub retry: RetryPolicy,
    /// The bounds on what is in flight.
    pub in_flight: InFlightLimits,
    /// How long attempts under way may take to finish when the dispatcher is told to stop.
    pub shutdown_timeout: Duration,
}

impl DispatchSettings {
    /// The shortest lease under which an attempt always ends before the shard can change hands: a renewal may
    /// come late by a few intervals.
    #[must_use]
    pub fn lease_min(timeout: Duration) -> Duration {
        timeout + 5 * RENEW_INTERVAL
    }
}

/// The parts a dispatcher is made from.
#[derive(Clone)]
pub struct Dispatcher {
    /// The database.
    pub ledger: Arc<dyn Ledger>,
    /// Who carries notifications to endpoints.
    pub transport: Arc<dyn Transport>,
    /// The master keys, which open the secrets.
    pub ring: Arc<KeyRing>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub entropy: Arc<dyn Entropy>,
    /// Who says that something is due.
    pub wake: Wake,
    /// How it works.
    pub settings: DispatchSettings,
}

impl Dispatcher {
    /// Sends until told to stop; then finishes what is in flight and gives its shards back.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        run::Run::new(self).run(stop).await;
    }
}
