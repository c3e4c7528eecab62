//! One attempt, from its start to its outcome: the secret is opened, the notification signed and sent, the
//! answer judged.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use settle_domain::delivery::{Consequence, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_domain::vault::{KeyRing, OpenFault};
use settle_domain::webhook_secret::WebhookSecret;
use settle_store::{Claimed, DeliveryState, Seen, ShardLease};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::lanes::Verdict;
use super::queue::Outcome;
use super::secrets::Secrets;
use crate::notification::Notification;
use crate::sender::{Attempt, SendError, Transport};

/// Attempts under way.
pub(super) struct Attempts {
    flights: JoinSet<Landing>,
    secrets: Secrets,
}

/// A delivery that is being attempted, and the lease that allows it.
pub(super) struct Flight {
    pub(super) lease: ShardLease,
    pub(super) claimed: Claimed,
}

/// What became of the start of an attempt.
pub(super) enum Started {
    /// It is under way.
    Flying,
    /// The merchant has no endpoint any more: there is nothing to send, and this is to be recorded.
    EndpointGone(Box<Outcome>),
    /// The secret cannot be opened, which is a fault of ours: the attempt does not count.
    SecretClosed(OpenFault),
}

/// What an attempt makes of its delivery.
pub(super) enum Judged {
    /// The attempt counts: this is to be recorded.
    Counts(Box<Outcome>, Verdict),
    /// We could not make it: it does not count.
    Ours(SendError),
    /// The sender panicked, which is a fault of ours too.
    Panicked,
}

/// A delivery after its attempt.
pub(super) struct Landing {
    pub(super) flight: Flight,
    /// What came of it; `None` when the transport panicked.
    attempt: Option<Result<Attempt, SendError>>,
    at: Timestamp,
    took: Duration,
}

