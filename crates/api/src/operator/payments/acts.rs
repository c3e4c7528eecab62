//! What an operator does with a payment: retry, refund, cancel, resolve, say that money came back.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, PaymentId};
use settle_domain::payment::{Act, Outcome, check_evidence, check_reference};
use settle_engine::acts::{ActError, People, act, proposals};
use settle_engine::advance::Deed;
use utoipa::{IntoResponses, ToSchema};

use super::super::OperatorState;
use super::super::authentication::Operator;
use super::super::fields::Fields;
use super::proposed::Proposed;
use super::show::{Payment, payment_of, whole};
use crate::error::ApiError;
use crate::http::{PathIds, serialized};
use crate::refusals::{Documentation, Refusal, responses};

/// An act on a payment.
#[derive(ToSchema)]
#[schema(as = ActRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads them, to name every fault")]
pub(in super::super) struct ActSchema {
    /// The version of the payment that the operator saw.
    #[schema(examples("3"))]
    version: String,
    /// Why, and how the operator knows. It stands in the timeline.
    evidence: String,
    /// Of a retry alone: where the payout goes instead. It needs a second person.
    destination_reference: Option<String>,
}

/// What really became of an operation.
#[derive(ToSchema)]
#[schema(as = ResolveRequest)]
#[expect(dead_code, reason = "only its schema is used: `Fields` reads them, to name every fault")]
pub(in super::super) struct ResolveSchema {
    /// The version of the payment that the operator saw.
    #[schema(examples("3"))]
    version: String,
    /// `paid`, `not_paid`, `converted`, `not_converted`, `refunded` or `not_refunded`.
    outcome: String,
    /// What moved. For `converted` what was bought: needed, and more than 1 % off the quote needs a second
    /// person. For `paid` and `refunded` at least what is owed; more is the house's loss, and needs one too.
    amount: Option<String>,
    /// The provider's own name for the operation.
    provider_reference: Option<String>,
    /// How the operator knows. It stands in the timeline.
    evidence: String,
}

/// What an act can be refused for.
pub(in super::super) struct ActRefusals;

impl IntoResponses for ActRefusals {
    fn responses() -> Documentation {
        responses(&[
            Refusal::InvalidBody,
            Refusal::UnknownPayment,
            Refusal::AdminValidation,
            Refusal::IllegalAct,
        ])
    }
}

macro_rules! acts {
    ($($(#[doc = $doc:literal])+ $name:ident, $path:literal, $id:literal, $act:expr;)+) => {$(
        $(#[doc = $doc])+
        #[utoipa::path(
            post,
            path = $path,
            operation_id = $id,
            tag = "Payments",
            params(
                ("merchant_id" = Uuid, Path, description = "The merchant."),
                ("payment_id" = Uuid, Path, description = "The payment.")
            ),
            request_body = ActSchema,
            responses(
                (status = 200, description = "The payment as it is now.", body = Payment),
                (status = 202, description = "It waits for a second person.", body = Proposed),
                ActRefusals
            )
        )]
        pub(in super::super) async fn $name(
            operator: Operator,
            State(state): State<OperatorState>,
            ids: PathIds,
            headers: HeaderMap,
            body: Body,
        ) -> Result<Response, ApiError> {
            let fields = Fields::read(&headers, body, state.body_timeout).await?;
            perform(&state, &ids, &operator, $act, fields).await
        }
    )+};
}

acts! {
    /// Let the engine try a failed payment again
    retry_payment, "/operator/v1/merchants/{merchant_id}/payments/{payment_id}/retry", "retryPayment", Act::Retry;
    /// Pay the whole incoming amount of a failed payment back
    refund_payment, "/operator/v1/merchants/{merchant_id}/payments/{payment_id}/refund", "refundPayment", Act::Refund;
    /// Stop a payment of which nothing was sent, or nothing is in flight
    cancel_payment, "/operator/v1/merchants/{merchant_id}/payments/{payment_id}/cancel", "cancelPayment", Act::Cancel;
    /// Say that what was paid out came back
    return_payment, "/operator/v1/merchants/{merchant_id}/payments/{payment_id}/returned", "returnPayment",
        Act::Returned;
}

