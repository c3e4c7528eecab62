//! What each listener serves.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::response::Redirect;
use axum::routing::get;

use crate::authentication::Caller;
use crate::error::ApiError;
use crate::health::{self, Health};
use crate::http::envelope;
use crate::operations::operations;
use crate::operator::OperatorState;
use crate::state::ApiState;
use crate::{docs, openapi};

/// The merchant API: its operations, `/openapi.json`, `/docs`, to which `/` leads, `/healthz` and `/readyz`.
pub fn merchant(state: &ApiState, health: Health) -> Router {
    let (operations, _) = operations().split_for_parts();
    let public = Router::new()
        .route("/", get(async || Redirect::temporary("/docs")))
        .route("/openapi.json", get(openapi::serve))
        .route("/docs", get(docs::page))
        .route("/docs/style.css", get(docs::style))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed);
    operations
        .method_not_allowed_fallback(known_route)
        .merge(public)
        .with_state(state.clone())
        .merge(health::router(health))
        .fallback(async || ApiError::NotFound)
        .layer(from_fn_with_state(state.envelope(), envelope))
}

/// The operator's listener.
pub fn operator(state: &OperatorState) -> Router {
    crate::operator::router(state)
}

/// Answers a known path with an unknown method. `Caller` judges the key first, as on every known path:
/// without a key nobody learns which methods a path has.
async fn known_route(_caller: Caller) -> ApiError {
    ApiError::MethodNotAllowed
}
