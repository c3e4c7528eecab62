//! `POST /v1/webhook/deliveries/{delivery_id}/redeliver`: requeue a delivery that has failed permanently.

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{RawPathParams, State};
use axum::response::Response;
use settle_domain::ids::DeliveryId;

use super::DeliverySchema;
use crate::error::operation_errors;
use crate::http::{Caller, json};
use crate::state::ApiState;

operation_errors! {
    /// What a redelivery can be refused for.
    RedeliverError { NotFound }
}

/// Redeliver a dead delivery
///
/// Requeues a delivery that has failed permanently: its status becomes `pending`, its attempt counter
/// restarts, and the exact original payload is sent again. A delivery in any other state cannot be
/// redelivered.
#[utoipa::path(
    post,
    path = "/v1/webhook/deliveries/{delivery_id}/redeliver",
    operation_id = "redeliverWebhookDelivery",
    tag = "Webhook deliveries",
    params(("delivery_id" = uuid::Uuid, Path, description = "The delivery to requeue.")),
    responses((status = 200, description = "The delivery, requeued.", body = DeliverySchema), RedeliverError)
)]
pub async fn redeliver(
    caller: Caller,
    State(state): State<ApiState>,
    parameters: Result<RawPathParams, RawPathParamsRejection>,
) -> Result<Response, RedeliverError> {
    let delivery_id = delivery_id(parameters).ok_or(RedeliverError::NotFound)?;
    let mut tx = state.store.begin().await?;
    let lock = tx.merchant_lock(&[caller.merchant_id]).await?;
    let requeued = tx.delivery_requeue(&lock, caller.merchant_id, delivery_id, state.clock.now()).await?;
    let delivery = requeued.ok_or(RedeliverError::NotFound)?;
    tx.commit().await?;
    state.wake.merchants([caller.merchant_id]);
    // Strings and numbers alone cannot fail to serialize into memory.
    Ok(json(serde_json::to_vec(&delivery).unwrap_or_default()))
}

/// The id in the path. What is no uuid, or not even text, names nothing.
fn delivery_id(parameters: Result<RawPathParams, RawPathParamsRejection>) -> Option<DeliveryId> {
    let parameters = parameters.ok()?;
    let (_, text) = parameters.iter().find(|(name, _)| *name == "delivery_id")?;
    text.parse().ok()
}
