//! The operator's listener: the operator API under `/operator/v1`, its docs page, `/healthz`, `/readyz` and
//! `/metrics`.
//!
//! Its document is `operator-openapi.json`; `openapi.json` is the merchants'. Where a merchant reads
//! `fields`, an operator reads `error.details`: English sentences that name the element and the field, for
//! the people who run the importing program.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use metrics_exporter_prometheus::PrometheusHandle;
use metrics_process::Collector;
use settle_domain::ids::OperatorId;
use settle_domain::provider::ProviderName;
use settle_domain::vault::KeyRing;
use settle_engine::life::Means;
use settle_engine::wake::EngineWake;
use settle_outbox::recorder::Recorder;
use settle_provider::signing::ProviderSecret;
use settle_store::Store;

use crate::docs;
use crate::error::ApiError;
use crate::health::Health;
use crate::http::{EnvelopeState, Lookups};

mod authentication;
mod corridors;
mod details;
mod document;
mod fields;
#[cfg(test)]
mod fuzz;
mod keys;
mod ledger;
mod merchants;
mod metrics;
mod names;
mod operations;
mod pages;
mod payments;
mod proposals;
mod providers;
mod settlements;

use authentication::Operator;
pub use document::text;
use operations::{open, operations};

/// The parts an operator's listener is made from.
pub struct OperatorParts {
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
    /// What the settlement engine works with.
    pub means: Means,
    /// Whether what cannot be undone needs two people.
    pub two_people: bool,
    /// What providers sign their hints with.
    pub provider_secrets: Arc<BTreeMap<ProviderName, ProviderSecret>>,
    /// Tells the engine of this process that something is to be done.
    pub engine_wake: EngineWake,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// Renders the metrics.
    pub metrics: PrometheusHandle,
    /// Measures the process.
    pub process: Collector,
    /// What `/healthz` and `/readyz` say.
    pub health: Health,
}

/// What every handler of the operator's listener can reach. Cheap to clone: every request has one.
#[derive(Clone)]
pub struct OperatorState(Arc<OperatorParts>);

impl OperatorState {
    /// The state of an operator's listener.
    #[must_use]
    pub fn new(parts: OperatorParts) -> OperatorState {
        OperatorState(Arc::new(parts))
    }
}

impl std::ops::Deref for OperatorState {
    type Target = OperatorParts;

    fn deref(&self) -> &OperatorParts {
        &self.0
    }
}

/// The operator API, `/openapi.json`, `/docs`, to which `/` leads, and `/metrics`.
pub(crate) fn routes() -> Router<OperatorState> {
    let (operations, _) = operations().split_for_parts();
    let (open, _) = open().split_for_parts();
    open.route("/openapi.json", get(document::serve))
        .route("/", get(async || Redirect::temporary("/docs")))
        .route("/docs", get(document::page))
        .route("/docs/style.css", get(docs::style))
        .route("/docs/settling.svg", get(docs::settling))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed)
        .merge(operations.method_not_allowed_fallback(known_route))
}

/// Answers a known path with an unknown method. `Operator` judges the token first, as on every known path.
async fn known_route(_operator: Operator) -> ApiError {
    ApiError::MethodNotAllowed
}
