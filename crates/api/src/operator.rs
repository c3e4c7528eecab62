//! The operator's listener: the operator API under `/operator/v1`, `/healthz`, `/readyz` and `/metrics`.
//!
//! The operator API is not in `openapi.json`, which is the merchants' document. Where a merchant reads
//! `fields`, an operator reads `error.details`: English sentences that name the element and the field, for
//! the people who run the importing program.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use metrics_exporter_prometheus::PrometheusHandle;
use settle_domain::ids::OperatorId;
use settle_domain::vault::KeyRing;
use settle_outbox::recorder::Recorder;
use settle_shards::keeper::Standing;
use settle_store::Store;
use tokio::sync::watch;

use crate::error::ApiError;
use crate::http::{EnvelopeState, Lookups, envelope};

mod authentication;
mod details;
mod health;
mod settlements;

use authentication::Operator;
pub use health::WriteProbe;

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
    /// Where the keeper of this process's dispatcher stands; `None` when the process does not send.
    pub dispatcher: Option<watch::Receiver<Standing>>,
    /// Whether the database accepts writes.
    pub write_probe: WriteProbe,
}

/// The operator API, `/healthz`, `/readyz` and `/metrics`.
pub(crate) fn router(state: OperatorState) -> Router {
    let operations = Router::new()
        .route("/operator/v1/settlements", post(settlements::record))
        .method_not_allowed_fallback(known_route);
    Router::new()
        .route("/healthz", get(health::healthz))
        .route("/readyz", get(health::readyz))
        .route("/metrics", get(health::print_metrics))
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
