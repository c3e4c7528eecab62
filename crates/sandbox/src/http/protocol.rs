//! The routes of the provider protocol.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use settle_domain::time::Timestamp;
use settle_provider::client::IDEMPOTENCY_KEY_HEADER;
use settle_provider::wire::{
    self, Absence, Body, Capabilities, ConversionRequest, Operation, OperationPage, PayoutRequest, Problem,
    ProblemCode, Quote, QuoteRequest, RefundRequest, VoidRequest, WireFault,
};
use uuid::Uuid;

use super::{Signed, after, answer, invalid, parameter, problem, reply};
use crate::behaviour::{Behaviour, Call};
use crate::desk::Desk;
use crate::ledger::{Ledger, Reply};
use crate::rates;
use crate::record::Asked;

/// How long a key is known, at least. The sandbox forgets none, but says what most providers say.
const WINDOW_SECONDS: u64 = 86_400;

pub(super) fn routes() -> Router<Arc<Desk>> {
    Router::new()
        .route("/capabilities", get(capabilities))
        .route("/quotes", post(quote))
        .route("/conversions", post(convert))
        .route("/payouts", post(pay_out))
        .route("/refunds", post(refund))
        .route("/operations", get(list_operations))
        .route("/operations/{operation_id}", get(look_up))
        .route("/operations/{operation_id}/void", post(void))
        .fallback(unknown)
}

/// What the provider can do
///
/// Asked when Settle starts, and now and then.
#[utoipa::path(
    get,
    path = "/capabilities",
    operation_id = "getCapabilities",
    responses(
        (status = 200, description = "What it can do, and how long it remembers.", body = Capabilities),)
)]
pub(crate) async fn capabilities(State(desk): State<Arc<Desk>>, _: Signed) -> Response {
    let told =
        |ledger: &mut Ledger, _, _: &_| ((ledger.instance.clone(), ledger.says_sandbox), ledger.first_line());
    let Ok((instance, sandbox)) = desk.held(told).await else { return super::cut() };
    let capabilities = Capabilities {
        instance,
        sandbox,
        pairs: rates::pairs(),
        assets: rates::assets(),
        idempotency_window_seconds: WINDOW_SECONDS,
    };
    answer(&desk, StatusCode::OK, &capabilities)
}

/// A price
///
/// Binds the provider until it expires. Nothing is executed.
#[utoipa::path(
    post,
    path = "/quotes",
    operation_id = "createQuote",
    request_body = QuoteRequest,
    responses(
        (status = 200, description = "The price.", body = Quote),
        (status = 422, description = "No price: `quote_refused` or `sender_not_registered`.", body = Problem),)
)]
pub(crate) async fn quote(State(desk): State<Arc<Desk>>, signed: Signed) -> Response {
    let request: QuoteRequest = match wire::read(&signed.body) {
        Ok(request) => request,
        Err(fault) => return invalid(&desk, &fault),
    };
    let behaviour = Behaviour::of(&request.payin_reference, Call::Quote);
    let counted = format!("quote {}", request.payin_reference);
    if let Some(stumbled) = desk.with(|ledger, _, _| ledger.stumble(&counted, behaviour, None)) {
        return reply(&desk, Ok(stumbled)).await;
    }
    let refused = |code, reason: &str| problem(&desk, StatusCode::UNPROCESSABLE_ENTITY, code, reason);
    match behaviour {
        Behaviour::Refuse => return refused(ProblemCode::QuoteRefused, "sandbox:refuse"),
        Behaviour::Unregistered => return refused(ProblemCode::SenderNotRegistered, "sandbox:unregistered"),
        Behaviour::Timeout => return reply(&desk, Ok(Reply::Hang)).await,
        Behaviour::Garbage => return reply(&desk, Ok(Reply::Garbage)).await,
        Behaviour::Ghost => {
            let reason = Some("the answer is lost".to_owned());
            let lost = Problem { code: ProblemCode::InternalError, reason, operation_id: None };
            return reply(&desk, Ok(Reply::Problem(500, lost))).await;
        }
        _ => {}
    }
    match desk.with(|ledger, now, _| ledger.rates.quote(&request, &ledger.instance, now)) {
        Ok(quote) => answer(&desk, StatusCode::OK, &quote),
        Err(fault) => refused(ProblemCode::QuoteRefused, &fault.to_string()),
    }
}

