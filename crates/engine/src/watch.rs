//! The watch: a look every minute at what takes too long, which no transaction can learn by itself.
//!
//! Operators hear of payments that were blocked, or on their way, for longer than their corridor allows; of
//! providers whose wallets are out of gas, or whose memory is another than before; and of providers whose
//! circuits are open. Each is told once: the mark of the job says up to when lateness was told, and which
//! memory each provider had, and moves in the transaction that stores the alert, so that nothing is lost and
//! nothing told twice, whichever process looks. Circuits are each process's own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use serde::{Deserialize, Serialize};
use settle_domain::alert::AlertKind;
use settle_domain::corridor::ALERT_AFTER;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::provider::ProviderName;
use settle_domain::reason::Blocked;
use settle_domain::seams::{Clock, Entropy};
use settle_domain::time::Timestamp;
use settle_store::{
    ALERT_QUIET, CALL_TIMEOUT, DueTime, JobState, LatePayment, Occurrence, Store, StoreError, StoreResult,
    TakenJob, within,
};
use tokio::time::timeout;

use crate::case::json;
use crate::providers::Providers;

/// The name of its job.
const JOB: &str = "watch";
/// How often it looks.
pub const LOOK_INTERVAL: Duration = Duration::from_mins(1);
/// How long a process is alone with the job.
const HOLD: Duration = Duration::from_mins(2);
/// How long providers may take to say which memory they have; all are asked at once.
const INSTANCE_WAIT: Duration = Duration::from_secs(10);
/// Payments that are told in one transaction.
const LATE_A_PAGE: u32 = 500;

/// How far the watch is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Mark {
    /// Whoever was late by then has been told of; of those late at the same time, up to this payment.
    late_at: Timestamp,
    payment_id: PaymentId,
    /// Providers that were out of gas at the last look.
    out_of_gas: BTreeSet<ProviderName>,
    /// The memory that each provider had when it last said so.
    #[serde(default)]
    instances: BTreeMap<ProviderName, String>,
}

impl Default for Mark {
    fn default() -> Mark {
        Mark {
            late_at: Timestamp::MIN,
            payment_id: PaymentId::NIL,
            out_of_gas: BTreeSet::new(),
            instances: BTreeMap::new(),
        }
    }
}

/// Looks at what takes too long. Any number of processes may run one.
pub struct Watch {
    store: Arc<dyn Store>,
    providers: Providers,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    /// Providers of this process whose open circuits have been told of.
    open: Mutex<BTreeSet<ProviderName>>,
}

