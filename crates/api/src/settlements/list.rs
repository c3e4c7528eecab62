//! `GET /v1/settlements`: the caller's completed settlements, newest first.

use std::fmt::Write;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use settle_domain::error_code::FieldFault;
use settle_domain::page::PageRequest;
use settle_domain::settlement::RecordPage;
use utoipa::ToSchema;

use super::SettlementSchema;
use crate::authentication::Caller;
use crate::error::RateLimited;
use crate::http::{Paging, PagingParameters, Parameters, json};
use crate::refusals::operation_errors;
use crate::state::ApiState;

/// A page of settlements, newest first.
#[derive(ToSchema)]
#[schema(as = SettlementPage)]
#[expect(dead_code, reason = "only its schema is used: see `render`")]
pub struct SettlementPageSchema {
    settlements: Vec<SettlementSchema>,
    /// The page size that was asked for.
    #[schema(minimum = 1, maximum = 200, examples(50))]
    limit: i64,
    /// The rows that were skipped.
    #[schema(minimum = 0, maximum = 10000, examples(0))]
    offset: i64,
    /// All the caller's settlements, exactly, in the same snapshot as the page.
    #[schema(minimum = 0, examples(1))]
    total: i64,
}

operation_errors! {
    /// What a list of settlements can be refused for.
    ListSettlementsError { Validation(faults: Vec<FieldFault>), Locked(limited: RateLimited) }
}

/// List completed settlements
///
/// Returns the caller's completed settlements, newest first.
#[utoipa::path(
    get,
    path = "/v1/settlements",
    operation_id = "listSettlements",
    tag = "Settlements",
    params(
        PagingParameters,
    ),
    responses(
        (status = 200, description = "A page of settlements.", body = SettlementPageSchema),
        ListSettlementsError
    )
)]
pub async fn list_settlements(
    caller: Caller,
    State(state): State<ApiState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ListSettlementsError> {
    let mut faults = Vec::new();
    let Some(request) = Paging::parse(&Parameters::new(query.as_deref()), &mut faults) else {
        return Err(faults.into());
    };
    state.answers().check(caller.merchant_id)?;
    let page = state.store.settlement_page(caller.merchant_id, request).await?;
    Ok(json(state.answers().hold(caller.merchant_id, render(request, &page).into_bytes())?))
}

/// Puts the page around the records. The store gives them as JSON, so nothing serializes them again.
fn render(request: PageRequest, page: &RecordPage) -> String {
    let RecordPage { records, total } = page;
    let (limit, offset) = (request.limit(), request.offset());
    let mut body = String::with_capacity(records.len() + 100);
    body.push_str("{\"settlements\":[");
    body.push_str(records);
    // Writing to a String cannot fail.
    let _ = write!(body, "],\"limit\":{limit},\"offset\":{offset},\"total\":{total}}}");
    body
}
