//! `PUT /v1/webhook`: set, change or clear the endpoint; rotate the secret.

use std::fmt;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use settle_domain::endpoint::{Endpoint, EndpointChange, EndpointRequest, UrlRequest};
use settle_domain::error_code::{ErrorCode, FieldFault};
use settle_domain::ids::MerchantId;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::guard::UrlFault;
use settle_store::{ENDED_AT_ONCE_MAX, MerchantLock, StoreError, StoreResult, Tx};
use utoipa::ToSchema;

use super::WebhookConfiguration;
use crate::authentication::Caller;
use crate::error::{BodyFault, RateLimited};
use crate::http::{read_json, serialized};
use crate::refusals::operation_errors;
use crate::state::ApiState;

/// What to change. An absent field leaves things as they are.
#[derive(Deserialize, ToSchema)]
pub struct WebhookConfigurationRequest {
    /// A public https address of at most 2,048 bytes. Null or empty clears the endpoint and retires its
    /// secret.
    #[serde(default = "keep", deserialize_with = "url_request")]
    #[schema(value_type = Option<String>, examples("https://merchant.example/webhooks/settle"))]
    webhook_url: UrlRequest,
    /// Chosen by the merchant: 1 to 256 bytes, no control characters. Required the first time a URL is set.
    #[serde(default)]
    #[schema(value_type = String, required = false, examples("a-long-random-string"))]
    webhook_secret: SecretRequest,
    /// Fields that nobody knows are ignored, unless there are no others.
    #[serde(flatten)]
    #[schema(ignore)]
    unknown: Unknown,
}

/// What a request says about the secret.
#[derive(Deserialize, Default)]
#[serde(from = "Option<String>")]
enum SecretRequest {
    /// Nothing.
    #[default]
    Absent,
    /// That it stays as it is.
    Null,
    Set(String),
}

impl From<Option<String>> for SecretRequest {
    fn from(secret: Option<String>) -> SecretRequest {
        secret.map_or(SecretRequest::Null, SecretRequest::Set)
    }
}

impl WebhookConfigurationRequest {
    /// Whether it has fields and none that is known: a misspelt name must not look like success.
    fn is_misspelt(&self) -> bool {
        let is_empty =
            self.webhook_url == UrlRequest::Keep && matches!(self.webhook_secret, SecretRequest::Absent);
        is_empty && self.unknown.is_any
    }
}

/// Fields that nobody knows.
struct Unknown {
    is_any: bool,
}

impl<'de> Deserialize<'de> for Unknown {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Unknown, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Unknown;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<Unknown, M::Error> {
                let mut unknown = Unknown { is_any: false };
                while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    unknown.is_any = true;
                }
                Ok(unknown)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

fn keep() -> UrlRequest {
    UrlRequest::Keep
}

/// Reads the field when it is present: null and empty clear the endpoint, anything else is a URL.
fn url_request<'de, D: Deserializer<'de>>(deserializer: D) -> Result<UrlRequest, D::Error> {
    let url: Option<String> = Option::deserialize(deserializer)?;
    Ok(url.filter(|url| !url.is_empty()).map_or(UrlRequest::Clear, UrlRequest::Set))
}

impl From<WebhookConfigurationRequest> for EndpointRequest {
    fn from(request: WebhookConfigurationRequest) -> EndpointRequest {
        let secret = match request.webhook_secret {
            SecretRequest::Absent | SecretRequest::Null => None,
            SecretRequest::Set(secret) => Some(WebhookSecret::parse(secret)),
        };
        EndpointRequest { url: request.webhook_url, secret }
    }
}

operation_errors! {
    /// What a change of the configuration can be refused for.
    UpdateWebhookError {
        InvalidBody(fault: BodyFault),
        Validation(faults: Vec<FieldFault>),
        Locked(limited: RateLimited),
    }
}

/// Change the webhook configuration
///
/// Sets the URL that notifications are sent to and the secret they are signed with. `webhook_secret` is
/// required the first time a URL is set and may be omitted later, which keeps the current one; sending a new
/// one rotates it. A null or empty `webhook_url` clears the endpoint, retires the secret and disables
/// notifications.
#[utoipa::path(
    put,
    path = "/v1/webhook",
    operation_id = "updateWebhook",
    tag = "Webhook configuration",
    request_body = WebhookConfigurationRequest,
    responses(
        (status = 200, description = "The configuration as it is now.", body = WebhookConfiguration),
        UpdateWebhookError
    )
)]
pub async fn update_webhook(
    caller: Caller,
    State(state): State<ApiState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, UpdateWebhookError> {
    let request: WebhookConfigurationRequest = read_json(&headers, body, &state.limits).await?;
    if request.is_misspelt() {
        let required = |field| FieldFault::new(field, ErrorCode::Required);
        return Err(vec![required("webhook_url"), required("webhook_secret")].into());
    }
    let request = EndpointRequest::from(request);
    // The guard asks the DNS before the transaction begins: no transaction waits for the network.
    let url_fault = match &request.url {
        UrlRequest::Set(url) => {
            let _under_way = state.changes().begin(caller.merchant_id)?;
            state.guard.accept(url).await.err().map(url_fault_code)
        }
        UrlRequest::Keep | UrlRequest::Clear => None,
    };
    let mut tx = state.store.begin().await?;
    let lock = tx.merchant_lock(&[caller.merchant_id]).await?;
    let found = tx.endpoint_find_locked(&lock, &[caller.merchant_id]).await?;
    let current = found.into_iter().next().map(|(_, endpoint)| endpoint);
    let change = request.decide(current.is_some(), url_fault)?;
    let endpoint = apply(&state, &mut *tx, &lock, caller.merchant_id, current, change).await?;
    tx.commit().await?;
    Ok(serialized(&WebhookConfiguration::of(endpoint.as_ref()))?)
}

/// Carries the change out and gives the endpoint as it is afterwards.
async fn apply(
    state: &ApiState,
    tx: &mut dyn Tx,
    lock: &MerchantLock,
    merchant: MerchantId,
    current: Option<Endpoint>,
    change: EndpointChange,
) -> StoreResult<Option<Endpoint>> {
    let (url, secret) = match change {
        EndpointChange::Nothing => return Ok(current),
        EndpointChange::Clear => {
            tx.endpoint_clear(lock, merchant, state.clock.now(), ENDED_AT_ONCE_MAX).await?;
            return Ok(None);
        }
        EndpointChange::Set { url, secret } => (url, secret),
    };
    let sealed = secret.map(|secret| state.ring.seal(merchant, &secret, &*state.entropy));
    let (current_url, current_secret) = current.map(|endpoint| (endpoint.url, endpoint.secret)).unzip();
    // `decide` has made sure of both: whatever the request leaves out is there already.
    let (Some(url), Some(secret)) = (url.or(current_url), sealed.or(current_secret)) else {
        return Err(StoreError::unexpected("an endpoint without a URL or a secret"));
    };
    let endpoint = Endpoint { url, secret };
    tx.endpoint_put(lock, merchant, &endpoint).await?;
    Ok(Some(endpoint))
}

fn url_fault_code(fault: UrlFault) -> ErrorCode {
    match fault {
        UrlFault::InvalidUrl => ErrorCode::InvalidUrl,
        UrlFault::UnsafeUrl => ErrorCode::UnsafeUrl,
        UrlFault::UnresolvableHost => ErrorCode::UnresolvableHost,
    }
}

#[cfg(test)]
mod fuzz;
