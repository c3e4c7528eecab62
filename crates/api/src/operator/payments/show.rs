//! One payment, whole: its amounts, the provider's quote, what was earned on it, what was asked of providers,
//! and its timeline.

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use settle_domain::actor::Actor;
use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::money::{Asset, Decimal};
use settle_domain::operation::{OperationKind, OperationStatus};
use settle_domain::payment::{Flag, StateName};
use settle_domain::provider::ProviderName;
use settle_domain::quote::FixedSide;
use settle_domain::quoting::ProviderQuote;
use settle_domain::reason::{Blocked, Reason};
use settle_domain::time::Timestamp;
use settle_engine::acts::proposals;
use settle_engine::case::Case;
use settle_store::StepRow;
use utoipa::{IntoResponses, ToSchema};

use super::super::OperatorState;
use super::super::authentication::Operator;
use super::super::names::Names;
use crate::error::ApiError;
use crate::http::{PathIds, serialized};
use crate::refusals::{Documentation, Refusal, responses};

/// A payment.
#[derive(Serialize, ToSchema)]
pub(in super::super) struct Payment {
    #[schema(value_type = Uuid)]
    payment_id: PaymentId,
    #[schema(value_type = Uuid)]
    merchant_id: MerchantId,
    payin_source: String,
    payin_reference: String,
    #[schema(value_type = String, examples("paying_out"))]
    state: StateName,
    /// What an act must name.
    version: u64,
    #[schema(required, value_type = Option<String>)]
    reason: Option<Reason>,
    #[schema(required, value_type = Option<String>)]
    blocked: Option<Blocked>,
    /// What stands out whatever the state says: `returned`, the money came back after the end; `astray`,
    /// something moved after the payment had gone on without it.
    #[schema(required, value_type = Option<String>)]
    flag: Option<Flag>,
    /// Whether the money came back after the end, as its provider or an operator said.
    returned: bool,
    /// What keeps it from going on until a person mends it, in words: a provider that the settings of this
    /// process do not have, that an operator has paused, that does not accept our credentials, or that must
    /// first say what became of what people gave up.
    #[schema(required, examples("provider bank is paused by an operator: settle provider resume bank"))]
    obstacle: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    occurred_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    received_at: Timestamp,
    #[schema(value_type = String, examples("BRL"))]
    incoming_currency: Asset,
    #[schema(value_type = String, examples("1000.00"))]
    incoming_amount: Decimal,
    #[schema(value_type = String, examples("USDC"))]
    outgoing_currency: Asset,
    destination_reference: String,
    #[schema(required, value_type = Option<String>)]
    outgoing_amount: Option<Decimal>,
    #[schema(required, value_type = Option<String>)]
    conversion_rate: Option<Decimal>,
    #[schema(required, value_type = Option<String>)]
    fixed_side: Option<FixedSide>,
    #[schema(required, value_type = Option<String>)]
    fee_percentage: Option<Decimal>,
    #[schema(required, value_type = Option<String>)]
    fee_percentage_amount: Option<Decimal>,
    #[schema(required, value_type = Option<String>)]
    fee_fixed: Option<Decimal>,
    /// The version of the corridor that its first quote took.
    #[schema(required)]
    corridor_version: Option<u32>,
    #[schema(required, value_type = Option<String>)]
    provider: Option<ProviderName>,
    /// The provider's quote that the amounts are frozen at; null without a conversion. No merchant sees it.
    #[schema(required)]
    quote: Option<Quote>,
    /// What the operator earns on it, from the conversion on. No merchant sees it.
    #[schema(required)]
    pricing: Option<Pricing>,
    /// What moved, or may move, after the payment had gone on without it.
    #[schema(required)]
    late: Option<Late>,
    operations: Vec<Operation>,
    /// What its state allows an operator to do: `retry`, `refund`, `cancel`, `returned`, or `resolve_` and an
    /// outcome.
    #[schema(examples("resolve_paid"))]
    allowed_acts: Vec<String>,
    timeline: Vec<Line>,
}

