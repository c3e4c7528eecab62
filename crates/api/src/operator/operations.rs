//! The operations of the operator API, all on one screen.

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{OperatorState, keys, merchants, metrics, settlements};

/// The routes of the operations, with what each says of itself for the document.
pub(super) fn operations() -> OpenApiRouter<OperatorState> {
    OpenApiRouter::new()
        .routes(routes!(settlements::record_settlements))
        .routes(routes!(merchants::list_merchants, merchants::create_merchant))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::revoke_key))
}

/// What asks for no token.
pub(super) fn open() -> OpenApiRouter<OperatorState> {
    OpenApiRouter::new().routes(routes!(metrics::print_metrics))
}
