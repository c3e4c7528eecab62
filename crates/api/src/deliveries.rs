//! Notification deliveries.

pub mod list;
pub mod redeliver;

use utoipa::ToSchema;
use uuid::Uuid;

/// One outbound notification delivery. The frozen payload is not repeated here; it is the notification's
/// body.
#[derive(ToSchema)]
#[schema(as = WebhookDelivery)]
#[expect(dead_code, reason = "only its schema is used: deliveries serialize themselves")]
pub struct DeliverySchema {
    /// Also sent as `service-delivery-id`: deduplicate by it.
    delivery_id: Uuid,
    settlement_id: Uuid,
    #[schema(examples("settlement.completed"))]
    event_type: String,
    status: DeliveryStatusSchema,
    /// Attempts with an outcome in this cycle: 0 when new or requeued, 8 when dead.
    #[schema(minimum = 0, examples(1))]
    attempts: i32,
    #[schema(format = DateTime, examples("2026-01-31T09:31:00.000000+00:00"))]
    created_at: String,
    #[schema(required, format = DateTime, examples("2026-01-31T09:31:00.250000+00:00"))]
    delivered_at: Option<String>,
    /// When the next attempt is due; on a delivered or dead row, when the last one was due, or when it was
    /// ended.
    #[schema(format = DateTime, examples("2026-01-31T09:31:00.000000+00:00"))]
    next_attempt_at: String,
    /// Response status of the last attempt; null when there was no response.
    #[schema(required, examples(200))]
    response_status: Option<i32>,
    /// What went wrong in the last attempt; null when nothing did.
    #[schema(required)]
    last_error: Option<String>,
    /// The endpoint targeted, frozen when the delivery was enqueued.
    #[schema(examples("https://merchant.example/webhooks/settle"))]
    url: String,
}

/// Where a delivery stands.
#[derive(ToSchema)]
#[schema(as = DeliveryStatus, rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum DeliveryStatusSchema {
    /// Queued, or between two attempts.
    Pending,
    /// Answered with 2xx in time.
    Delivered,
    /// Retries are exhausted; can be redelivered.
    Dead,
}