/// What a provider offers.
#[derive(Serialize, ToSchema)]
#[schema(as = PaymentQuote)]
struct Quote {
    /// The provider's name for it.
    quote_id: String,
    /// What is sold, in the incoming currency.
    #[schema(value_type = String, examples("1000.00"))]
    sell_amount: Decimal,
    /// What is bought, in the outgoing asset.
    #[schema(value_type = String, examples("184.162062"))]
    buy_amount: Decimal,
    /// Sold units per bought unit, if the provider says so.
    #[schema(required, value_type = Option<String>)]
    rate: Option<Decimal>,
    /// Until when it binds.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
}

impl Quote {
    fn of(offer: &ProviderQuote) -> Quote {
        let ProviderQuote { quote_id, sell_amount, buy_amount, rate, expires_at } = offer.clone();
        Quote { quote_id, sell_amount, buy_amount, rate, expires_at }
    }
}

/// What the operator earns on a payment, in the outgoing asset.
#[derive(Serialize, ToSchema)]
#[schema(as = PaymentPricing)]
struct Pricing {
    #[schema(value_type = String)]
    bought: Decimal,
    #[schema(value_type = String)]
    fees: Decimal,
    #[schema(value_type = String)]
    spread: Decimal,
    #[schema(value_type = String)]
    commission: Decimal,
    /// What the house had to add.
    #[schema(value_type = String)]
    shortfall: Decimal,
}

/// An operation that counted as not done, and was done after all, or may be.
#[derive(Serialize, ToSchema)]
#[schema(as = LateOperation)]
struct Late {
    #[schema(value_type = String, examples("payout"))]
    kind: OperationKind,
    /// Whether it is known to have moved: then the money is astray. If not, it may yet.
    moved: bool,
}

/// One thing asked of a provider.
#[derive(Serialize, ToSchema)]
#[schema(as = PaymentOperation)]
struct Operation {
    #[schema(value_type = Uuid)]
    operation_id: OperationId,
    #[schema(value_type = String, examples("payout"))]
    kind: OperationKind,
    attempt: u32,
    #[schema(value_type = String, examples("succeeded"))]
    status: OperationStatus,
    #[schema(value_type = String)]
    provider: ProviderName,
    #[schema(required)]
    provider_reference: Option<String>,
    /// What was asked, and what the provider says that it did instead, if that is something else.
    #[schema(required)]
    deviation: Option<String>,
}

/// A line of the timeline.
#[derive(Serialize, ToSchema)]
#[schema(as = PaymentStep)]
struct Line {
    #[schema(value_type = String, format = DateTime)]
    at: Timestamp,
    /// The state before; null for the first line.
    #[schema(required)]
    from: Option<String>,
    /// The state after.
    #[schema(examples("paying_out"))]
    to: String,
    /// Why: a code of the contract.
    #[schema(required)]
    reason: Option<String>,
    /// The operation that it was about.
    #[schema(required, value_type = Option<Uuid>)]
    operation_id: Option<String>,
    /// `engine`, `command`, or `operator:` and an id.
    #[schema(value_type = String, examples("engine"))]
    by: Actor,
    /// The operator's name.
    #[schema(required)]
    by_name: Option<String>,
    /// What was booked; the sum is zero in each asset.
    postings: Vec<Booked>,
    /// What an operator gave as evidence, or the engine remarked.
    #[schema(required)]
    note: Option<String>,
}

/// A line as the engine wrote it down.
#[derive(Deserialize)]
struct Step {
    from: Option<String>,
    to: String,
    reason: Option<String>,
    operation_id: Option<String>,
    by: Actor,
    postings: Vec<Booked>,
    #[serde(default)]
    note: Option<String>,
}

/// What was booked on an account.
#[derive(Serialize, Deserialize, ToSchema)]
#[schema(as = Posting)]
struct Booked {
    #[schema(examples("payable"))]
    account: String,
    #[schema(examples("USDC"))]
    asset: String,
    /// With a sign: the one place where an amount has one.
    #[schema(examples("-180.247145"))]
    amount: String,
}

/// What showing a payment can be refused for.
pub(in super::super) struct ShowRefusals;

impl IntoResponses for ShowRefusals {
    fn responses() -> Documentation {
        responses(&[Refusal::UnknownPayment])
    }
}

