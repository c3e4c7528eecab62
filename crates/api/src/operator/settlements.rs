//! `POST /operator/v1/settlements`: records completed settlements, one or many, all of them or none.

use std::collections::HashSet;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use settle_domain::ids::{MerchantId, SettlementId};
use settle_domain::settlement::parse_document;
use settle_outbox::recorder::{RecordError, Recorded};
use settle_store::{BATCH_MAX, NewSettlement};
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::details::Details;
use crate::error::{ApiError, BodyFault};
use crate::http::{read_body, serialized};
use crate::refusals::{Documentation, Refusal, responses};

#[cfg(test)]
mod fuzz;
mod schemas;

use schemas::BatchSchema;

/// The longest body, in bytes: room for [`BATCH_MAX`] settlements with long references.
const BODY_BYTES_MAX: usize = 4 * 1_024 * 1_024;
/// The service parses a longer body on another thread: a thousand settlements take about ten milliseconds,
/// and merchants' requests would have to wait.
const READ_IN_PLACE_BYTES_MAX: usize = 64 * 1_024;

/// What became of the settlements.
#[derive(Serialize, ToSchema)]
#[schema(as = RecordedCounts)]
pub(super) struct Counts {
    /// Settlements that were new.
    #[schema(value_type = i64, minimum = 0, examples(1))]
    recorded: usize,
    /// Settlements that were stored already, with the same content.
    #[schema(value_type = i64, minimum = 0, examples(0))]
    unchanged: usize,
    /// Notifications enqueued.
    #[schema(value_type = i64, minimum = 0, examples(1))]
    notified: usize,
}

/// What recording can be refused for.
pub(super) struct RecordRefusals;

impl IntoResponses for RecordRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::InvalidSettlements, Refusal::AdminValidation, Refusal::Conflict])
    }
}

/// Record completed settlements
///
/// One or up to 1,000, all of them or none. A merchant with a webhook is notified of what is new. Sending the
/// same again changes nothing: a settlement is known by its id within its merchant. An `outgoing_amount` that
/// is more than `incoming_amount`, `conversion_rate` and the fees allow, rounded down, is refused with the
/// largest that they allow, unless the settlement is `unchecked`.
#[utoipa::path(
    post,
    path = "/operator/v1/settlements",
    operation_id = "recordSettlements",
    tag = "Settlements",
    request_body = BatchSchema,
    responses((status = 200, description = "They are recorded.", body = Counts), RecordRefusals)
)]
pub(super) async fn record_settlements(
    _operator: Operator,
    State(state): State<OperatorState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = read_body(&headers, body, BODY_BYTES_MAX, state.body_timeout).await;
    let body = body.map_err(ApiError::InvalidBody)?;
    let (settlements, elements) = if body.len() > READ_IN_PLACE_BYTES_MAX {
        let reading = tokio::task::spawn_blocking(move || read(&body)).await;
        reading.map_err(|fault| ApiError::Internal(format!("reading settlements: {fault}")))??
    } else {
        read(&body)?
    };
    let recorded = state.recorder.record(settlements).await.map_err(|fault| elements.refusal(fault))?;
    let Recorded { recorded, unchanged, notified } = recorded;
    Ok(serialized(&Counts { recorded, unchanged, notified })?)
}

/// Parses the body into settlements ready to be recorded, and the names of its elements.
fn read(body: &[u8]) -> Result<(Vec<NewSettlement>, Elements), ApiError> {
    let document =
        parse_document(body, BATCH_MAX).map_err(|_| ApiError::InvalidBody(BodyFault::Unreadable))?;
    let number = document.settlements.len() + document.surplus;
    if !(1..=BATCH_MAX).contains(&number) {
        let detail = format!("a list has 1 to {BATCH_MAX} settlements, not {number}");
        return Err(ApiError::AdminValidation(vec![detail]));
    }
    let mut details = Details::default();
    let mut settlements: Vec<NewSettlement> = Vec::with_capacity(number);
    for (index, parsed) in document.settlements.into_iter().enumerate() {
        match parsed {
            Ok(settlement) => settlements.push(settlement.into()),
            Err(problems) => {
                for problem in problems {
                    details.push(|| format!("{}{problem}", place(document.is_list, index)));
                }
            }
        }
    }
    if !details.is_empty() {
        return Err(ApiError::AdminValidation(details.into_list()));
    }
    let keys = settlements.iter().map(|row| (row.merchant_id, row.settlement_id)).collect();
    Ok((settlements, Elements { is_list: document.is_list, keys }))
}

/// The text before a field's name: the number of its element, if the body is a list.
fn place(is_list: bool, index: usize) -> String {
    if is_list { format!("[{index}].") } else { String::new() }
}

/// The elements of the body, to name those that are refused.
struct Elements {
    is_list: bool,
    keys: Vec<(MerchantId, SettlementId)>,
}

impl Elements {
    /// Says which elements a fault is about.
    fn refusal(&self, fault: RecordError) -> ApiError {
        match fault {
            RecordError::UnknownMerchants(unknown) => {
                let unknown: HashSet<MerchantId> = unknown.into_iter().collect();
                ApiError::AdminValidation(self.details(|(merchant, _)| {
                    unknown
                        .contains(&merchant)
                        .then(|| format!("merchant_id: there is no merchant {merchant}"))
                }))
            }
            RecordError::Conflicts(keys) => self.conflict(keys, "is there with other content"),
            RecordError::Payments(keys) => self
                .conflict(keys, "has the id or the payin_reference of a payment, which the engine settles"),
            // Whoever tries again finds out whether the import was accepted.
            fault @ RecordError::Reserved(_) => ApiError::Unavailable(fault.to_string()),
            RecordError::Store(fault) => ApiError::from(&*fault),
        }
    }

    fn conflict(&self, keys: Vec<(MerchantId, SettlementId)>, what: &str) -> ApiError {
        let keys: HashSet<_> = keys.into_iter().collect();
        ApiError::Conflict(self.details(|(merchant, settlement)| {
            let named = || format!("settlement_id: settlement {settlement} of merchant {merchant} {what}");
            keys.contains(&(merchant, settlement)).then(named)
        }))
    }

    fn details(&self, problem: impl Fn((MerchantId, SettlementId)) -> Option<String>) -> Vec<String> {
        let mut details = Details::default();
        for (index, key) in self.keys.iter().enumerate() {
            if let Some(problem) = problem(*key) {
                details.push(|| format!("{}{problem}", place(self.is_list, index)));
            }
        }
        details.into_list()
    }
}
