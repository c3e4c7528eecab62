//! Whether the process lives (`/healthz`) and can work (`/readyz`), on both listeners.
//!
//! `/readyz` answers 200 with `"status": "ready"`, or 503 with `"status": "not ready"` and a `reason`, which
//! is one of a few fixed texts; the operator's listener adds which rights the database role lacks. In a
//! process that sends, `dispatcher` says where its dispatcher stands, and in one that settles `engine` where
//! its engine does:
//!
//! | word | what it means |
//! |---|---|
//! | `starting` | it asks the database for the first time whether it may work; after 15 s not ready |
//! | `serving` | it does the work of its share of the merchants |
//! | `standing by` | another process does it on the same SQLite file; this one takes over when it ends |
//! | `absent` | it cannot show in the database that it lives, so it must not work; after 15 s not ready |
//! | `failing` | it may work, but a call that it cannot do without fails every time; after 15 s not ready |
//!
//! Anybody may ask, so a database that is ready is asked once a second, however many do; of one that is not,
//! all who wait for an answer share it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::json;
use settle_domain::error_code::ErrorCode;
use settle_outbox::recorder::Recorder;
use settle_shards::keeper::Standing;
use settle_store::{Store, StoreError, answered};
use tokio::sync::{Mutex, watch};
use tokio::time::Instant;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;

/// How long the database may take to answer before the service counts as not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a dispatcher or an engine may be absent or fail: longer than it takes to find out that a
/// connection has vanished, and to make another.
const ABSENT_MAX: Duration = Duration::from_secs(15);
/// How long the recorder may write one transaction.
const RECORDING_MAX: Duration = Duration::from_secs(5);
/// How often the database is asked, and how often it is given something to write and asked for the role's
/// rights, at most.
const ASK_INTERVAL: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// How many missing rights an answer names.
const RIGHTS_NAMED: usize = 5;

/// What the answers depend on. Cheap to clone.
#[derive(Clone)]
pub struct Health {
    store: Arc<dyn Store>,
    /// Set when the service is stopping: `/readyz` then asks for no new traffic.
    draining: Arc<AtomicBool>,
    standings: Standings,
    /// Records settlements; `None` when the process records none.
    recorder: Option<Recorder>,
    asked: Arc<Mutex<Asked>>,
    /// Whether the answers may name what the database has.
    is_for_operators: bool,
}

/// Why the service is not ready.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    /// In one of a few texts.
    Text(&'static str),
    /// The database role lacks rights: these, if it may ask which.
    Rights(Option<Arc<str>>),
}

/// Where the keepers of this process stand.
#[derive(Clone, Default)]
pub struct Standings {
    /// The dispatcher's; `None` when the process does not send.
    pub dispatcher: Option<watch::Receiver<Standing>>,
    /// The engine's; `None` when the process does not settle.
    pub engine: Option<watch::Receiver<Standing>>,
}

/// What the database answered last.
#[derive(Debug, Default)]
struct Asked {
    /// When it answered, and why the service is not ready.
    last: Option<(Instant, Option<Reason>)>,
    /// When it was given something to write, and whether it refused.
    written: Option<(Instant, bool)>,
    /// When it was asked for the role's rights, and which are missing.
    rights: Option<(Instant, Option<Arc<str>>)>,
}