impl Attempts {
    pub(super) fn none() -> Attempts {
        Attempts { flights: JoinSet::new(), secrets: Secrets::none() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Forgets secrets that were opened a while ago.
    pub(super) fn forget_secrets(&mut self) {
        self.secrets.forget_old();
    }

    /// Starts an attempt.
    pub(super) fn start(
        &mut self,
        flight: Flight,
        ring: &KeyRing,
        transport: &Arc<dyn Transport>,
        clock: &Arc<dyn Clock>,
    ) -> Started {
        let Some(sealed) = flight.claimed.secret.clone() else {
            return Started::EndpointGone(Box::new(gone(flight, clock.now())));
        };
        match self.secrets.open(ring, flight.claimed.merchant_id, sealed) {
            Ok(secret) => {
                self.flights.spawn(fly(flight, secret, transport.clone(), clock.clone()));
                Started::Flying
            }
            Err(fault) => Started::SecretClosed(fault),
        }
    }

    /// Waits until an attempt has ended, and gives it with all others that have ended by then. `None` when
    /// none is under way.
    pub(super) async fn landed(&mut self) -> Option<Vec<Landing>> {
        let mut landings: Vec<Landing> = self.flights.join_next().await?.into_iter().collect();
        // Only an aborted attempt ends without a landing.
        while let Some(Ok(landing)) = self.flights.try_join_next() {
            landings.push(landing);
        }
        Some(landings)
    }

    /// Ends attempts that take too long for a dispatcher that stops.
    pub(super) fn abort(&mut self) {
        self.flights.abort_all();
    }
}

impl Flight {
    /// Whose delivery it is, and which.
    pub(super) fn key(&self) -> (MerchantId, DeliveryId) {
        (self.claimed.merchant_id, self.claimed.delivery.delivery_id)
    }
}

impl Landing {
    /// What the attempt makes of its delivery, counted and told to the log.
    pub(super) fn judge(self, retry: &RetryPolicy) -> Judged {
        let Landing { flight, attempt, at, took } = self;
        let attempt = match attempt {
            Some(Ok(attempt)) => attempt,
            Some(Err(error)) => return Judged::Ours(error),
            None => return Judged::Panicked,
        };
        let class = attempt.fault.as_ref().map_or("delivered", |fault| fault.class());
        metrics::counter!("settle_delivery_attempts_total", "outcome" => class).increment(1);
        metrics::histogram!("settle_delivery_attempt_duration_seconds").record(took.as_secs_f64());
        let (outcome, verdict) = apply(flight, delivery_event(attempt), at, retry);
        tell(&outcome, at);
        Judged::Counts(Box::new(outcome), verdict)
    }
}

/// Makes one attempt.
async fn fly(
    flight: Flight,
    secret: Arc<WebhookSecret>,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
) -> Landing {
    let started = Instant::now();
    let delivery = &flight.claimed.delivery;
    let attempt = AssertUnwindSafe(async {
        let event = delivery.event_type;
        let body = flight.claimed.record.notification(event);
        let notification = Notification::sign(&secret, delivery.delivery_id, event, body, clock.now());
        transport.attempt(&delivery.url, notification).await
    });
    let attempt = attempt.catch_unwind().await;
    Landing { attempt: attempt.ok(), at: clock.now(), took: started.elapsed(), flight }
}

/// The endpoint is gone, so there is no attempt that a retry policy could count.
fn gone(flight: Flight, at: Timestamp) -> Outcome {
    apply(flight, DeliveryEvent::EndpointGone, at, &RetryPolicy::default()).0
}

/// What an event makes of a delivery.
fn apply(flight: Flight, event: DeliveryEvent, at: Timestamp, retry: &RetryPolicy) -> (Outcome, Verdict) {
    let Flight { lease, claimed: Claimed { merchant_id, mut delivery, .. } } = flight;
    let seen = Seen::from(&delivery);
    // Claims give pending rows alone, and a pending row takes each of these events.
    let alert = delivery.apply(event, at, retry) == Ok(Consequence::Alert);
    let verdict = match (delivery.status, delivery.attempts > seen.attempts) {
        (DeliveryStatus::Delivered, _) => Verdict::Well,
        (DeliveryStatus::Pending | DeliveryStatus::Dead, true) => Verdict::Badly,
        (DeliveryStatus::Pending | DeliveryStatus::Dead, false) => Verdict::Unknown,
    };
    (Outcome { lease, state: DeliveryState { merchant_id, seen, delivery }, alert }, verdict)
}

/// The event that an attempt is.
fn delivery_event(attempt: Attempt) -> DeliveryEvent {
    match (attempt.fault, attempt.response_status) {
        (None, Some(response_status)) => DeliveryEvent::Answered { response_status },
        (None, None) => DeliveryEvent::Failed { response_status: None, error: "no response".to_owned() },
        (Some(fault), response_status) => DeliveryEvent::Failed { response_status, error: fault.to_string() },
    }
}

/// Tells the log what came of an attempt: a success to who wants to see everything, a failure to everybody.
fn tell(outcome: &Outcome, at: Timestamp) {
    let merchant = outcome.state.merchant_id;
    let delivery = &outcome.state.delivery;
    let (id, attempts) = (delivery.delivery_id, delivery.attempts);
    let error = delivery.last_error.as_deref().unwrap_or("");
    match delivery.status {
        DeliveryStatus::Delivered => {
            // Never tried before and never asked for again.
            if outcome.state.seen.next_attempt_at == delivery.created_at {
                let delay = at.since(delivery.created_at).as_secs_f64();
                metrics::histogram!("settle_delivery_delay_seconds").record(delay);
            }
            tracing::debug!(%merchant, delivery = %id, attempts, "delivered");
        }
        DeliveryStatus::Pending => {
            let next = delivery.next_attempt_at;
            tracing::info!(%merchant, delivery = %id, attempts, error, %next, "an attempt failed");
        }
        DeliveryStatus::Dead => {
            metrics::counter!("settle_deliveries_died_total").increment(1);
            tracing::warn!(%merchant, delivery = %id, attempts, error, "the last attempt failed: dead");
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use settle_domain::ids::KeeperId;
    use settle_domain::seams::{ManualClock, SeededEntropy};
    use settle_outbox::wake::Wake;
    use settle_shards::keeper::Keeper;
    use settle_shards::leases::StoreLeases;
    use settle_store::Duty;
    use uuid::Uuid;

    use super::*;
    use crate::alerts::AlerterWake;
    use crate::dispatcher::lanes::InFlightLimits;
    use crate::dispatcher::queue::StoreQueue;
    use crate::dispatcher::state::State;
    use crate::dispatcher::{DispatchSettings, Dispatcher};

    const MERCHANT: MerchantId = MerchantId(Uuid::from_u128(1));
    const TIMEOUT: Duration = Duration::from_secs(10);

    /// Where nothing is ever sent to.
    struct Nowhere;

    #[async_trait]
    impl Transport for Nowhere {
        async fn attempt(&self, _url: &str, _notification: Notification) -> Result<Attempt, SendError> {
            Err(SendError::Network)
        }
    }

    fn ring() -> KeyRing {
        KeyRing::parse(&"5e".repeat(32)).unwrap()
    }

    /// What a dispatcher remembers that nobody has given anything yet.
    async fn state() -> State {
        let store = settle_store_sqlite::testing::scratch().await.share();
        let leases = Arc::new(StoreLeases(store.clone(), Duty::Dispatch));
        let mut keeper = Keeper::new(leases, KeeperId(Uuid::nil()), Keeper::lease_min(TIMEOUT));
        let queue = StoreQueue::new(store, Arc::new(SeededEntropy::new(1)), AlerterWake::default());
        let parts = Dispatcher {
            queue: Arc::new(queue),
            transport: Arc::new(Nowhere),
            ring: Arc::new(ring()),
            clock: Arc::new(ManualClock::at(Timestamp::from_micros(0))),
            wake: Wake::default(),
            settings: DispatchSettings {
                timeout: TIMEOUT,
                retry: RetryPolicy::default(),
                in_flight: InFlightLimits { total: 64, per_merchant: 8 },
                shutdown_timeout: TIMEOUT,
            },
        };
        State::new(parts, keeper.tenant())
    }

    /// The loop comes by every second, also when there is no call to make.
    #[tokio::test(start_paused = true)]
    async fn an_old_secret_is_forgotten_before_the_next_calls_although_nothing_more_is_sent() {
        let mut state = state().await;
        let secret = WebhookSecret::parse("hush".to_owned()).unwrap();
        let sealed = ring().seal(MERCHANT, &secret, &SeededEntropy::new(1));
        let kept = Arc::downgrade(&state.attempts.secrets.open(&ring(), MERCHANT, sealed).unwrap());
        state.before_calls();
        assert!(kept.upgrade().is_some(), "not yet");
        tokio::time::advance(Duration::from_mins(2)).await;
        state.before_calls();
        assert!(kept.upgrade().is_none());
    }
}
