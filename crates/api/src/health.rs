//! Whether the process lives (`/healthz`), can work (`/readyz`), and what it measures (`/metrics`).
//!
//! `/readyz` answers 200 with `"status": "ready"`, or 503 with `"status": "not ready"` and a `reason`, which
//! is one of a few fixed texts. In a process that sends, `dispatcher` says where its dispatcher stands:
//!
//! | `dispatcher` | what it means |
//! |---|---|
//! | `serving` | it sends the notifications of its share of the merchants |
//! | `standing by` | another process sends from the same SQLite file; this one takes over when it ends |
//! | `absent` | it cannot show in the database that it lives, so it must not send; after 15 s not ready |

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use settle_shards::keeper::Standing;
use settle_store::Store;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::OperatorState;

/// How long the database may take to answer before the service counts as not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a dispatcher may be absent: longer than it takes to find out that a connection has vanished, and
/// to make another.
const ABSENT_MAX: Duration = Duration::from_secs(15);
/// How long the recorder may write one transaction.
const RECORDING_MAX: Duration = Duration::from_secs(5);
/// How often the database is given something to write, at most, however many ask.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Whether the database accepted the last write that it was given as a test. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct WriteProbe(Arc<Mutex<Option<(Instant, bool)>>>);

impl WriteProbe {
    /// A write that waits, behind an import for instance, is no proof of anything.
    async fn is_refused(&self, store: &dyn Store) -> bool {
        let mut last = self.0.lock().await;
        if let Some((_, is_refused)) = last.filter(|(at, _)| at.elapsed() < PROBE_INTERVAL) {
            return is_refused;
        }
        let refusal = match timeout(READY_TIMEOUT, store.write_probe()).await {
            Ok(written) => written.err(),
            Err(_) => None,
        };
        if let Some(cause) = &refusal {
            tracing::warn!(?cause, "the database accepts no writes");
        }
        *last = Some((Instant::now(), refusal.is_some()));
        refusal.is_some()
    }
}

/// Says that the process lives.
pub(super) async fn healthz() -> Response {
    crate::http::json(json!({ "status": "ok" }).to_string())
}

/// Says whether the service can work: the database answers, accepts writes, has the schema of this version,
/// settlements are recorded, the dispatcher serves or stands by, and the service is not stopping.
pub(super) async fn readyz(State(state): State<OperatorState>) -> Response {
    let reason = match standing_still(&state) {
        Some(reason) => Some(reason),
        None => unready(&state).await,
    };
    let mut answer = json!({ "status": if reason.is_none() { "ready" } else { "not ready" } });
    if let Some(reason) = reason {
        answer["reason"] = reason.into();
    }
    if let Some(standing) = standing(&state) {
        answer["dispatcher"] = word(standing).into();
    }
    let mut response = crate::http::json(answer.to_string());
    if reason.is_some() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

/// What the process knows without asking the database.
fn standing_still(state: &OperatorState) -> Option<&'static str> {
    if state.draining.load(Ordering::Relaxed) {
        return Some("draining");
    }
    if state.recorder.busy_for() > RECORDING_MAX {
        return Some("the recorder is stuck: the database does not finish what it is given to write");
    }
    match standing(state) {
        Some(Standing::Absent(since)) if since.elapsed() > ABSENT_MAX => {
            Some("the dispatcher is absent: it cannot show in the database that it lives")
        }
        _ => None,
    }
}

async fn unready(state: &OperatorState) -> Option<&'static str> {
    match timeout(READY_TIMEOUT, state.store.migrations_pending()).await {
        Ok(Ok(0)) if state.write_probe.is_refused(&*state.store).await => {
            Some("the database accepts no writes")
        }
        Ok(Ok(0)) => None,
        Ok(Ok(_)) => Some("migrations are pending"),
        Ok(Err(fault)) => {
            tracing::warn!(cause = ?fault, "not ready");
            Some("the database does not answer")
        }
        Err(_) => Some("the database does not answer in time"),
    }
}

fn standing(state: &OperatorState) -> Option<Standing> {
    state.dispatcher.as_ref().map(|standing| *standing.borrow())
}

fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Present => "serving",
        Standing::StandingBy => "standing by",
        Standing::Absent(_) => "absent",
    }
}

/// Prints the metrics for Prometheus. Those that only grow old are measured now.
pub(super) async fn print_metrics(State(state): State<OperatorState>) -> Response {
    metrics::gauge!("settle_recorder_busy_seconds").set(state.recorder.busy_for().as_secs_f64());
    if let Some(now) = standing(&state) {
        for (state, is_it) in [
            ("serving", now == Standing::Present),
            ("standing by", now == Standing::StandingBy),
            ("absent", matches!(now, Standing::Absent(_))),
        ] {
            metrics::gauge!("settle_dispatcher_state", "state" => state).set(f64::from(u8::from(is_it)));
        }
    }
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], state.metrics.render()).into_response()
}
