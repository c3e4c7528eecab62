//! The operations of the operator API, all on one screen.

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    OperatorState, corridors, keys, ledger, merchants, metrics, payments, proposals, providers, settlements,
};

/// The routes of the operations, with what each says of itself for the document.
pub(super) fn operations() -> OpenApiRouter<OperatorState> {
    OpenApiRouter::new()
        .routes(routes!(settlements::record_settlements))
        .routes(routes!(merchants::list_merchants, merchants::create_merchant))
        .routes(routes!(keys::list_keys, keys::create_key))
        .routes(routes!(keys::revoke_key))
        .routes(routes!(corridors::list_corridors))
        .routes(routes!(corridors::show_corridor, corridors::set_corridor))
        .routes(routes!(payments::list_payments, payments::receive_payments))
        .routes(routes!(payments::retry_payments))
        .routes(routes!(payments::show_payment))
        .routes(routes!(payments::retry_payment))
        .routes(routes!(payments::refund_payment))
        .routes(routes!(payments::cancel_payment))
        .routes(routes!(payments::return_payment))
        .routes(routes!(payments::resolve_payment))
        .routes(routes!(proposals::list_proposals))
        .routes(routes!(proposals::approve_proposal))
        .routes(routes!(providers::list_providers))
        .routes(routes!(providers::show_provider, providers::set_provider))
        .routes(routes!(ledger::list_balances))
        .routes(routes!(ledger::list_reports))
        .routes(routes!(ledger::list_findings))
}

/// What asks for no token.
pub(super) fn open() -> OpenApiRouter<OperatorState> {
    OpenApiRouter::new()
        .routes(routes!(metrics::print_metrics))
        // A provider signs what it says; it has no token.
        .routes(routes!(providers::take_callback))
}
