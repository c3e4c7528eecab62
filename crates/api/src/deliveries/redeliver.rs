//! `POST /v1/webhook/deliveries/{delivery_id}/redeliver`: requeue a delivery that has failed permanently.

use axum::extract::State;
use axum::response::Response;
use settle_domain::ids::DeliveryId;

use super::DeliverySchema;
use crate::authentication::Caller;
use crate::http::{PathIds, serialized};
use crate::refusals::operation_errors;
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
    path: PathIds,
) -> Result<Response, RedeliverError> {
    let delivery_id: DeliveryId = path.id("delivery_id").ok_or(RedeliverError::NotFound)?;
    let mut work = state.outbox.begin().await?;
    let lock = work.merchant_lock(&[caller.merchant_id]).await?;
    let requeued = work.requeue(&lock, &[(caller.merchant_id, delivery_id)], state.clock.now()).await?;
    let (_, delivery) = requeued.into_iter().next().ok_or(RedeliverError::NotFound)?;
    work.commit().await?;
    Ok(serialized(&delivery)?)
}