impl Health {
    /// The health of a service with this store.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        draining: Arc<AtomicBool>,
        standings: Standings,
        recorder: Option<Recorder>,
    ) -> Health {
        Health { store, draining, standings, recorder, asked: Arc::default(), is_for_operators: false }
    }

    /// The same, with answers for operators, who may read the names of tables.
    pub(crate) fn for_operators(self) -> Health {
        Health { is_for_operators: true, ..self }
    }

    /// How long the transaction has taken that records settlements at the moment.
    pub(crate) fn recording_for(&self) -> Duration {
        self.recorder.as_ref().map_or(Duration::ZERO, Recorder::busy_for)
    }

    /// Where the dispatcher of this process stands, if it has one.
    pub(crate) fn dispatcher(&self) -> Option<Standing> {
        self.standings.dispatcher.as_ref().map(|standing| *standing.borrow())
    }

    /// Where the engine of this process stands, if it has one.
    pub(crate) fn engine(&self) -> Option<Standing> {
        self.standings.engine.as_ref().map(|standing| *standing.borrow())
    }

    /// Why the service cannot work.
    async fn reason(&self) -> Option<Reason> {
        if let Some(text) = self.standing_still() {
            return Some(Reason::Text(text));
        }
        let asked = self.asked().await;
        // A right that is missing may be why nothing is done, and is what operators can mend.
        match (asked, self.idle()) {
            (Some(Reason::Rights(missing)), _) => Some(Reason::Rights(missing)),
            (_, Some(text)) => Some(Reason::Text(text)),
            (asked, None) => asked,
        }
    }

    /// Why the database keeps the service from working.
    async fn asked(&self) -> Option<Reason> {
        let came_at = Instant::now();
        let mut asked = self.asked.lock().await;
        if let Some((at, reason)) = &asked.last {
            // Whoever came while the database was being asked shares the answer: were each to ask in turn, a
            // database that hangs would keep the last of them waiting for all the others.
            let is_fresh = *at >= came_at || (reason.is_none() && at.elapsed() < ASK_INTERVAL);
            if is_fresh {
                return reason.clone();
            }
        }
        let reason = asked.ask(&*self.store).await;
        asked.last = Some((Instant::now(), reason.clone()));
        reason
    }

    /// What the process knows without asking the database.
    fn standing_still(&self) -> Option<&'static str> {
        if self.draining.load(Ordering::Relaxed) {
            return Some("draining");
        }
        if self.recording_for() > RECORDING_MAX {
            return Some("the recorder is stuck: the database does not finish what it is given to write");
        }
        None
    }

    /// Why nobody in this process does its work.
    fn idle(&self) -> Option<&'static str> {
        let (dispatcher, engine) = (self.dispatcher(), self.engine());
        if is_absent(dispatcher) {
            return Some("the dispatcher is absent: it cannot show in the database that it lives");
        }
        if is_failing(dispatcher) {
            return Some("the dispatcher is failing: the database does not do what it asks");
        }
        if is_absent(engine) && matches!(engine, Some(Standing::Starting(_))) {
            return Some("the engine has not started: the database does not tell what it must know first");
        }
        if is_absent(engine) {
            return Some("the engine is absent: it cannot show in the database that it lives");
        }
        if is_failing(engine) {
            return Some("the engine is failing: the database does not do what it asks");
        }
        None
    }
}

impl Reason {
    fn words(&self, is_for_operators: bool) -> String {
        match self {
            Reason::Text(text) => (*text).to_owned(),
            Reason::Rights(missing) => {
                let code = ErrorCode::DatabaseGrantMissing;
                let missing = missing.as_ref().filter(|_| is_for_operators);
                let which = missing.map_or_else(String::new, |missing| format!(": {missing}"));
                format!("{code}: the database role lacks rights that the service needs{which}")
            }
        }
    }
}

impl Asked {
    async fn ask(&mut self, store: &dyn Store) -> Option<Reason> {
        let text = match answered(READY_TIMEOUT, store.migrations_pending()).await {
            Some(Ok(0)) => {
                if let Some(missing) = self.rights_missing(store).await {
                    return Some(Reason::Rights(Some(missing)));
                }
                if !self.is_write_refused(store).await {
                    return None;
                }
                "the database accepts no writes"
            }
            Some(Ok(_)) => "migrations are pending",
            Some(Err(StoreError::LaterVersion)) => "the database was made by a later version",
            Some(Err(fault)) if fault.is_grant_missing() => {
                return Some(Reason::Rights(self.rights_missing(store).await));
            }
            Some(Err(fault)) => {
                tracing::warn!(cause = ?fault, "not ready");
                "the database does not answer"
            }
            None => "the database does not answer in time",
        };
        Some(Reason::Text(text))
    }

