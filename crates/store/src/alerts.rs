//! Alerts: what operations must hear of deliveries that died.
//!
//! An alert is of one endpoint, and opens with its first death. While it is open further deaths are added to
//! it; taking it to be sent closes it, and the endpoint's next alert waits: first for a quiet time, and then
//! until this one is sent. So an endpoint has at most one alert under way and one that counts, however many
//! deliveries die and however long nobody can be told.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{AlertId, DeliveryId, MerchantId};
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;

use crate::{MerchantLock, StoreResult};

/// Deliveries that an alert names; further ones are only counted.
pub const ALERT_DELIVERIES_MAX: usize = 100;

/// A delivery whose last attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// Whose it was.
    pub merchant_id: MerchantId,
    /// The endpoint it should have reached.
    pub url: String,
    /// Which delivery.
    pub delivery_id: DeliveryId,
    /// Why the last attempt failed.
    pub last_error: String,
}

/// What operations are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// Which alert; it stays the same however often it is sent.
    pub alert_id: AlertId,
    /// Whose deliveries died.
    pub merchant_id: MerchantId,
    /// The endpoint they should have reached.
    pub url: String,
    /// How many died.
    pub deaths: u64,
    /// The first of them, at most [`ALERT_DELIVERIES_MAX`].
    pub delivery_ids: Vec<DeliveryId>,
    /// Why the last one of them died.
    pub last_error: String,
    /// When the first one died.
    pub first_at: Timestamp,
    /// When the last one died.
    pub last_at: Timestamp,
    /// How often it was taken to be sent.
    pub attempts: i32,
}

/// Deaths of one endpoint, and the id of the alert that they open unless there is an open one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointDeaths {
    /// The id of a new alert.
    pub alert_id: AlertId,
    /// Whose deliveries died.
    pub merchant_id: MerchantId,
    /// The endpoint.
    pub url: String,
    /// How many died.
    pub deaths: u64,
    /// The first of them, at most [`ALERT_DELIVERIES_MAX`].
    pub delivery_ids: Vec<DeliveryId>,
    /// Why the last one of them died.
    pub last_error: String,
}

/// Deaths by their endpoints, each endpoint once, in the order of the merchants' ids.
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

/// An alert that could not be sent, and when to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutOff {
    /// Whose it is.
    pub merchant_id: MerchantId,
    /// Which alert.
    pub alert_id: AlertId,
    /// When it is due again.
    pub due_at: Timestamp,
}

/// Questions about alerts.
#[async_trait]
pub trait AlertReads {
    /// Whether [`AlertWrites::alert_take`] would find something: looking costs no transaction.
    async fn alert_any_due(&self, now: Timestamp) -> StoreResult<bool>;
}

/// Changes to alerts.
#[async_trait]
pub trait AlertWrites {
    /// Adds deaths to the open alerts of their endpoints, or opens them: due at once, or the quiet time after
    /// the endpoint's last alert was closed, whichever is later. Called in the transaction that records the
    /// deaths.
    async fn alert_raise_many(
        &mut self,
        lock: &MerchantLock,
        deaths: &[Death],
        at: Timestamp,
        quiet: Duration,
        entropy: &dyn Entropy,
    ) -> StoreResult<()>;

    /// Takes alerts that are due and not sent, the first due first, and closes them. Each counts an attempt,
    /// and is due again at the given time in case that nobody says what became of it; until then no other
    /// node takes it.
    async fn alert_take(
        &mut self,
        now: Timestamp,
        hold_until: Timestamp,
        limit: u32,
    ) -> StoreResult<Vec<Alert>>;

    /// Remembers that alerts were sent: they are never due again.
    async fn alert_sent(&mut self, alerts: &[(MerchantId, AlertId)], at: Timestamp) -> StoreResult<()>;

    /// Makes alerts that could not be sent due at another time.
    async fn alert_put_off(&mut self, alerts: &[PutOff]) -> StoreResult<()>;
}
