//! `/operator/v1/payments`: pay-ins that the engine is to settle, and what became of them.

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Serialize;
use serde_json::value::RawValue;
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{PayIn, PaymentOrder, StateName, check_reference};
use settle_domain::quote::FixedSide;
use settle_domain::settlement::parse_object;
use settle_domain::time::Timestamp;
use settle_engine::advance::Advance;
use settle_engine::case::Case;
use settle_engine::writer::{CreateError, Created};
use settle_store::PAYMENTS_AT_ONCE_MAX;
use utoipa::{IntoResponses, ToSchema};

use super::OperatorState;
use super::authentication::Operator;
use super::details::Details;
use super::fields::Fields;
use crate::error::{ApiError, BodyFault};
use crate::http::{read_body, serialized};
use crate::refusals::{Documentation, Refusal, responses};

mod acts;
mod filter;
#[cfg(test)]
mod fuzz;
mod list;
mod proposed;
mod retries;
mod show;

pub(super) use acts::*;
pub(super) use list::*;
pub(super) use proposed::Proposed;
pub(super) use retries::*;
pub(super) use show::*;

/// The longest body, in bytes: room for as many payments as one call takes.
const BODY_BYTES_MAX: usize = 4 * 1_024 * 1_024;

/// A pay-in to settle.
#[derive(ToSchema)]
#[schema(as = PaymentRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads them, to name every fault")]
pub(super) struct RequestSchema {
    #[schema(value_type = Uuid)]
    merchant_id: String,
    /// The reference of the incoming payment, unique with its source.
    #[schema(examples("pix-2026-0001"))]
    payin_reference: String,
    /// The account that received it; `default` if absent.
    payin_source: Option<String>,
    #[schema(examples("BRL"))]
    incoming_currency: String,
    #[schema(examples("1000.00"))]
    incoming_amount: String,
    #[schema(examples("USDC"))]
    outgoing_currency: String,
    /// Where the payout goes.
    #[schema(examples("wallet-7"))]
    destination_reference: String,
    /// When the pay-in took place; now if absent.
    #[schema(format = DateTime)]
    occurred_at: Option<String>,
    /// `incoming` if absent; `outgoing` needs `outgoing_amount`.
    fixed_side: Option<String>,
    /// What is to go out, if the outgoing side is fixed.
    outgoing_amount: Option<String>,
}

/// What became of one pay-in.
#[derive(Serialize, ToSchema)]
pub(super) struct ReceivedPayment {
    #[schema(value_type = Uuid)]
    payment_id: PaymentId,
    payin_reference: String,
    #[schema(value_type = String, examples("received"))]
    state: StateName,
    /// Whether it is new; if not, the same was there already.
    created: bool,
}

/// What became of the pay-ins, in their order.
#[derive(Serialize, ToSchema)]
pub(super) struct ReceivedPayments {
    payments: Vec<ReceivedPayment>,
}

/// What receiving payments can be refused for.
pub(super) struct ReceiveRefusals;

impl IntoResponses for ReceiveRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::InvalidPayments, Refusal::AdminValidation, Refusal::PayInConflict])
    }
}

/// Receive pay-ins, one or up to 1,000, to be settled by the engine
#[utoipa::path(
    post,
    path = "/operator/v1/payments",
    operation_id = "receivePayments",
    tag = "Payments",
    request_body = RequestSchema,
    responses((status = 200, description = "What became of each.", body = ReceivedPayments), ReceiveRefusals)
)]
pub(super) async fn receive_payments(
    operator: Operator,
    State(state): State<OperatorState>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = read_body(&headers, body, BODY_BYTES_MAX, state.body_timeout).await;
    let body = body.map_err(ApiError::InvalidBody)?;
    let (mut orders, is_list) = read(&body, state.envelope.clock.now())?;
    let by = Actor::Operator(operator.id());
    let mut created = create(&state, &orders, by).await?;
    if let Err(CreateError::Conflicts(places)) = &created
        && date_alike(&state, &mut orders, places).await?
    {
        created = create(&state, &orders, by).await?;
    }
    let created = created.map_err(|fault| not_created(fault, &orders, is_list))?;
    let mut payments = Vec::with_capacity(created.len());
    for (Undated { order, .. }, created) in orders.iter().zip(created) {
        let state_name = if created.is_new {
            StateName::Received
        } else {
            let row = state.store.payment_find(order.merchant_id, created.payment_id).await?;
            row.map_or(StateName::Received, |row| row.standing.state)
        };
        payments.push(ReceivedPayment {
            payment_id: created.payment_id,
            payin_reference: order.payin.reference().to_owned(),
            state: state_name,
            created: created.is_new,
        });
    }
    Ok(serialized(&ReceivedPayments { payments })?)
}

/// A pay-in, and whether it took place now because the request does not say when.
struct Undated {
    order: PaymentOrder,
    is_undated: bool,
}

async fn create(
    state: &OperatorState,
    orders: &[Undated],
    by: Actor,
) -> Result<Result<Vec<Created>, CreateError>, ApiError> {
    let now = state.envelope.clock.now();
    let mut received = Vec::with_capacity(orders.len());
    for Undated { order, .. } in orders {
        let advance = Advance::received(Case::received(order.clone(), now), by, now);
        received.push(advance.map_err(|fault| ApiError::Internal(fault.to_string()))?);
    }
    Ok(state.means.writer.create(received).await)
}

