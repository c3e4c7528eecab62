//! `/operator/v1/merchants`: add and list merchants, as `settle merchant` does.

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use settle_accounts::merchants;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::fields::Fields;
use super::pages::{Asked, PageParameters};
use crate::error::ApiError;
use crate::http::serialized;
use crate::refusals::{Documentation, Refusal, responses};

/// A merchant to add.
#[derive(ToSchema)]
#[schema(as = MerchantRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads them, to name every fault")]
pub(super) struct RequestSchema {
    /// What operators call it: 1 to 200 bytes, no control characters. White space around it is removed.
    #[schema(examples("Acme Ltd"))]
    name: String,
}

/// A merchant.
#[derive(Serialize, ToSchema)]
pub(super) struct Merchant {
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    /// What operators call it.
    #[schema(examples("Acme Ltd"))]
    name: String,
    /// When it was added.
    #[schema(value_type = String, format = DateTime, examples("2026-01-31T09:30:00.000000+00:00"))]
    created_at: Timestamp,
}

impl From<settle_store::Merchant> for Merchant {
    fn from(merchant: settle_store::Merchant) -> Merchant {
        Merchant { merchant_id: merchant.merchant_id, name: merchant.name, created_at: merchant.created_at }
    }
}

/// A page of merchants, in the order of their ids: the oldest first.
#[derive(Serialize, ToSchema)]
pub(super) struct MerchantPage {
    merchants: Vec<Merchant>,
    /// The page size that was asked for.
    #[schema(minimum = 1, maximum = 200, examples(50), value_type = i64)]
    limit: u32,
    /// The `after` of the next page; null on the last one.
    #[schema(required, value_type = Option<Uuid>)]
    next_after: Option<MerchantId>,
}

/// What adding a merchant can be refused for.
pub(super) struct CreateRefusals;

impl IntoResponses for CreateRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::InvalidBody, Refusal::AdminValidation])
    }
}

/// Add a merchant
#[utoipa::path(
    post,
    path = "/operator/v1/merchants",
    operation_id = "createMerchant",
    tag = "Merchants",
    request_body = RequestSchema,
    responses((status = 200, description = "The merchant.", body = Merchant), CreateRefusals)
)]
pub(super) async fn create_merchant(
    _operator: Operator,
    State(state): State<OperatorState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut fields = Fields::read(&headers, body, state.body_timeout).await?;
    let name = fields.required("name");
    fields.end("a merchant")?;
    let (clock, entropy) = (&*state.envelope.clock, &*state.envelope.entropy);
    let merchant = merchants::create(&*state.store, clock, entropy, &name).await?;
    tracing::info!(merchant_id = %merchant.merchant_id, "merchant added");
    Ok(serialized(&Merchant::from(merchant))?)
}

/// What listing merchants can be refused for.
pub(super) struct ListRefusals;

impl IntoResponses for ListRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::AdminValidation])
    }
}

/// List merchants
#[utoipa::path(
    get,
    path = "/operator/v1/merchants",
    operation_id = "listMerchants",
    tag = "Merchants",
    params(PageParameters),
    responses((status = 200, description = "A page of merchants.", body = MerchantPage), ListRefusals)
)]
pub(super) async fn list_merchants(
    _operator: Operator,
    State(state): State<OperatorState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let asked = Asked::parse(query.as_deref())?;
    let mut rows = state.store.merchant_list(asked.after, asked.rows()).await?;
    let next_after = asked.cut(&mut rows, |merchant| merchant.merchant_id);
    let merchants = rows.into_iter().map(Merchant::from).collect();
    Ok(serialized(&MerchantPage { merchants, limit: asked.limit, next_after })?)
}