impl Watch {
    /// A watch over the store's payments and this process's providers.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        providers: Providers,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Watch {
        Watch { store, providers, clock, entropy, open: Mutex::default() }
    }

    /// Looks until `stop` ends. A look that is cut off is taken up by the next.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        tokio::pin!(stop);
        loop {
            let look = async {
                if let Err(error) = self.look().await {
                    tracing::warn!(%error, "what takes too long cannot be looked for");
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            };
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = look => {}
            }
        }
    }

    /// Looks once, and stores alerts of what it finds.
    pub async fn look(&self) -> StoreResult<()> {
        self.tell_circuits().await?;
        let now = self.clock.now();
        let Some(taken) = within(CALL_TIMEOUT, self.take(now)).await? else { return Ok(()) };
        let mut fence = taken.held_until;
        let mut mark: Mark = serde_json::from_str(&taken.mark).unwrap_or_default();
        // A clock that was ahead has told of what is not late yet: nobody else may be passed over for it.
        mark.late_at = mark.late_at.min(now);
        self.tell_gas(&mut mark, &mut fence).await?;
        self.tell_instances(&mut mark, &mut fence).await?;
        loop {
            let after = (mark.late_at, mark.payment_id);
            let late = self.store.payment_late(now, after, ALERT_AFTER, LATE_A_PAGE);
            let late = within(CALL_TIMEOUT, late).await?;
            if let Some(last) = late.last() {
                (mark.late_at, mark.payment_id) = (last.late_at, last.payment_id);
            }
            let is_last = late.len() < LATE_A_PAGE as usize;
            let occurrences: Vec<Occurrence> = late.iter().map(too_late).collect();
            let let_go = is_last.then_some(now);
            if !within(CALL_TIMEOUT, self.tell(&occurrences, &mark, &mut fence, let_go)).await? || is_last {
                return Ok(());
            }
        }
    }

    async fn take(&self, now: Timestamp) -> StoreResult<Option<TakenJob>> {
        let due = DueTime { by: now, beyond: now.plus(2 * LOOK_INTERVAL) };
        let mut tx = self.store.begin().await?;
        let taken = tx.job_take(JOB, now, due, HOLD).await?;
        tx.commit().await?;
        Ok(taken)
    }

    /// Stores alerts and how far the watch is. Says whether the job is still ours.
    async fn tell(
        &self,
        occurrences: &[Occurrence],
        mark: &Mark,
        fence: &mut Timestamp,
        let_go: Option<Timestamp>,
    ) -> StoreResult<bool> {
        let now = self.clock.now();
        let held_until = let_go.unwrap_or_else(|| now.plus(HOLD));
        let state = JobState { due_at: now.plus(LOOK_INTERVAL), held_until, mark: json(mark) };
        let merchants: BTreeSet<MerchantId> =
            occurrences.iter().filter_map(|occurrence| occurrence.merchant_id).collect();
        let merchants: Vec<MerchantId> = merchants.into_iter().collect();
        let mut tx = self.store.begin().await?;
        let lock = tx.merchant_lock(&merchants).await?;
        if !occurrences.is_empty() {
            tx.alert_tell_many(Some(&lock), occurrences, now, ALERT_QUIET, &*self.entropy).await?;
        }
        if !tx.job_keep(JOB, *fence, &state).await? {
            return Ok(false);
        }
        tx.commit().await?;
        *fence = held_until;
        Ok(true)
    }

    /// Providers that have run out of gas since the last look.
    async fn tell_gas(&self, mark: &mut Mark, fence: &mut Timestamp) -> StoreResult<()> {
        let blocked = self.store.payment_blocked(Blocked::PayoutWalletOutOfGas);
        let blocked = within(CALL_TIMEOUT, blocked).await?;
        let occurrences: Vec<Occurrence> = blocked
            .iter()
            .filter(|(provider, _)| !mark.out_of_gas.contains(provider))
            .map(|(provider, number)| Occurrence {
                merchant_id: None,
                kind: AlertKind::ProviderOutOfGas,
                subject: provider.to_string(),
                id: None,
                text: format!("{provider}'s wallet is out of gas: {number} payments wait for it"),
            })
            .collect();
        mark.out_of_gas = blocked.into_iter().map(|(provider, _)| provider).collect();
        self.tell_of_providers(&occurrences, mark, fence).await
    }

    /// Providers whose memory is another than when they last said which. Who does not say it now is compared
    /// when it does.
    async fn tell_instances(&self, mark: &mut Mark, fence: &mut Timestamp) -> StoreResult<()> {
        let asked = self.providers.all().map(|station| async move {
            let present = timeout(INSTANCE_WAIT, station.present_instance()).await.ok().flatten()?;
            Some((station.name().clone(), present))
        });
        let mut occurrences = Vec::new();
        for (provider, now) in join_all(asked).await.into_iter().flatten() {
            let before = mark.instances.insert(provider.clone(), now.clone());
            let Some(before) = before.filter(|before| *before != now) else { continue };
            occurrences.push(Occurrence {
                merchant_id: None,
                kind: AlertKind::ProviderMemoryChanged,
                subject: provider.to_string(),
                id: None,
                text: format!(
                    "{provider} has another memory, {now} instead of {before}: what it says was not done, it may not \
                     know"
                ),
            });
        }
        self.tell_of_providers(&occurrences, mark, fence).await
    }

    async fn tell_of_providers(
        &self,
        occurrences: &[Occurrence],
        mark: &Mark,
        fence: &mut Timestamp,
    ) -> StoreResult<()> {
        if occurrences.is_empty() {
            return Ok(());
        }
        let kept = within(CALL_TIMEOUT, self.tell(occurrences, mark, fence, None)).await?;
        if kept { Ok(()) } else { Err(StoreError::Unavailable("another process has the watch".into())) }
    }

    /// Circuits of this process that have opened since its last look.
    async fn tell_circuits(&self) -> StoreResult<()> {
        let open: BTreeSet<ProviderName> = self
            .providers
            .all()
            .filter(|station| !station.may_send() && !station.is_paused())
            .map(|station| station.name().clone())
            .collect();
        let known = self.open.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let occurrences: Vec<Occurrence> = open
            .difference(&known)
            .map(|provider| Occurrence {
                merchant_id: None,
                kind: AlertKind::ProviderCircuitOpen,
                subject: provider.to_string(),
                id: None,
                text: format!("{provider} does not answer: nothing is sent to it, look-ups go on"),
            })
            .collect();
        if !occurrences.is_empty() {
            within(CALL_TIMEOUT, async {
                let mut tx = self.store.begin().await?;
                let now = self.clock.now();
                tx.alert_tell_many(None, &occurrences, now, ALERT_QUIET, &*self.entropy).await?;
                tx.commit().await
            })
            .await?;
        }
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = open;
        Ok(())
    }
}

fn too_late(late: &LatePayment) -> Occurrence {
    let LatePayment { merchant_id, payment_id, state, blocked, provider, changed_at, .. } = late;
    let provider = provider.as_ref().map(|name| format!(" at {name}")).unwrap_or_default();
    let why = blocked.map_or("still on its way", Blocked::as_str);
    Occurrence {
        merchant_id: Some(*merchant_id),
        kind: AlertKind::PaymentBlocked,
        subject: blocked.map_or_else(|| state.to_string(), |blocked| blocked.to_string()),
        id: Some(payment_id.0),
        text: format!("payment {payment_id}{provider}, {state} since {changed_at}: {why}"),
    }
}