/// Gives pay-ins without a time that are there already the time that they have there: whoever does not say
/// when a pay-in took place may hand it over again. Says whether there are any.
async fn date_alike(
    state: &OperatorState,
    orders: &mut [Undated],
    places: &[usize],
) -> Result<bool, ApiError> {
    let mut is_any = false;
    for place in places {
        let Some(Undated { order, is_undated: true }) = orders.get_mut(*place) else { continue };
        let id = PaymentId::of(order.merchant_id, &order.payin);
        if let Some(known) = state.means.read(order.merchant_id, id).await? {
            order.occurred_at = known.payment.order.occurred_at;
            is_any = true;
        }
    }
    Ok(is_any)
}

fn not_created(fault: CreateError, orders: &[Undated], is_list: bool) -> ApiError {
    let place = |index: usize| if is_list { format!("[{index}].") } else { String::new() };
    match fault {
        CreateError::UnknownMerchants(unknown) => {
            let merchants = orders.iter().map(|undated| undated.order.merchant_id).enumerate();
            let of_unknown = merchants.filter(|(_, merchant)| unknown.contains(merchant));
            let named = of_unknown.map(|(index, merchant)| {
                format!("{}merchant_id: there is no merchant {merchant}", place(index))
            });
            ApiError::AdminValidation(named.collect())
        }
        CreateError::Conflicts(places) => {
            let named = places
                .into_iter()
                .map(|index| format!("{}payin_reference: is there already with other content", place(index)));
            ApiError::Conflict(named.collect())
        }
        fault @ CreateError::Locked => ApiError::Unavailable(fault.to_string()),
        CreateError::Store(fault) => ApiError::from(&*fault),
    }
}

/// Reads one pay-in or a list of them, and names every fault.
fn read(body: &[u8], now: Timestamp) -> Result<(Vec<Undated>, bool), ApiError> {
    let unreadable = || ApiError::InvalidBody(BodyFault::Unreadable);
    let is_list = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let elements: Vec<&[u8]> = if is_list {
        let elements: Vec<&RawValue> = serde_json::from_slice(body).map_err(|_| unreadable())?;
        elements.iter().map(|element| element.get().as_bytes()).collect()
    } else {
        vec![body]
    };
    if elements.is_empty() || elements.len() > PAYMENTS_AT_ONCE_MAX {
        let detail = format!("a list has 1 to {PAYMENTS_AT_ONCE_MAX} payments, not {}", elements.len());
        return Err(ApiError::AdminValidation(vec![detail]));
    }
    let (mut orders, mut details) = (Vec::with_capacity(elements.len()), Details::default());
    for (index, element) in elements.into_iter().enumerate() {
        let object = parse_object(element).map_err(|_| unreadable())?;
        match order(Fields::of(object), now) {
            Ok(order) => orders.push(order),
            Err(faults) => {
                for fault in faults {
                    details.push(|| if is_list { format!("[{index}].{fault}") } else { fault });
                }
            }
        }
    }
    if details.is_empty() {
        Ok((orders, is_list))
    } else {
        Err(ApiError::AdminValidation(details.into_list()))
    }
}

fn order(mut fields: Fields, now: Timestamp) -> Result<Undated, Vec<String>> {
    let merchant_id = fields.required_as::<MerchantId>("merchant_id");
    let reference = fields.required_checked("payin_reference", check_reference);
    let source = fields.optional_checked("payin_source", check_reference);
    let incoming = fields.required_as("incoming_currency");
    let incoming_amount = fields.required_as("incoming_amount");
    let outgoing = fields.required_as("outgoing_currency");
    let destination_reference = fields.required("destination_reference");
    let occurred_at = fields.optional_as::<Timestamp>("occurred_at");
    let fixed_side = fields.optional_as::<FixedSide>("fixed_side").unwrap_or(FixedSide::Incoming);
    let outgoing_target = fields.optional_as("outgoing_amount");
    if fixed_side == FixedSide::Outgoing && outgoing_target.is_none() {
        fields.fault("outgoing_amount: is required when the outgoing side is fixed");
    }
    if fixed_side == FixedSide::Incoming && outgoing_target.is_some() {
        fields.fault("outgoing_amount: is only for a fixed outgoing side");
    }
    // What is wrong with it stands there already.
    let payin = PayIn::new(source, reference).ok();
    let faults = fields.faults("a payment");
    let whole = (merchant_id.zip(payin)).zip(incoming.zip(incoming_amount)).zip(outgoing);
    match whole {
        Some((((merchant_id, payin), (incoming, incoming_amount)), outgoing)) if faults.is_empty() => {
            let order = PaymentOrder {
                merchant_id,
                payin,
                incoming,
                incoming_amount,
                outgoing,
                outgoing_target,
                destination_reference,
                occurred_at: occurred_at.unwrap_or(now),
            };
            let order = order.checked();
            order
                .map(|order| Undated { order, is_undated: occurred_at.is_none() })
                .map_err(|faults| faults.iter().map(ToString::to_string).collect())
        }
        _ => Err(faults),
    }
}
