//! The operator's listener: the operator API under `/operator/v1`, `/healthz`, `/readyz` and `/metrics`.
//!
//! The operator API is not in `openapi.json`, which is the merchants' document. Where a merchant reads
//! `fields`, an operator reads `error.details`: English sentences that name the element and the field, for
//! the people who run the importing program.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use settle_domain::ids::OperatorId;
use settle_domain::vault::KeyRing;
use settle_outbox::recorder::Recorder;
use settle_store::Store;

use crate::error::ApiError;
use crate::http::{EnvelopeState, Lookups, envelope};

mod authentication;
mod details;
mod settlements;

use authentication::Operator;

/// How long the database may take to answer before the service counts as not ready.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// What the operator's listener can reach.
#[derive(Clone)]
pub struct OperatorState {
    /// The state of the envelope layer.
    pub envelope: EnvelopeState,
    /// The database.
    pub store: Arc<dyn Store>,
    /// The master keys.
    pub ring: Arc<KeyRing>,
    /// The look-ups of operators' tokens.
    pub operators: Lookups<OperatorId>,
    /// Records completed settlements.
    pub recorder: Recorder,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// Renders the metrics.
    pub metrics: PrometheusHandle,
    /// Set when the service is stopping: `/readyz` then asks for no new traffic.
    pub draining: Arc<AtomicBool>,
}

/// The operator API, `/healthz`, `/readyz` and `/metrics`.
pub(crate) fn router(state: OperatorState) -> Router {
    let operations = Router::new()
        .route("/operator/v1/settlements", post(settlements::record))
        .method_not_allowed_fallback(known_route);
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(print_metrics))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .merge(operations)
        .fallback(async || ApiError::NotFound)
        .layer(from_fn_with_state(state.envelope.clone(), envelope))
        .with_state(state)
}

/// Answers a known path with an unknown method. `Operator` judges the token first, as on every known path.
async fn known_route(_operator: Operator) -> ApiError {
    ApiError::MethodNotAllowed
}

/// Says that the process lives.
async fn healthz() -> Response {
    crate::http::json(json!({ "status": "ok" }).to_string())
}

/// Says whether the service can work: the database answers and has the schema of this version, and the
/// service is not stopping.
async fn readyz(State(state): State<OperatorState>) -> Response {
    let reason =
        if state.draining.load(Ordering::Relaxed) { Some("draining") } else { unready(&*state.store).await };
    let Some(reason) = reason else {
        return crate::http::json(json!({ "status": "ready" }).to_string());
    };
    let mut response = crate::http::json(json!({ "status": "not ready", "reason": reason }).to_string());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

async fn unready(store: &dyn Store) -> Option<&'static str> {
    match tokio::time::timeout(READY_TIMEOUT, store.migrations_pending()).await {
        Ok(Ok(0)) => None,
        Ok(Ok(_)) => Some("migrations are pending"),
        Ok(Err(fault)) => {
            tracing::warn!(cause = ?fault, "not ready");
            Some("the database does not answer")
        }
        Err(_) => Some("the database does not answer in time"),
    }
}

async fn print_metrics(State(state): State<OperatorState>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], state.metrics.render()).into_response()
}
