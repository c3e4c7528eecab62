//! One attempt: the secret is opened, the notification signed and sent, the answer judged.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use settle_domain::delivery::{Consequence, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::endpoint::WebhookSecret;
use settle_domain::ids::MerchantId;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_domain::vault::{KeyRing, OpenFault, SealedSecret};
use settle_store::{Claimed, DeliveryState, Seen, ShardLease};
use tokio::time::Instant;

use super::lanes::Verdict;
use super::ledger::Outcome;
use crate::notification::Notification;
use crate::sender::{Attempt, Transport};

/// Opened secrets that are kept; beyond, all are forgotten and opened anew.
const SECRETS_KEPT_MAX: usize = 10_000;

/// Secrets opened before: a merchant's is opened once, not for every attempt.
#[derive(Default)]
pub(super) struct Secrets(HashMap<MerchantId, (SealedSecret, Arc<WebhookSecret>)>);

impl Secrets {
    /// The opened secret. A sealed one that differs from the last is a new one.
    pub(super) fn open(
        &mut self,
        ring: &KeyRing,
        merchant: MerchantId,
        sealed: SealedSecret,
    ) -> Result<Arc<WebhookSecret>, OpenFault> {
        if let Some((_, secret)) = self.0.get(&merchant).filter(|(known, _)| *known == sealed) {
            return Ok(secret.clone());
        }
        if self.0.len() >= SECRETS_KEPT_MAX {
            self.0.clear();
        }
        let secret = Arc::new(ring.open(merchant, &sealed)?);
        self.0.insert(merchant, (sealed, secret.clone()));
        Ok(secret)
    }
}

/// A delivery that is being attempted, and the lease that allows it.
pub(super) struct Flight {
    pub(super) lease: ShardLease,
    pub(super) claimed: Claimed,
}

/// A delivery after its attempt.
pub(super) struct Landing {
    pub(super) flight: Flight,
    /// What came of it; `None` when the transport itself broke, which is no fault of the endpoint.
    pub(super) attempt: Option<Attempt>,
    pub(super) at: Timestamp,
    pub(super) took: Duration,
}

/// Makes one attempt.
pub(super) async fn fly(
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

/// What an event makes of a delivery.
pub(super) fn judge(
    flight: Flight,
    event: DeliveryEvent,
    at: Timestamp,
    retry: &RetryPolicy,
) -> (Outcome, Verdict) {
    let Flight { lease, claimed: Claimed { merchant_id, mut delivery, .. } } = flight;
    let seen = Seen::from(&delivery);
    // Only pending rows are claimed, and a pending row takes each of these events.
    let alert = delivery.apply(event, at, retry) == Ok(Consequence::Alert);
    let verdict = match (delivery.status, delivery.attempts > seen.attempts) {
        (DeliveryStatus::Delivered, _) => Verdict::Well,
        (DeliveryStatus::Pending | DeliveryStatus::Dead, true) => Verdict::Badly,
        (DeliveryStatus::Pending | DeliveryStatus::Dead, false) => Verdict::Unknown,
    };
    (Outcome { lease, state: DeliveryState { merchant_id, seen, delivery }, alert }, verdict)
}

/// The event that an attempt is.
pub(super) fn event(attempt: Attempt) -> DeliveryEvent {
    match (attempt.fault, attempt.response_status) {
        (None, Some(response_status)) => DeliveryEvent::Answered { response_status },
        (None, None) => DeliveryEvent::Failed { response_status: None, error: "no response".to_owned() },
        (Some(fault), response_status) => DeliveryEvent::Failed { response_status, error: fault.to_string() },
    }
}