/// Show a payment with its operations and its timeline
#[utoipa::path(
    get,
    path = "/operator/v1/merchants/{merchant_id}/payments/{payment_id}",
    operation_id = "showPayment",
    tag = "Payments",
    params(
        ("merchant_id" = Uuid, Path, description = "The merchant."),
        ("payment_id" = Uuid, Path, description = "The payment.")
    ),
    responses((status = 200, description = "The payment.", body = Payment), ShowRefusals)
)]
pub(in super::super) async fn show_payment(
    _operator: Operator,
    State(state): State<OperatorState>,
    ids: PathIds,
) -> Result<Response, ApiError> {
    let (merchant, payment) = payment_of(&ids)?;
    let case = state.means.read(merchant, payment).await?.ok_or(ApiError::NotFound)?;
    whole(&state, case).await
}

/// The ids in the path.
pub(super) fn payment_of(ids: &PathIds) -> Result<(MerchantId, PaymentId), ApiError> {
    ids.id("merchant_id").zip(ids.id("payment_id")).ok_or(ApiError::NotFound)
}

/// The payment as it is shown.
pub(in super::super) async fn whole(state: &OperatorState, case: Case) -> Result<Response, ApiError> {
    let (merchant, payment_id) = (case.merchant_id(), case.payment.payment_id);
    let steps = state.store.payment_steps(merchant, payment_id).await?;
    let mut timeline = steps.iter().map(line).collect::<Result<Vec<Line>, ApiError>>()?;
    let names = Names::of(&*state.store, timeline.iter().map(|line| line.by)).await?;
    for line in &mut timeline {
        line.by_name = names.find(line.by);
    }
    let operations = case.operations.iter().map(|tracked| {
        let operation = &tracked.operation;
        Operation {
            operation_id: operation.operation_id,
            kind: operation.request.kind(),
            attempt: operation.attempt,
            status: operation.memory.status,
            provider: operation.provider.clone(),
            provider_reference: operation.provider_reference.clone(),
            deviation: operation.deviation.clone(),
        }
    });
    let obstacle = state.means.obstacle(&case).await?.map(|obstacle| obstacle.to_string());
    let payment = &case.payment;
    let order = &payment.order;
    let frozen = payment.quote.as_ref();
    let shown = Payment {
        payment_id,
        merchant_id: merchant,
        payin_source: order.payin.source().to_owned(),
        payin_reference: order.payin.reference().to_owned(),
        state: payment.state.name(),
        version: payment.version,
        reason: payment.reason,
        blocked: payment.blocked,
        flag: payment.flag(),
        returned: payment.state.parts().is_returned,
        obstacle,
        occurred_at: order.occurred_at,
        received_at: payment.received_at,
        incoming_currency: order.incoming,
        incoming_amount: order.incoming_amount,
        outgoing_currency: order.outgoing,
        destination_reference: order.destination_reference.clone(),
        outgoing_amount: frozen.map(|frozen| frozen.quote.outgoing_amount),
        conversion_rate: frozen.map(|frozen| frozen.conversion_rate),
        fixed_side: frozen.map(|frozen| frozen.fixed_side),
        fee_percentage: frozen.map(|frozen| frozen.fee_percentage),
        fee_percentage_amount: frozen.map(|frozen| frozen.quote.fee_percentage_amount),
        fee_fixed: frozen.map(|frozen| frozen.quote.fee_fixed),
        corridor_version: payment.corridor_version.map(|version| version.0),
        provider: payment.provider.clone(),
        quote: case.offer.as_ref().map(Quote::of),
        pricing: payment.split.map(|split| Pricing {
            bought: split.bought,
            fees: split.fees,
            spread: split.spread,
            commission: split.commission,
            shortfall: split.shortfall,
        }),
        late: payment.late.map(|late| Late { kind: late.kind, moved: late.moved }),
        operations: operations.collect(),
        allowed_acts: case.allowed_acts().map(proposals::name_of).collect(),
        timeline,
    };
    Ok(serialized(&shown)?)
}

fn line(row: &StepRow) -> Result<Line, ApiError> {
    let step: Result<Step, _> = serde_json::from_str(&row.step);
    let step = step.map_err(|fault| ApiError::Internal(format!("a step that cannot be read: {fault}")))?;
    let Step { from, to, reason, operation_id, by, postings, note } = step;
    Ok(Line { at: row.at, from, to, reason, operation_id, by, by_name: None, postings, note })
}