/// Convert
///
/// Sells what came in at the price of a quote.
/// A quote that has expired is refused with the reason `quote_expired`.
#[utoipa::path(
    post,
    path = "/conversions",
    operation_id = "createConversion",
    request_body = ConversionRequest,
    responses(
        (status = 200, description = "The operation as it stands; the same as the first time, if it came before.", body = Operation),
        (status = 202, description = "Accepted, and not yet final.", body = Operation),
        (status = 409, description = "Blocked for now: send the same again later. Nothing was executed.", body = Problem),
        (status = 422, description = "Refused for good; or `conflict`: another body came under this key.", body = Problem),
        (status = 429, description = "Too much at once: send the same again later. Nothing was executed.", body = Problem),
        (status = 503, description = "Away: send the same again later. Nothing was executed.", body = Problem),)
)]
pub(crate) async fn convert(State(desk): State<Arc<Desk>>, signed: Signed) -> Response {
    operate::<ConversionRequest>(&desk, &signed, Asked::Conversion).await
}

/// Pay out
///
/// Pays to the merchant's destination.
#[utoipa::path(
    post,
    path = "/payouts",
    operation_id = "createPayout",
    request_body = PayoutRequest,
    responses(
        (status = 200, description = "The operation as it stands; the same as the first time, if it came before.", body = Operation),
        (status = 202, description = "Accepted, and not yet final.", body = Operation),
        (status = 409, description = "Blocked for now: send the same again later. Nothing was executed.", body = Problem),
        (status = 422, description = "Refused for good; or `conflict`: another body came under this key.", body = Problem),
        (status = 429, description = "Too much at once: send the same again later. Nothing was executed.", body = Problem),
        (status = 503, description = "Away: send the same again later. Nothing was executed.", body = Problem),)
)]
pub(crate) async fn pay_out(State(desk): State<Arc<Desk>>, signed: Signed) -> Response {
    operate::<PayoutRequest>(&desk, &signed, Asked::Payout).await
}

/// Refund
///
/// Sends back what came in.
#[utoipa::path(
    post,
    path = "/refunds",
    operation_id = "createRefund",
    request_body = RefundRequest,
    responses(
        (status = 200, description = "The operation as it stands; the same as the first time, if it came before.", body = Operation),
        (status = 202, description = "Accepted, and not yet final.", body = Operation),
        (status = 409, description = "Blocked for now: send the same again later. Nothing was executed.", body = Problem),
        (status = 422, description = "Refused for good; or `conflict`: another body came under this key.", body = Problem),
        (status = 429, description = "Too much at once: send the same again later. Nothing was executed.", body = Problem),
        (status = 503, description = "Away: send the same again later. Nothing was executed.", body = Problem),)
)]
pub(crate) async fn refund(State(desk): State<Arc<Desk>>, signed: Signed) -> Response {
    operate::<RefundRequest>(&desk, &signed, Asked::Refund).await
}

async fn operate<T: Body>(desk: &Desk, signed: &Signed, ask: fn(T) -> Asked) -> Response {
    let asked = match wire::read(&signed.body) {
        Ok(request) => ask(request),
        Err(fault) => return invalid(desk, &fault),
    };
    let key = signed.headers.get(IDEMPOTENCY_KEY_HEADER).map(|key| key.to_str().unwrap_or_default());
    if key.is_some_and(|key| key.parse() != Ok(asked.operation_id())) {
        return invalid(desk, &WireFault::new(IDEMPOTENCY_KEY_HEADER, "names another operation"));
    }
    reply(desk, desk.held(|ledger, now, journal| ledger.operate(asked, now, journal)).await).await
}

