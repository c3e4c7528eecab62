//! The protocol over HTTP, signed both ways; and, unsigned, what tests ask the sandbox itself.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use settle_domain::signature::SignatureFault;
use settle_provider::signing::{self, SigningFault};
use settle_provider::wire::{Problem, ProblemCode, WireFault};
use uuid::Uuid;

use crate::broken::Broken;
use crate::desk::Desk;
use crate::ledger::Reply;
use crate::server::Cut;

mod control;
pub(crate) mod protocol;

/// The longest body of a request.
const BODY_BYTES_MAX: usize = 64 * 1_024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a call that is never answered is held; whoever waits longer sees the connection end.
const HANG_MAX: Duration = Duration::from_hours(1);

/// All routes.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    let routes = protocol::routes().merge(control::routes());
    routes.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).with_state(desk)
}

/// The body of a request whose signature was checked.
pub(crate) struct Signed {
    headers: HeaderMap,
    body: Bytes,
}

impl FromRequest<Arc<Desk>> for Signed {
    type Rejection = Response;

    async fn from_request(request: Request, desk: &Arc<Desk>) -> Result<Signed, Response> {
        let headers = request.headers().clone();
        let body = match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &())).await {
            Ok(Ok(body)) => body,
            Ok(Err(fault)) => {
                return Err(problem(desk, fault.status(), ProblemCode::InvalidBody, &fault.body_text()));
            }
            Err(_) => return Err(cut()),
        };
        let Err(fault) = signing::verify(&headers, &desk.secret, &body, desk.now()) else {
            return Ok(Signed { headers, body });
        };
        let (status, code, broken) = match fault {
            SigningFault::Signature(SignatureFault::Mismatch) => {
                (StatusCode::FORBIDDEN, ProblemCode::Forbidden, Some(Broken::AcceptsForgedSignatures))
            }
            SigningFault::Signature(SignatureFault::Stale) => {
                (StatusCode::UNAUTHORIZED, ProblemCode::Unauthenticated, Some(Broken::AcceptsOldSignatures))
            }
            SigningFault::Header(_) | SigningFault::Signature(SignatureFault::MalformedTimestamp) => {
                (StatusCode::UNAUTHORIZED, ProblemCode::Unauthenticated, None)
            }
        };
        if broken.is_some_and(|broken| desk.is(broken)) {
            return Ok(Signed { headers, body });
        }
        Err(problem(desk, status, code, &fault.to_string()))
    }
}

/// A signed answer.
fn answer(desk: &Desk, status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(body) => signed(desk, status, body),
        Err(fault) => {
            problem(desk, StatusCode::INTERNAL_SERVER_ERROR, ProblemCode::InternalError, &fault.to_string())
        }
    }
}

fn signed(desk: &Desk, status: StatusCode, body: Vec<u8>) -> Response {
    let mut headers = HeaderMap::new();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if !desk.is(Broken::AnswersUnsigned) {
        signing::sign(&mut headers, &desk.secret, desk.now(), &body);
    }
    (status, headers, Body::from(body)).into_response()
}

/// A signed problem that is not about one operation.
fn problem(desk: &Desk, status: StatusCode, code: ProblemCode, reason: &str) -> Response {
    answer(desk, status, &Problem { code, reason: Some(reason.to_owned()), operation_id: None })
}

/// 400: the body, or a parameter, is not the protocol's.
fn invalid(desk: &Desk, fault: &WireFault) -> Response {
    problem(desk, StatusCode::BAD_REQUEST, ProblemCode::InvalidBody, &fault.to_string())
}

/// No answer: the connection ends.
fn cut() -> Response {
    let mut response = Response::new(Body::empty());
    response.extensions_mut().insert(Cut);
    response
}

/// Gives a reply as the ledger wants it; one that could not be written down is not given.
async fn reply(desk: &Desk, reply: io::Result<Reply>) -> Response {
    let Ok(reply) = reply else { return cut() };
    match reply {
        Reply::Operation(operation) => {
            use settle_provider::wire::OperationStatus::Pending;
            let status = if operation.status == Pending { StatusCode::ACCEPTED } else { StatusCode::OK };
            answer(desk, status, &operation)
        }
        Reply::Problem(status, problem) => {
            answer(desk, StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &problem)
        }
        Reply::Absent(operation_id) => {
            let instance = desk.with(|ledger, _, _| ledger.instance.clone());
            answer(desk, StatusCode::NOT_FOUND, &Absent { code: "not_found", operation_id, instance })
        }
        Reply::Garbage => answer(desk, StatusCode::OK, &"this is not an operation"),
        Reply::Cut => cut(),
        Reply::Hang => {
            tokio::time::sleep(HANG_MAX).await;
            cut()
        }
    }
}

/// The body of a 404.
#[derive(Serialize)]
struct Absent {
    code: &'static str,
    operation_id: Uuid,
    instance: String,
}

/// The first value of a parameter in the query.
fn parameter(query: Option<&str>, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

/// Where a page begins: the number that the page before gave.
fn after(query: Option<&str>) -> Result<usize, WireFault> {
    match parameter(query, "after") {
        None => Ok(0),
        Some(text) => text.parse().map_err(|_| WireFault::new("after", "is not from a page before")),
    }
}
