//! Listing payments.

use axum::extract::{RawQuery, State};
use axum::response::Response;
use serde::Serialize;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::StateName;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_store::PaymentRow;
use utoipa::{IntoResponses, ToSchema};

use super::super::OperatorState;
use super::super::authentication::Operator;
use super::filter::{ListParameters, Place, filter};
use crate::error::ApiError;
use crate::http::serialized;
use crate::refusals::{Documentation, Refusal, responses};

/// A payment in a list.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct ListedPayment {
    #[schema(value_type = Uuid)]
    payment_id: PaymentId,
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    payin_source: String,
    payin_reference: String,
    #[schema(value_type = String)]
    state: StateName,
    version: u64,
    #[schema(required, value_type = Option<String>)]
    reason: Option<Reason>,
    #[schema(required, value_type = Option<String>)]
    blocked: Option<Blocked>,
    #[schema(value_type = String, format = DateTime)]
    received_at: Timestamp,
    /// When it came to its state.
    #[schema(value_type = String, format = DateTime)]
    changed_at: Timestamp,
}

impl From<PaymentRow> for ListedPayment {
    fn from(row: PaymentRow) -> ListedPayment {
        ListedPayment {
            payment_id: row.payment_id,
            merchant_id: row.merchant_id,
            payin_source: row.payin_source,
            payin_reference: row.payin_reference,
            state: row.standing.state,
            version: row.version,
            reason: row.standing.reason,
            blocked: row.standing.blocked,
            received_at: row.created_at,
            changed_at: row.standing.changed_at,
        }
    }
}

/// A page of payments, by merchant and id.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct PaymentPage {
    payments: Vec<ListedPayment>,
    #[schema(minimum = 1, maximum = 200, examples(50), value_type = i64)]
    limit: u32,
    /// The `after` of the next page; null on the last one.
    #[schema(required)]
    next_after: Option<String>,
}

/// What listing payments can be refused for.
pub(in super::super) struct ListRefusals;

impl IntoResponses for ListRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::AdminValidation])
    }
}

/// List payments
#[utoipa::path(
    get,
    path = "/operator/v1/payments",
    operation_id = "listPayments",
    tag = "Payments",
    params(ListParameters),
    responses((status = 200, description = "A page of payments.", body = PaymentPage), ListRefusals)
)]
pub(in super::super) async fn list_payments(
    _operator: Operator,
    State(state): State<OperatorState>,
    RawQuery(query): RawQuery,
) -> Result<Response, ApiError> {
    let (filter, after, limit) = filter(query.as_deref(), state.envelope.clock.now())?;
    let mut rows = state
        .store
        .payment_search(&filter, after.map(|Place(merchant, payment)| (merchant, payment)), limit + 1)
        .await?;
    let is_more = rows.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    rows.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    let last = rows.last().filter(|_| is_more);
    let next_after = last.map(|row| Place(row.merchant_id, row.payment_id).to_string());
    let payments = rows.into_iter().map(ListedPayment::from).collect();
    Ok(serialized(&PaymentPage { payments, limit, next_after })?)
}
