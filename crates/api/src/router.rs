//! What each listener serves.

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;

use crate::authentication::Caller;
use crate::error::ApiError;
use crate::http::envelope;
use crate::operations::operations;
use crate::operator::OperatorState;
use crate::state::ApiState;
use crate::{docs, openapi};

/// The merchant API: its operations, `/openapi.json` and `/docs`.
pub fn merchant(state: &ApiState) -> Router {
    let (operations, _) = operations().split_for_parts();
    let public = Router::new()
        .route("/openapi.json", get(openapi::serve))
        .route("/docs", get(docs::page))
        .route("/docs/style.css", get(docs::style))
        .method_not_allowed_fallback(async || ApiError::MethodNotAllowed);
    operations
        .method_not_allowed_fallback(known_route)
        .merge(public)
        .fallback(async || ApiError::NotFound)
        .layer(from_fn_with_state(state.envelope(), envelope))
        .with_state(state.clone())
}

/// The operator's listener.
pub fn operator(state: OperatorState) -> Router {
    crate::operator::router(state)
}

/// Answers a known path with an unknown method. `Caller` judges the key first, as on every known path:
/// without a key nobody learns which methods a path has.
async fn known_route(_caller: Caller) -> ApiError {
    ApiError::MethodNotAllowed
}
