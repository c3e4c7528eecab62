//! `POST /v1/webhook/test`: one signed test delivery to the configured endpoint.

use std::time::Instant;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::DeliveryId;
use settle_notify::notification::Notification;
use settle_store::StoreError;
use utoipa::ToSchema;

use crate::authentication::Caller;
use crate::error::RateLimited;
use crate::http::serialized;
use crate::refusals::operation_errors;
use crate::state::ApiState;

/// What came of a test delivery.
#[derive(Debug, Serialize, ToSchema)]
pub struct TestDeliveryResult {
    /// Whether the endpoint answered with 2xx in time.
    delivered: bool,
    /// How long the attempt took.
    #[schema(minimum = 0, examples(120))]
    duration_ms: u64,
    /// The status of the response; null when there was none.
    #[schema(required, examples(200))]
    status: Option<u16>,
    /// Why it was not delivered; null when it was.
    #[schema(required)]
    error: Option<String>,
}

operation_errors! {
    /// What a test delivery can be refused for.
    TestWebhookError { EndpointNotConfigured, Locked(limited: RateLimited) }
}

/// Send a test delivery
///
/// Sends one signed test delivery to the configured endpoint. It is never retried and does not appear in the
/// delivery log. A merchant may have two of them under way at once.
#[utoipa::path(
    post,
    path = "/v1/webhook/test",
    operation_id = "testWebhook",
    tag = "Webhook configuration",
    responses((status = 200, description = "What came of it.", body = TestDeliveryResult), TestWebhookError)
)]
pub async fn test_webhook(
    caller: Caller,
    State(state): State<ApiState>,
) -> Result<Response, TestWebhookError> {
    let _under_way = state.tests().begin(caller.merchant_id)?;
    let endpoint = state.store.endpoint_find(caller.merchant_id).await?;
    let Some(Endpoint { url, secret }) = endpoint else {
        return Err(TestWebhookError::EndpointNotConfigured);
    };
    let secret =
        state.ring.open(caller.merchant_id, &secret).map_err(|fault| StoreError::Unexpected(fault.into()))?;
    let now = state.clock.now();
    let notification = Notification::test(&secret, DeliveryId::new(now, &*state.entropy), now);
    let started = Instant::now();
    let attempt = state.transport.attempt(&url, notification).await;
    let (status, error) = match attempt {
        Ok(attempt) => (attempt.response_status, attempt.fault.map(|fault| fault.to_string())),
        // The merchant sees that it is our fault, not the endpoint's.
        Err(error) => (None, Some(error.to_string())),
    };
    let result = TestDeliveryResult {
        delivered: error.is_none(),
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        status,
        error,
    };
    Ok(serialized(&result)?)
}
