//! `GET /v1/webhook`: the webhook configuration.

use axum::extract::State;
use axum::response::Response;

use super::WebhookConfiguration;
use crate::authentication::Caller;
use crate::http::serialized;
use crate::refusals::operation_errors;
use crate::state::ApiState;

operation_errors! {
    /// What showing the configuration can be refused for.
    ShowWebhookError {}
}

/// Show the webhook configuration
///
/// Says where notifications are sent, and whether a secret is set. The secret itself is never returned.
#[utoipa::path(
    get,
    path = "/v1/webhook",
    operation_id = "showWebhook",
    tag = "Webhook configuration",
    responses(
        (status = 200, description = "The configuration.", body = WebhookConfiguration),
        ShowWebhookError
    )
)]
pub async fn show_webhook(
    caller: Caller,
    State(state): State<ApiState>,
) -> Result<Response, ShowWebhookError> {
    let endpoint = state.store.endpoint_find(caller.merchant_id).await?;
    Ok(serialized(&WebhookConfiguration::of(endpoint.as_ref()))?)
}
