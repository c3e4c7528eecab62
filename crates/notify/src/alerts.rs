//! Alerts: operators hear of deliveries that died, and of what else they must know, at least once.
//!
//! The transaction that records a death adds it to the open alert of its endpoint, or opens one ([`raise`]).
//! What the engine learns of payments and providers is told the same way, by subject and kind.
//! An [`Alerter`], on any node, takes the alerts that are due, which closes them, and commits. For each it
//! writes one error line to the log, counts it, and posts it to `alerts.url`. An answer with 2xx ends the
//! alert; anything else puts it off, for 1 s at first and 5 min at most, without an end. If a node dies in
//! between, another one takes the alert after a minute, so a receiver may get an alert twice, with the same
//! `alert_id`.
//!
//! An alert is about an endpoint, not about a delivery, because an endpoint that is down kills all its
//! deliveries. The first death is told at once. The deaths of the next five minutes, or of the time in which
//! the first alert cannot be sent, are counted in one more alert. So there are at most two unsent alerts per
//! endpoint, and the alerter never has to give up. A closed alert does not change: a receiver that
//! deduplicates by `alert_id` misses nothing.
//!
//! The guard does not judge `alerts.url`: it is the operator's own setting, and often in a private network.
//! The other limits of the sender hold: no redirects, no proxies, limits on time and on bytes read.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::alert::AlertKind;
use settle_domain::delivery::RetryPolicy;
use settle_domain::ids::{AlertId, MerchantId};
use settle_domain::seams::{Clock, Entropy};
use settle_domain::time::Timestamp;
use settle_store::{
    ALERT_QUIET, Alert, CALL_TIMEOUT, Death, DueTime, MerchantLock, PutOff, Store, StoreResult, Tx, within,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;

mod message;
mod sender;
mod url;

pub use sender::{AlertError, AlertSender, AlertTransport, SEND_TIMEOUT};
pub use url::{AlertUrl, AlertUrlFault};

/// How long an endpoint's next alert waits after the last one, and counts the deaths meanwhile.
pub const QUIET: Duration = ALERT_QUIET;
/// How often an alerter looks for alerts that are due.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long an alerter keeps an alert that it took from the others: longer than sending it can take.
pub const HOLD: Duration = Duration::from_mins(1);
/// Alerts sent at once.
const TAKEN_MAX: u32 = 16;
/// Deliveries, payments or operations named in a line of the log.
const LOGGED_IDS_MAX: usize = 10;
/// The waits between attempts to send an alert. There is no last attempt: operators must hear of deaths.
const SEND_RETRY: RetryPolicy =
    RetryPolicy { retry_first: Duration::from_secs(1), retry_max: QUIET, attempts_max: i32::MAX };
/// The waits between looks while the database does not answer.
const LOOK_RETRY: RetryPolicy =
    RetryPolicy { retry_first: LOOK_INTERVAL, retry_max: Duration::from_secs(30), attempts_max: i32::MAX };

/// Adds deaths to alerts, in the transaction that records them. The caller wakes the alerter after the
/// commit.
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

/// Tells an alerter at once that there may be something to send. It is only a hint: the alerter's next look
/// finds alerts that no hint announced. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct AlerterWake(Arc<Notify>);

impl AlerterWake {
    /// Tells the alerter that deaths were recorded.
    pub fn wake(&self) {
        self.0.notify_one();
    }

    /// Waits until somebody does.
    pub async fn woken(&self) {
        self.0.notified().await;
    }
}

/// Sends alerts. Any number of nodes may run an alerter.
pub struct Alerter {
    store: Arc<dyn Store>,
    /// `None` when alerts go to the log and the metrics alone.
    transport: Option<Arc<dyn AlertTransport>>,
    clock: Arc<dyn Clock>,
    wake: AlerterWake,
}

impl Alerter {
    /// An alerter for the store's alerts.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        transport: Option<Arc<dyn AlertTransport>>,
        clock: Arc<dyn Clock>,
    ) -> Alerter {
        Alerter { store, transport, clock, wake: AlerterWake::default() }
    }

    /// A handle that wakes this alerter.
    #[must_use]
    pub fn wake(&self) -> AlerterWake {
        self.wake.clone()
    }

    /// Sends alerts until `stop` ends; it finishes those that it is sending first. While the database does
    /// not answer, the alerter looks less and less often.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        let mut failures = 0;
        loop {
            let wait = match self.look().await {
                Ok(taken) => {
                    failures = 0;
                    // A full batch: there may be more.
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
                () = self.wake.woken(), if failures == 0 => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Takes the alerts that are due, sends them, and records which were sent. Returns how many it took.
    /// After an error they are due again when [`HOLD`] is over.
    pub async fn look(&self) -> StoreResult<usize> {
        let alerts = within(CALL_TIMEOUT, self.take()).await?;
        let taken = alerts.len();
        for alert in &alerts {
            // Without a transport the log line is the alert, and must come at least once.
            if alert.attempts == 1 || self.transport.is_none() {
                announce(alert);
            }
        }
        let (sent, put_off) = match &self.transport {
            Some(transport) => self.send(transport, alerts).await,
            None => (alerts.iter().map(key).collect(), Vec::new()),
        };
        if taken > 0 {
            within(CALL_TIMEOUT, self.record(&sent, &put_off)).await?;
        }
        Ok(taken)
    }

    /// Takes the alerts that are due.
    async fn take(&self) -> StoreResult<Vec<Alert>> {
        let now = self.clock.now();
        // Nothing waits for longer than the longest retry, which is the quiet time as well.
        let due = DueTime { by: now, beyond: SEND_RETRY.latest(now) };
        if !self.store.alert_any_due(due).await? {
            return Ok(Vec::new());
        }
        let mut tx = self.store.begin().await?;
        let alerts = tx.alert_take(due, now.plus(HOLD), TAKEN_MAX).await?;
        tx.commit().await?;
        Ok(alerts)
    }

    /// Records which alerts were sent, and when to try the others again.
    async fn record(&self, sent: &[(MerchantId, AlertId)], put_off: &[PutOff]) -> StoreResult<()> {
        let mut tx = self.store.begin().await?;
        tx.alert_sent(sent, self.clock.now()).await?;
        tx.alert_put_off(put_off).await?;
        tx.commit().await
    }

    /// Sends all alerts at the same time, so that together they take no longer than one. Returns those that
    /// arrived, and when to try the others again.
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
                    // Nothing is recorded, so the alert is due again when `HOLD` is over.
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

/// The key of an alert.
fn key(alert: &Alert) -> (MerchantId, AlertId) {
    (alert.merchant_id, alert.alert_id)
}

/// Writes the log line of an alert, and counts it.
fn announce(alert: &Alert) {
    metrics::counter!("settle_alerts_raised_total").increment(1);
    let named = &alert.ids[..alert.ids.len().min(LOGGED_IDS_MAX)];
    if alert.kind == AlertKind::DeliveriesDead {
        tracing::error!(
            alert_id = %alert.alert_id,
            merchant_id = %alert.merchant_id,
            url = message::without_query(&alert.subject),
            deaths = alert.occurrences,
            last_error = alert.last_text,
            delivery_ids = ?named,
            "deliveries are dead: their last attempts failed"
        );
        return;
    }
    let merchant_id = Some(alert.merchant_id).filter(|merchant| *merchant != MerchantId::NIL);
    tracing::error!(
        alert_id = %alert.alert_id,
        kind = %alert.kind,
        merchant_id = merchant_id.map(tracing::field::display),
        subject = alert.subject,
        occurrences = alert.occurrences,
        ids = ?named,
        "{}",
        alert.last_text
    );
}