/// Say, with evidence, what became of an operation that nobody knows the outcome of
#[utoipa::path(
    post,
    path = "/operator/v1/merchants/{merchant_id}/payments/{payment_id}/resolve",
    operation_id = "resolvePayment",
    tag = "Payments",
    params(
        ("merchant_id" = Uuid, Path, description = "The merchant."),
        ("payment_id" = Uuid, Path, description = "The payment.")
    ),
    request_body = ResolveSchema,
    responses(
        (status = 200, description = "The payment as it is now.", body = Payment),
        (status = 202, description = "It waits for a second person.", body = Proposed),
        ActRefusals
    )
)]
pub(in super::super) async fn resolve_payment(
    operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut fields = Fields::read(&headers, body, state.body_timeout).await?;
    let act = resolution_of(&mut fields);
    perform(&state, &ids, &operator, act, fields).await
}

/// What became of an operation, as its field says. Without it any act will do: the fault is noted.
pub(super) fn resolution_of(fields: &mut Fields) -> Act {
    fields.required_as::<Outcome>("outcome").map_or(Act::Cancel, Act::Resolve)
}

/// Reads of which version of the payment an act is, and why, and names every fault.
pub(super) fn deed_of(wanted: Act, by: Actor, mut fields: Fields) -> Result<(u64, Deed), ApiError> {
    let version = fields.required_such::<u64>("version", "a whole number, such as 3").unwrap_or_default();
    let evidence = fields.required_checked("evidence", check_evidence);
    let is_resolved = matches!(wanted, Act::Resolve(_));
    let amount = if is_resolved { fields.optional_as("amount") } else { None };
    let mut reference = |is_of_it: bool, field| {
        if is_of_it { fields.optional_checked(field, check_reference) } else { None }
    };
    // A merchant sees both.
    let provider_reference = reference(is_resolved, "provider_reference");
    let destination_reference = reference(wanted == Act::Retry, "destination_reference");
    fields.end("an act on a payment")?;
    let deed = Deed { act: wanted, by, evidence, destination_reference, amount, provider_reference };
    Ok((version, deed))
}

/// Whether an act needs two people: where the settings ask for it, what cannot be undone; and always money
/// that goes elsewhere than was agreed.
fn needs_two_people(state: &OperatorState, deed: &Deed) -> bool {
    let is_final = match deed.act {
        Act::Refund | Act::Returned | Act::Resolve(_) => true,
        Act::Retry | Act::Cancel => false,
    };
    deed.destination_reference.is_some() || (state.two_people && is_final)
}

async fn perform(
    state: &OperatorState,
    ids: &PathIds,
    operator: &Operator,
    wanted: Act,
    fields: Fields,
) -> Result<Response, ApiError> {
    let payment = payment_of(ids)?;
    let (version, deed) = deed_of(wanted, Actor::Operator(operator.id()), fields)?;
    if needs_two_people(state, &deed) {
        return propose(state, payment, version, &deed).await;
    }
    let done = act(&state.means, &state.engine_wake, payment, version, &deed, People::One).await;
    let case = match done {
        // One person's word is not enough, whatever the settings say: it waits for another's.
        Err(ActError::Unconfirmed | ActError::Contradicted | ActError::OffQuote) => {
            return propose(state, payment, version, &deed).await;
        }
        done => done.map_err(refused)?,
    };
    let (merchant_id, payment_id) = payment;
    tracing::info!(%merchant_id, %payment_id, act = ?wanted, "an operator acted on a payment");
    whole(state, case).await
}

async fn propose(
    state: &OperatorState,
    payment: (MerchantId, PaymentId),
    version: u64,
    deed: &Deed,
) -> Result<Response, ApiError> {
    let entropy = &*state.envelope.entropy;
    let proposal =
        proposals::propose(&state.means, entropy, payment, version, deed).await.map_err(refused)?;
    let (merchant_id, payment_id) = payment;
    tracing::info!(%merchant_id, %payment_id, act = ?deed.act, "an operator proposed an act on a payment");
    let proposed = Proposed::all(&*state.store, &[proposal]).await?.pop().ok_or(ApiError::NotFound)?;
    let mut response = serialized(&proposed)?;
    *response.status_mut() = StatusCode::ACCEPTED;
    Ok(response)
}

/// Why an act did nothing, over HTTP.
pub(in super::super) fn refused(fault: ActError) -> ApiError {
    match fault {
        ActError::Unknown => ApiError::NotFound,
        ActError::Lacking(what) => ApiError::AdminValidation(vec![format!("the payment lacks {what}")]),
        ActError::Given(fault) => ApiError::AdminValidation(vec![fault.to_string()]),
        ActError::Store(fault) => ApiError::from(&*fault),
        fault => ApiError::Illegal(fault.code(), fault.to_string()),
    }
}