    /// What the role may not do although the service needs it, in words. A database that does not say proves
    /// nothing: what it said last counts.
    async fn rights_missing(&mut self, store: &dyn Store) -> Option<Arc<str>> {
        if let Some((_, missing)) = self.rights.as_ref().filter(|(at, _)| at.elapsed() < PROBE_INTERVAL) {
            return missing.clone();
        }
        let Some(Ok(missing)) = answered(READY_TIMEOUT, store.rights_missing()).await else {
            let known = self.rights.take().and_then(|(_, missing)| missing);
            self.rights = Some((Instant::now(), known.clone()));
            return known;
        };
        let missing = (!missing.is_empty()).then(|| {
            let (first, more) = missing.split_at(missing.len().min(RIGHTS_NAMED));
            let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
            let code = ErrorCode::DatabaseGrantMissing;
            tracing::error!(%code, ?missing, "the database role lacks rights that the service needs");
            Arc::from(format!("{}{more}", first.join(", ")))
        });
        self.rights = Some((Instant::now(), missing.clone()));
        missing
    }

    /// A write that waits, behind a long transaction for instance, is no proof of anything.
    async fn is_write_refused(&mut self, store: &dyn Store) -> bool {
        if let Some((_, is_refused)) = self.written.filter(|(at, _)| at.elapsed() < PROBE_INTERVAL) {
            return is_refused;
        }
        let refusal = answered(READY_TIMEOUT, store.write_probe()).await.and_then(Result::err);
        if let Some(cause) = &refusal {
            tracing::warn!(?cause, "the database accepts no writes");
        }
        self.written = Some((Instant::now(), refusal.is_some()));
        refusal.is_some()
    }
}

/// `/healthz` and `/readyz`.
pub(crate) fn router(health: Health) -> Router {
    let (router, _) = operations().split_for_parts();
    router.method_not_allowed_fallback(async || ApiError::MethodNotAllowed).with_state(health)
}

/// The same, with what each says of itself for the operators' document.
pub(crate) fn operations() -> OpenApiRouter<Health> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz))
}

/// That the process lives.
#[derive(ToSchema)]
#[schema(as = Liveness)]
#[expect(dead_code, reason = "only its schema is used")]
struct LivenessSchema {
    #[schema(examples("ok"))]
    status: String,
}

/// Whether the service can work.
#[derive(ToSchema)]
#[schema(as = Readiness)]
#[expect(dead_code, reason = "only its schema is used")]
struct ReadinessSchema {
    /// `ready` or `not ready`.
    #[schema(examples("ready"))]
    status: String,
    /// Why it is not ready; only then.
    #[schema(value_type = String, required = false, examples("migrations are pending"))]
    reason: Option<String>,
    /// Where the dispatcher of a process that sends stands: `starting`, `serving`, `standing by`, `absent` or
    /// `failing`.
    #[schema(value_type = String, required = false, examples("serving"))]
    dispatcher: Option<String>,
    /// Where the engine of a process that settles stands: `starting`, `serving`, `standing by`, `absent` or
    /// `failing`.
    #[schema(value_type = String, required = false, examples("serving"))]
    engine: Option<String>,
}

/// Say whether the process lives
#[utoipa::path(
    get,
    path = "/healthz",
    operation_id = "showHealth",
    tag = "Health",
    security(()),
    responses((status = 200, description = "It does.", body = LivenessSchema))
)]
async fn healthz() -> Response {
    crate::http::json(json!({ "status": "ok" }).to_string())
}

