//! The caller's webhook endpoint.

pub mod show;
pub mod test;
pub mod update;

use serde::Serialize;
use settle_domain::endpoint::Endpoint;
use utoipa::ToSchema;

/// The webhook configuration. The secret itself is never returned.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookConfiguration {
    /// Where notifications are sent; null when they are disabled.
    #[schema(required, examples("https://merchant.example/webhooks/settle"))]
    webhook_url: Option<String>,
    /// Whether a secret is set.
    webhook_secret_set: bool,
}

impl WebhookConfiguration {
    fn of(endpoint: Option<&Endpoint>) -> WebhookConfiguration {
        WebhookConfiguration {
            webhook_url: endpoint.map(|endpoint| endpoint.url.clone()),
            webhook_secret_set: endpoint.is_some(),
        }
    }
}
