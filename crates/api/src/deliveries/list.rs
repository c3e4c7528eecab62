//! `GET /v1/webhook/deliveries`: the caller's delivery log, newest first.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use settle_domain::delivery::{Delivery, DeliveryStatus};
use settle_domain::error_code::{ErrorCode, FieldFault};
use utoipa::ToSchema;

use super::{DeliverySchema, DeliveryStatusSchema};
use crate::authentication::Caller;
use crate::error::{RateLimited, Unserializable};
use crate::http::{Paging, PagingParameters, Parameters, json};
use crate::refusals::operation_errors;
use crate::state::ApiState;

/// About the length of a delivery as JSON. A page that is longer grows.
const DELIVERY_BYTES: usize = 512;

/// A page of the delivery log, newest first.
#[derive(Serialize, ToSchema)]
#[schema(as = WebhookDeliveryPage)]
pub struct DeliveryPage {
    #[schema(value_type = Vec<DeliverySchema>)]
    deliveries: Vec<Delivery>,
    /// The page size that was asked for.
    #[schema(minimum = 1, maximum = 200, examples(50), value_type = i64)]
    limit: u32,
    /// The rows that were skipped.
    #[schema(minimum = 0, maximum = 10000, examples(0), value_type = i64)]
    offset: u32,
    /// All the caller's deliveries that match the filter, exactly, in the same snapshot as the page.
    #[schema(minimum = 0, examples(1), value_type = i64)]
    total: u64,
}

operation_errors! {
    /// What a list of deliveries can be refused for.
    ListDeliveriesError { Validation(faults: Vec<FieldFault>), Locked(limited: RateLimited) }
}

/// List webhook deliveries
///
/// Returns the caller's delivery log, newest first: every notification with its status, its attempt counter
/// and its last response or error.
#[utoipa::path(
    get,
    path = "/v1/webhook/deliveries",
    operation_id = "listWebhookDeliveries",
    tag = "Webhook deliveries",
    params(
        ("status" = Option<DeliveryStatusSchema>, Query, description = "Only deliveries of this status."),
        PagingParameters,
    ),
    responses((status = 200, description = "A page of deliveries.", body = DeliveryPage), ListDeliveriesError)
)]
pub async fn list_deliveries(
    caller: Caller,
    State(state): State<ApiState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ListDeliveriesError> {
    let parameters = Parameters::new(query.as_deref());
    let mut faults = Vec::new();
    let status = status_filter(&parameters).unwrap_or_else(|fault| {
        faults.push(fault);
        None
    });
    let request = Paging::parse(&parameters, &mut faults);
    let Some(request) = request.filter(|_| faults.is_empty()) else {
        return Err(faults.into());
    };
    state.answers().check(caller.merchant_id)?;
    let page = state.store.delivery_page(caller.merchant_id, status, request).await?;
    let body = DeliveryPage {
        deliveries: page.rows,
        limit: request.limit(),
        offset: request.offset(),
        total: page.total,
    };
    let mut answer = Vec::with_capacity((body.deliveries.len() + 1) * DELIVERY_BYTES);
    serde_json::to_writer(&mut answer, &body).map_err(Unserializable::from)?;
    Ok(json(state.answers().hold(caller.merchant_id, answer)?))
}

fn status_filter(parameters: &Parameters) -> Result<Option<DeliveryStatus>, FieldFault> {
    let Some(text) = parameters.once("status")? else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| FieldFault::new("status", ErrorCode::ValidationFailed))
}
