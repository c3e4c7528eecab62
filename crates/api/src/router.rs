//! What each listener serves.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::get;

use crate::authentication::Caller;
use crate::error::ApiError;
use crate::health::{self, Health};
use crate::http::{EnvelopeState, envelope};
use crate::operations::operations;
use crate::operator::OperatorState;
use crate::state::ApiState;
use crate::{docs, openapi};

/// The routes of both listeners, before there is a state that they can reach. Making them takes milliseconds:
/// each operation describes itself for the document. A service makes them while its store opens.
pub struct Routes {
    merchants: Router<ApiState>,
    operators: Router<OperatorState>,
}

impl Routes {
    /// All routes.
    #[must_use]
    pub fn make() -> Routes {
        Routes { merchants: merchants(), operators: crate::operator::routes() }
    }

    /// The merchant API.
    pub fn merchants(&self, state: &ApiState, health: Health) -> Router {
        let routes = self.merchants.clone().with_state(state.clone());
        listener(routes, health, state.envelope())
    }

    /// The operator's listener.
    pub fn operators(&self, state: &OperatorState) -> Router {
        let routes = self.operators.clone().with_state(state.clone());
        listener(routes, state.health.clone().for_operators(), Arc::new(state.envelope.clone()))
    }
}

/// The operations of the merchant API, `/openapi.json`, and `/docs`, to which `/` leads.
fn merchants() -> Router<ApiState> {
    let (operations, _) = operations().split_for_parts();
    let public = Router::new()
        .route("/", get(async || Redirect::temporary("/docs")))
        .route("/openapi.json", get(openapi::serve))
        .route("/docs", get(docs::page))
        .route("/docs/style.css", get(docs::style))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed);
    operations.method_not_allowed_fallback(known_route).merge(public)
}

/// What every listener has around its routes: `/healthz`, `/readyz` and the envelope.
fn listener(routes: Router, health: Health, state: Arc<EnvelopeState>) -> Router {
    routes
        .merge(health::router(health))
        .fallback(async || ApiError::NotFound)
        .layer(from_fn_with_state(state, envelope))
}

/// Answers a known path with an unknown method. `Caller` judges the key first, as on every known path:
/// without a key nobody learns which methods a path has.
async fn known_route(_caller: Caller) -> ApiError {
    ApiError::MethodNotAllowed
}
