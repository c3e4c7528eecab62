//! Alerting operations: deliveries that died are written down with their deaths, and told at least once.
//!
//! [`raise`] adds deaths to an alert in the transaction that records them. [`Alerter`] takes alerts that are
//! due, logs and counts them, and posts them to where operations listen, again and again until it is
//! answered with 2xx. A node that ends in between leaves the alert to whoever looks next, so a receiver may
//! get one twice: `alert_id` tells.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::delivery::RetryPolicy;
use settle_domain::ids::{AlertId, MerchantId};
use settle_domain::seams::{Clock, Entropy};
use settle_domain::time::Timestamp;
use settle_store::{Alert, Death, MerchantLock, PutOff, Store, StoreResult, Tx};
use tokio::sync::Notify;
use tokio::task::JoinSet;

mod message;
mod sender;
mod url;

pub use sender::{AlertSender, AlertTransport, SEND_TIMEOUT};
pub use url::{AlertUrl, AlertUrlFault};

/// How long an endpoint's next alert waits after the last one: what dies meanwhile is counted in it.
pub const QUIET: Duration = Duration::from_mins(5);
/// How often an alerter looks for alerts that are due.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long nobody else takes an alert that was taken: longer than sending it can take.
pub const HOLD: Duration = Duration::from_mins(1);
/// Alerts sent at once.
const TAKEN_MAX: u32 = 16;
/// Deliveries named in a line of the log.
const LOGGED_IDS_MAX: usize = 10;
/// The waits between attempts to send an alert. There is no last one: what died must be heard of.
const SEND_RETRY: RetryPolicy = RetryPolicy {
    retry_first: Duration::from_secs(1),
    retry_max: Duration::from_mins(5),
    attempts_max: i32::MAX,
};
/// The waits between looks while the database does not answer.
const LOOK_RETRY: RetryPolicy =
    RetryPolicy { retry_first: LOOK_INTERVAL, retry_max: Duration::from_secs(30), attempts_max: i32::MAX };

/// Alerts operations of deaths, in the transaction that records them. The alert is sent after the commit: wake
/// the alerter then.
pub async fn raise(
    tx: &mut dyn Tx,
    lock: &MerchantLock,
    deaths: &[Death],
    at: Timestamp,
    entropy: &dyn Entropy,
) -> StoreResult<()> {
    if deaths.is_empty() {
        return Ok(());
    }
    tx.alert_raise_many(lock, deaths, at, QUIET, entropy).await
}

/// Tells an alerter at once that there may be something to send. A hint and no more: the alerter finds by
/// looking what it was not told of. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AlerterWake(Arc<Notify>);

impl AlerterWake {
    /// Says that deaths were recorded.
    pub fn wake(&self) {
        self.0.notify_one();
    }
}

/// Sends alerts. Any number of nodes may run one.
pub struct Alerter {
    store: Arc<dyn Store>,
    /// `None` when alerts go to the log and the metrics alone.
    transport: Option<Arc<dyn AlertTransport>>,
    clock: Arc<dyn Clock>,
    wake: AlerterWake,
}

impl Alerter {
    /// An alerter of the store's alerts.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        transport: Option<Arc<dyn AlertTransport>>,
        clock: Arc<dyn Clock>,
    ) -> Alerter {
        Alerter { store, transport, clock, wake: AlerterWake::default() }
    }

    /// How to tell it that deaths were recorded.
    #[must_use]
    pub fn wake(&self) -> AlerterWake {
        self.wake.clone()
    }

    /// Sends alerts until told to stop; what is being sent then is finished first. A database that does not
    /// answer is asked again, less and less often.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut failures = 0;
        loop {
            let wait = match self.look().await {
                Ok(taken) => {
                    failures = 0;
                    // As many as could be taken: there may be more.
                    if taken >= TAKEN_MAX as usize { Duration::ZERO } else { LOOK_INTERVAL }
                }
                Err(fault) => {
                    failures += 1;
                    let wait = LOOK_RETRY.delay_after(failures);
                    tracing::warn!(%fault, ?wait, "alerts cannot be looked for");
                    wait
                }
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = self.wake.0.notified(), if failures == 0 => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Takes what is due, sends it, and records what came of it. Gives the number of alerts taken. On an
    /// error they come back by themselves.
    pub async fn look(&self) -> StoreResult<usize> {
        let now = self.clock.now();
        if !self.store.alert_any_due(now).await? {
            return Ok(0);
        }
        let mut tx = self.store.begin().await?;
        let alerts = tx.alert_take(now, now.plus(HOLD), TAKEN_MAX).await?;
        tx.commit().await?;
        let taken = alerts.len();
        for alert in &alerts {
            // Where nobody else is told, the line is all there is: it must come at least once.
            if alert.attempts == 1 || self.transport.is_none() {
                announce(alert);
            }
        }
        let (sent, put_off) = match &self.transport {
            Some(transport) => self.send(transport, alerts).await,
            None => (alerts.iter().map(key).collect(), Vec::new()),
        };
        if taken > 0 {
            let mut tx = self.store.begin().await?;
            tx.alert_sent(&sent, self.clock.now()).await?;
            tx.alert_put_off(&put_off).await?;
            tx.commit().await?;
        }
        Ok(taken)
    }

    /// Sends alerts side by side, so that all of them take no longer than one. Gives those that arrived, and
    /// when the others are tried again.
    async fn send(
        &self,
        transport: &Arc<dyn AlertTransport>,
        alerts: Vec<Alert>,
    ) -> (Vec<(MerchantId, AlertId)>, Vec<PutOff>) {
        let mut sending = JoinSet::new();
        for alert in alerts {
            let transport = transport.clone();
            sending.spawn(async move {
                let outcome = transport.post(message::body(&alert)).await;
                (alert, outcome)
            });
        }
        let (mut sent, mut put_off) = (Vec::new(), Vec::new());
        while let Some(ended) = sending.join_next().await {
            let (alert, outcome) = match ended {
                Ok(ended) => ended,
                Err(fault) => {
                    // Nobody says what became of it: it comes back when nobody holds it any more.
                    tracing::error!(%fault, "sending an alert ended early");
                    continue;
                }
            };
            let (merchant_id, alert_id) = key(&alert);
            match outcome {
                Ok(()) => sent.push((merchant_id, alert_id)),
                Err(fault) => {
                    let wait = SEND_RETRY.delay_after(alert.attempts);
                    metrics::counter!("settle_alerts_send_failures_total").increment(1);
                    tracing::warn!(%alert_id, attempts = alert.attempts, %fault, ?wait, "an alert was not sent");
                    put_off.push(PutOff { merchant_id, alert_id, due_at: self.clock.now().plus(wait) });
                }
            }
        }
        (sent, put_off)
    }
}

/// What an alert is known by.
fn key(alert: &Alert) -> (MerchantId, AlertId) {
    (alert.merchant_id, alert.alert_id)
}

/// The line in the log, and the count.
fn announce(alert: &Alert) {
    metrics::counter!("settle_alerts_raised_total").increment(1);
    let named = alert.delivery_ids.len().min(LOGGED_IDS_MAX);
    tracing::error!(
        alert_id = %alert.alert_id,
        merchant_id = %alert.merchant_id,
        url = message::without_query(&alert.url),
        deaths = alert.deaths,
        last_error = alert.last_error,
        delivery_ids = ?&alert.delivery_ids[..named],
        "deliveries are dead: their last attempts failed"
    );
}
