//! Alerts: they tell operations what a person should know at once.
//!
//! An alert is about one subject of one kind (the endpoint whose deliveries die, the reason for which a
//! merchant's payments need review, a provider), and opens with its first occurrence. Further ones are added
//! to it while it is open. The alerter takes it to send it, which closes it; the subject's next alert then
//! waits for a quiet time, and until this one is sent. So a subject has at most one alert being sent and one
//! that counts, however much happens and however long sending fails.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::alert::AlertKind;
use settle_domain::ids::{AlertId, DeliveryId, MerchantId};
use settle_domain::seams::Entropy;
use settle_domain::time::Timestamp;
use uuid::Uuid;

use crate::{DueTime, MerchantLock, StoreResult};

/// The most deliveries, payments or operations that an alert names; it only counts further ones.
pub const ALERT_IDS_MAX: usize = 100;

/// How long a subject's next alert waits after the last one, and counts what happens meanwhile.
pub const ALERT_QUIET: Duration = Duration::from_mins(5);

/// Something that operators are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// Whose affair it is; `None` for the whole house's.
    pub merchant_id: Option<MerchantId>,
    /// What it is about.
    pub kind: AlertKind,
    /// What is told together: an endpoint, a reason, a provider.
    pub subject: String,
    /// The delivery, payment or operation.
    pub id: Option<Uuid>,
    /// What happened, for people.
    pub text: String,
}

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

impl From<&Death> for Occurrence {
    fn from(death: &Death) -> Occurrence {
        Occurrence {
            merchant_id: Some(death.merchant_id),
            kind: AlertKind::DeliveriesDead,
            subject: death.url.clone(),
            id: Some(death.delivery_id.0),
            text: death.last_error.clone(),
        }
    }
}

/// A message to operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alert {
    /// The alert's id; it stays the same however often the alert is sent.
    pub alert_id: AlertId,
    /// Whose affair it is; nil for the whole house's.
    pub merchant_id: MerchantId,
    /// What it is about.
    pub kind: AlertKind,
    /// What is told together: an endpoint, a reason, a provider.
    pub subject: String,
    /// How often it happened.
    pub occurrences: u64,
    /// The first deliveries, payments or operations, at most [`ALERT_IDS_MAX`].
    pub ids: Vec<Uuid>,
    /// What happened last.
    pub last_text: String,
    /// When it happened first.
    pub first_at: Timestamp,
    /// When it happened last.
    pub last_at: Timestamp,
    /// How often the alerter took it to send it.
    pub attempts: i32,
}

/// What happened to one subject, and the id of the alert that it opens if none is open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Happened {
    /// The id of a new alert.
    pub alert_id: AlertId,
    /// Whose affair it is; nil for the whole house's.
    pub merchant_id: MerchantId,
    /// What it is about.
    pub kind: AlertKind,
    /// What is told together.
    pub subject: String,
    /// How often it happened.
    pub occurrences: u64,
    /// The first deliveries, payments or operations, at most [`ALERT_IDS_MAX`].
    pub ids: Vec<Uuid>,
    /// What happened last.
    pub last_text: String,
}

/// Groups occurrences by subject, each subject once, in the order of the merchants' ids.
#[must_use]
pub fn by_subject(occurrences: &[Occurrence], at: Timestamp, entropy: &dyn Entropy) -> Vec<Happened> {
    let mut subjects: BTreeMap<(MerchantId, AlertKind, &str), Happened> = BTreeMap::new();
    for occurrence in occurrences {
        let merchant_id = occurrence.merchant_id.unwrap_or(MerchantId::NIL);
        let Occurrence { kind, subject, id, text, .. } = occurrence;
        let happened = subjects.entry((merchant_id, *kind, subject)).or_insert_with(|| Happened {
            alert_id: AlertId::new(at, entropy),
            merchant_id,
            kind: *kind,
            subject: subject.clone(),
            occurrences: 0,
            ids: Vec::new(),
            last_text: String::new(),
        });
        happened.occurrences += 1;
        if happened.ids.len() < ALERT_IDS_MAX {
            happened.ids.extend(*id);
        }
        happened.last_text.clone_from(text);
    }
    subjects.into_values().collect()
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
pub trait AlertWrites: Send {
    /// Adds deaths to the alerts of their endpoints: see [`AlertWrites::alert_tell_many`].
    async fn alert_raise_many(
        &mut self,
        lock: &MerchantLock,
        deaths: &[Death],
        at: Timestamp,
        quiet: Duration,
        entropy: &dyn Entropy,
    ) -> StoreResult<()> {
        let occurrences: Vec<Occurrence> = deaths.iter().map(Occurrence::from).collect();
        self.alert_tell_many(Some(lock), &occurrences, at, quiet, entropy).await
    }

    /// Adds occurrences to the open alerts of their subjects, or opens new ones. A new alert is due at once,
    /// or when the quiet time has passed since the subject's last alert was closed, whichever is later; but
    /// not later than the quiet time from now, whatever clock closed the last one. Call it in the transaction
    /// that learns of them, after all other locks are taken. The lock covers the merchants; the whole house's
    /// affairs need none.
    async fn alert_tell_many(
        &mut self,
        lock: Option<&MerchantLock>,
        occurrences: &[Occurrence],
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