/// Say whether the service can work
///
/// It can if the database answers, accepts writes, grants what the service needs and has the schema of this
/// version, settlements are recorded, dispatcher and engine serve or stand by, and the service is not
/// stopping.
#[utoipa::path(
    get,
    path = "/readyz",
    operation_id = "showReadiness",
    tag = "Health",
    security(()),
    responses(
        (status = 200, description = "It can.", body = ReadinessSchema),
        (status = 503, description = "It cannot.", body = ReadinessSchema),
    )
)]
async fn readyz(State(health): State<Health>) -> Response {
    let reason = health.reason().await;
    let mut answer = json!({ "status": if reason.is_none() { "ready" } else { "not ready" } });
    if let Some(reason) = &reason {
        answer["reason"] = reason.words(health.is_for_operators).into();
    }
    if let Some(standing) = health.dispatcher() {
        answer["dispatcher"] = word(standing).into();
    }
    if let Some(standing) = health.engine() {
        answer["engine"] = word(standing).into();
    }
    let mut response = crate::http::json(answer.to_string());
    if reason.is_some() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// Whether a keeper has been absent for too long.
fn is_absent(standing: Option<Standing>) -> bool {
    match standing {
        Some(Standing::Starting(since) | Standing::Absent(since)) => since.elapsed() > ABSENT_MAX,
        Some(Standing::StandingBy | Standing::Failing(_) | Standing::Present) | None => false,
    }
}

/// Whether a keeper's tenant has failed for too long.
fn is_failing(standing: Option<Standing>) -> bool {
    matches!(standing, Some(Standing::Failing(since)) if since.elapsed() > ABSENT_MAX)
}

/// What operators read of where a keeper stands.
pub(crate) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Starting(_) => "starting",
        Standing::Present => "serving",
        Standing::StandingBy => "standing by",
        Standing::Absent(_) => "absent",
        Standing::Failing(_) => "failing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_domain::ids::SettlementId;
    use settle_domain::seams::{ManualClock, SeededEntropy};
    use settle_outbox::Outbox;
    use settle_outbox::wake::Wake;
    use settle_store::conformance::fixtures;

    async fn answer(health: &Health) -> (StatusCode, serde_json::Value) {
        let response = readyz(State(health.clone())).await;
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    /// A transaction that another one holds up stands for a database that does not answer.
    #[tokio::test(start_paused = true)]
    async fn a_recorder_that_is_stuck_is_not_ready_until_it_records_again() {
        let store = settle_store_sqlite::testing::scratch().await.migrated().await;
        let merchant = fixtures::merchant(&*store).await;
        let (clock, entropy) = (Arc::new(ManualClock::at(fixtures::at(1))), Arc::new(SeededEntropy::new(1)));
        let recorder = Recorder::start(Outbox::of_service(store.share(), Wake::default(), clock, entropy));
        let health = Health::new(store.share(), Arc::default(), Standings::default(), Some(recorder.clone()));
        let ready = (StatusCode::OK, json!({ "status": "ready" }));
        assert_eq!(answer(&health).await, ready, "it has nothing to record");

        let in_the_way = store.begin().await.unwrap();
        let settlement = fixtures::settlement(merchant, SettlementId(uuid::Uuid::nil()), fixtures::at(1));
        let asked = tokio::spawn(async move { recorder.record(vec![settlement]).await });
        while health.recording_for().is_zero() {
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        tokio::time::advance(RECORDING_MAX.saturating_sub(health.recording_for())).await;
        assert_eq!(health.recording_for(), RECORDING_MAX);
        assert_eq!(health.standing_still(), None, "it may take so long");
        tokio::time::advance(Duration::from_millis(1)).await;
        let reason = "the recorder is stuck: the database does not finish what it is given to write";
        let not_ready = json!({ "status": "not ready", "reason": reason });
        assert_eq!(answer(&health).await, (StatusCode::SERVICE_UNAVAILABLE, not_ready));

        drop(in_the_way);
        assert_eq!(asked.await.unwrap().unwrap().recorded, 1);
        assert_eq!(answer(&health).await, ready);
    }
}
