//! The operations of the merchant API, all on one screen.

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::state::ApiState;
use crate::{deliveries, endpoints, settlements};

/// The routes of the operations, with what each says of itself for the document.
pub(crate) fn operations() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(settlements::list::list_settlements))
        .routes(routes!(deliveries::list::list_deliveries))
        .routes(routes!(deliveries::redeliver::redeliver))
        .routes(routes!(endpoints::show::show_webhook, endpoints::update::update_webhook))
        .routes(routes!(endpoints::test::test_webhook))
}
