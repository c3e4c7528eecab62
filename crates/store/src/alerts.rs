//! Alerts: they tell operations about deliveries that died.
//!
//! An alert is about one endpoint, and opens with its first death. Further deaths are added to it while it is
//! open. The alerter takes it to send it, which closes it; the endpoint's next alert then waits for a quiet
//! time, and until this one is sent. So an endpoint has at most one alert being sent and one that counts,
//! however many deliveries die and however long sending fails.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{AlertId, DeliveryId, MerchantId};
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;

use crate::{DueTime, MerchantLock, StoreResult};

/// The most deliveries that an alert names; it only counts further ones.
pub const ALERT_DELIVERIES_MAX: usize = 100;

/// A delivery whose last attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
    /// The endpoint that it was sent to.
    pub url: String,
    /// The delivery's id.
    pub delivery_id: DeliveryId,
    /// Why the last attempt failed.
    pub last_error: String,
}

/// A message to operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The alert's id; it stays the same however often the alert is sent.
    pub alert_id: AlertId,
    /// The merchant whose deliveries died.
    pub merchant_id: MerchantId,
    /// The endpoint that they were sent to.
    pub url: String,
    /// How many died.
    pub deaths: u64,
    /// The first deliveries that died, at most [`ALERT_DELIVERIES_MAX`].
    pub delivery_ids: Vec<DeliveryId>,
    /// Why the last one died.
    pub last_error: String,
    /// When the first one died.
    pub first_at: Timestamp,
    /// When the last one died.
    pub last_at: Timestamp,
    /// How often the alerter took it to send it.
    pub attempts: i32,
}

/// The deaths of one endpoint, and the id of the alert that they open if none is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointDeaths {
    /// The id of a new alert.
    pub alert_id: AlertId,
    /// The merchant whose deliveries died.
    pub merchant_id: MerchantId,
    /// The endpoint.
    pub url: String,
    /// How many died.
    pub deaths: u64,
    /// The first deliveries that died, at most [`ALERT_DELIVERIES_MAX`].
    pub delivery_ids: Vec<DeliveryId>,
    /// Why the last one died.
    pub last_error: String,
}

/// Groups deaths by endpoint, each endpoint once, in the order of the merchants' ids.
#[must_use]
pub fn by_endpoint(deaths: &[Death], at: Timestamp, entropy: &dyn Entropy) -> Vec<EndpointDeaths> {
    let mut endpoints: BTreeMap<(MerchantId, &str), EndpointDeaths> = BTreeMap::new();
    for death in deaths {
        let endpoint = endpoints.entry((death.merchant_id, &death.url)).or_insert_with(|| EndpointDeaths {
            alert_id: AlertId::new(at, entropy),
            merchant_id: death.merchant_id,
            url: death.url.clone(),
            deaths: 0,
            delivery_ids: Vec::new(),
            last_error: String::new(),
        });
        endpoint.deaths += 1;
        if endpoint.delivery_ids.len() < ALERT_DELIVERIES_MAX {
            endpoint.delivery_ids.push(death.delivery_id);
        }
        endpoint.last_error.clone_from(&death.last_error);
    }
    endpoints.into_values().collect()
}

/// An alert that the alerter could not send, and when to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutOff {
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
    /// The alert's id.
    pub alert_id: AlertId,
    /// When it is due again.
    pub due_at: Timestamp,
}

/// Questions about alerts.
#[async_trait]
pub trait AlertReads {
    /// Whether [`AlertWrites::alert_take`] would find an alert, asked without a transaction.
    async fn alert_any_due(&self, due: DueTime) -> StoreResult<bool>;
}

/// Changes to alerts.
#[async_trait]
pub trait AlertWrites {
    /// Adds deaths to the open alerts of their endpoints, or opens alerts. A new alert is due at once, or the
    /// quiet time after the endpoint's last alert was closed, whichever is later; but not later than the
    /// quiet time from now, whatever clock closed the last one. Call it in the transaction that records the
    /// deaths.
    async fn alert_raise_many(
        &mut self,
        lock: &MerchantLock,
        deaths: &[Death],
        at: Timestamp,
        quiet: Duration,
        entropy: &dyn Entropy,
    ) -> StoreResult<()>;

    /// Takes alerts that are due and not sent, the first due first, and closes them. Each take counts as an
    /// attempt and makes the alert due again at `hold_until`, in case the node dies; until then no other node
    /// takes it.
    async fn alert_take(
        &mut self,
        due: DueTime,
        hold_until: Timestamp,
        limit: u32,
    ) -> StoreResult<Vec<Alert>>;

    /// Marks alerts as sent: they are never due again.
    async fn alert_sent(&mut self, alerts: &[(MerchantId, AlertId)], at: Timestamp) -> StoreResult<()>;

    /// Sets when alerts that could not be sent are due again.
    async fn alert_put_off(&mut self, alerts: &[PutOff]) -> StoreResult<()>;
}
