//! `/operator/v1/merchants/{merchant_id}/keys`: make, list and revoke API keys, as `settle key` does.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use settle_accounts::keys;
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::time::Timestamp;
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::fields::Fields;
use super::pages::{Asked, PageParameters};
use crate::error::ApiError;
use crate::http::{PathIds, serialized};
use crate::refusals::{Documentation, Refusal, responses};

/// A key to make.
#[derive(ToSchema)]
#[schema(as = KeyRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads them, to name every fault")]
pub(super) struct RequestSchema {
    /// What to call it: 1 to 200 bytes, no control characters. White space around it is removed.
    #[schema(examples("till 7"))]
    label: Option<String>,
}

/// A new key, with its plain text, which is shown this once.
#[derive(Serialize, ToSchema)]
pub(super) struct CreatedKey {
    #[schema(value_type = Uuid)]
    key_id: KeyId,
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    /// What the merchant sends as `Authorization: Bearer sk_…`. Nobody stores it.
    #[schema(pattern = "^sk_[0-9a-f]{64}$")]
    api_key: String,
    #[schema(required, examples("till 7"))]
    label: Option<String>,
    #[schema(value_type = String, format = DateTime, examples("2026-01-31T09:30:00.000000+00:00"))]
    created_at: Timestamp,
}

/// A key of a merchant, revoked or not.
#[derive(Serialize, ToSchema)]
pub(super) struct Key {
    #[schema(value_type = Uuid)]
    key_id: KeyId,
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    /// The last four characters of its plain text.
    #[schema(examples("9c04"))]
    last_four: String,
    #[schema(required, examples("till 7"))]
    label: Option<String>,
    #[schema(value_type = String, format = DateTime, examples("2026-01-31T09:30:00.000000+00:00"))]
    created_at: Timestamp,
    /// From when on it admits nobody; null while it is valid.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    revoked_at: Option<Timestamp>,
}

impl From<settle_store::Key> for Key {
    fn from(key: settle_store::Key) -> Key {
        let settle_store::Key { key_id, merchant_id, label, last_four, created_at, revoked_at } = key;
        Key { key_id, merchant_id, last_four, label, created_at, revoked_at }
    }
}

/// A page of a merchant's keys, in the order of their ids: the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct KeyPage {
    keys: Vec<Key>,
    /// The page size that was asked for.
    #[schema(minimum = 1, maximum = 200, examples(50), value_type = i64)]
    limit: u32,
    /// The `after` of the next page; null on the last one.
    #[schema(required, value_type = Option<Uuid>)]
    next_after: Option<KeyId>,
}

/// What making a key can be refused for.
pub(super) struct CreateRefusals;

impl IntoResponses for CreateRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::InvalidBody, Refusal::UnknownMerchant, Refusal::AdminValidation])
    }
}

/// Make an API key
///
/// Its plain text is in this answer alone.
#[utoipa::path(
    post,
    path = "/operator/v1/merchants/{merchant_id}/keys",
    operation_id = "createKey",
    tag = "Keys",
    params(("merchant_id" = Uuid, Path, description = "Whose key.")),
    request_body = RequestSchema,
    responses((status = 200, description = "The key.", body = CreatedKey), CreateRefusals)
)]
pub(super) async fn create_key(
    _operator: Operator,
    State(state): State<OperatorState>,
    path: PathIds,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let merchant_id: MerchantId = path.id("merchant_id").ok_or(ApiError::NotFound)?;
    let mut fields = Fields::read(&headers, body, state.body_timeout).await?;
    let label = fields.optional("label");
    fields.end("a key")?;
    let (clock, entropy) = (&*state.envelope.clock, &*state.envelope.entropy);
    let made = keys::create(&*state.store, &state.ring, clock, entropy, merchant_id, label.as_deref());
    let (key, credential) = made.await?;
    tracing::info!(%merchant_id, key_id = %key.key_id, "API key made");
    let settle_store::Key { key_id, label, created_at, .. } = key;
    let api_key = credential.expose().to_owned();
    Ok(serialized(&CreatedKey { key_id, merchant_id, api_key, label, created_at })?)
}

/// What listing keys can be refused for.
pub(super) struct ListRefusals;

impl IntoResponses for ListRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownMerchant, Refusal::AdminValidation])
    }
}

/// List a merchant's API keys
///
/// Revoked ones included. The plain text is nowhere.
#[utoipa::path(
    get,
    path = "/operator/v1/merchants/{merchant_id}/keys",
    operation_id = "listKeys",
    tag = "Keys",
    params(("merchant_id" = Uuid, Path, description = "Whose keys."), PageParameters),
    responses((status = 200, description = "A page of keys.", body = KeyPage), ListRefusals)
)]
pub(super) async fn list_keys(
    _operator: Operator,
    State(state): State<OperatorState>,
    path: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let merchant_id: MerchantId = path.id("merchant_id").ok_or(ApiError::NotFound)?;
    let asked = Asked::parse(query.as_deref())?;
    if state.store.merchant_find(merchant_id).await?.is_none() {
        return Err(ApiError::NotFound);
    }
    let mut rows = state.store.key_list(merchant_id, asked.after, asked.rows()).await?;
    let next_after = asked.cut(&mut rows, |key| key.key_id);
    let keys = rows.into_iter().map(Key::from).collect();
    Ok(serialized(&KeyPage { keys, limit: asked.limit, next_after })?)
}

/// What a revocation can be refused for.
pub(super) struct RevokeRefusals;

impl IntoResponses for RevokeRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownKey])
    }
}

/// Revoke an API key
///
/// It holds from the next request on, on every node. Revoking it again changes nothing.
#[utoipa::path(
    delete,
    path = "/operator/v1/merchants/{merchant_id}/keys/{key_id}",
    operation_id = "revokeKey",
    tag = "Keys",
    params(
        ("merchant_id" = Uuid, Path, description = "Whose key."),
        ("key_id" = Uuid, Path, description = "Which key."),
    ),
    responses((status = 200, description = "The key, revoked.", body = Key), RevokeRefusals)
)]
pub(super) async fn revoke_key(
    _operator: Operator,
    State(state): State<OperatorState>,
    path: PathIds,
) -> Result<Response, ApiError> {
    let ids = path.id("merchant_id").zip(path.id("key_id"));
    let (merchant_id, key_id): (MerchantId, KeyId) = ids.ok_or(ApiError::NotFound)?;
    // A key never changes its merchant, so what is found here holds for what is revoked below.
    state.store.key_show(merchant_id, key_id).await?.ok_or(ApiError::NotFound)?;
    let revocation = keys::revoke(&*state.store, &*state.envelope.clock, key_id).await?;
    tracing::info!(%merchant_id, %key_id, ?revocation, "API key revoked");
    let key = state.store.key_show(merchant_id, key_id).await?.ok_or(ApiError::NotFound)?;
    Ok(serialized(&Key::from(key))?)
}