/// Look an operation up
///
/// Tells the truth also while its request is under way.
#[utoipa::path(
    get,
    path = "/operations/{operation_id}",
    operation_id = "getOperation",
    params(("operation_id" = Uuid, Path, description = "The idempotency key of the operation.")),
    responses(
        (status = 200, description = "The operation as it stands; the same as the first time, if it came before.", body = Operation),
        (status = 202, description = "Accepted, and not yet final.", body = Operation),
        (status = 404, description = "It was never begun, as far as this instance knows.", body = Absence),)
)]
pub(crate) async fn look_up(State(desk): State<Arc<Desk>>, Path(id): Path<String>, _: Signed) -> Response {
    let Ok(id) = id.parse::<Uuid>() else { return unknown(State(desk)).await };
    reply(&desk, desk.held(|ledger, now, journal| ledger.look_up(id, now, journal)).await).await
}

/// Void an operation
///
/// What was not begun is refused for ever, also if its request arrives later.
/// What was begun stays as it stands.
#[utoipa::path(
    post,
    path = "/operations/{operation_id}/void",
    operation_id = "voidOperation",
    params(("operation_id" = Uuid, Path, description = "The idempotency key of the operation.")),
    request_body = VoidRequest,
    responses(
        (status = 200, description = "The operation as it stands; the same as the first time, if it came before.", body = Operation),
        (status = 202, description = "Accepted, and not yet final.", body = Operation),)
)]
pub(crate) async fn void(State(desk): State<Arc<Desk>>, Path(id): Path<String>, signed: Signed) -> Response {
    let Ok(id) = id.parse::<Uuid>() else { return unknown(State(desk)).await };
    if !signed.body.is_empty() {
        match wire::read::<VoidRequest>(&signed.body) {
            Ok(request) if request.operation_id == id => {}
            Ok(_) => return invalid(&desk, &WireFault::new("operation_id", "is not that of the path")),
            Err(fault) => return invalid(&desk, &fault),
        }
    }
    reply(&desk, desk.held(|ledger, now, journal| ledger.void(id, now, journal)).await).await
}

/// What has changed
///
/// Every operation that has changed since then, once and as it stands, the longest ago first.
#[utoipa::path(
    get,
    path = "/operations",
    operation_id = "listOperations",
    params(
        ("updated_since" = Option<String>, Query, format = DateTime, description = "Changes from this time on."),
        ("after" = Option<String>, Query, description = "`next` of the page before."),
    ),
    responses(
        (status = 200, description = "A page.", body = OperationPage),)
)]
pub(crate) async fn list_operations(
    State(desk): State<Arc<Desk>>,
    RawQuery(query): RawQuery,
    _: Signed,
) -> Response {
    let query = query.as_deref();
    let since = match parameter(query, "updated_since").map(|text| text.parse::<Timestamp>()) {
        None => Timestamp::MIN,
        Some(Ok(since)) => since,
        Some(Err(fault)) => return invalid(&desk, &WireFault::new("updated_since", format!("is {fault}"))),
    };
    let after = match after(query) {
        Ok(after) => after,
        Err(fault) => return invalid(&desk, &fault),
    };
    match desk.held(|ledger, now, journal| ledger.changed(since, after, now, journal)).await {
        Ok((operations, next)) => {
            let next = next.map(|next| next.to_string());
            answer(&desk, StatusCode::OK, &OperationPage { operations, next, unreadable: Vec::new() })
        }
        Err(_) => super::cut(),
    }
}

async fn unknown(State(desk): State<Arc<Desk>>) -> Response {
    problem(&desk, StatusCode::NOT_FOUND, ProblemCode::NotFound, "there is nothing at this path")
}
