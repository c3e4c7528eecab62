//! The outermost layer of a listener. It gives each request an id and a time limit, turns panics into errors,
//! writes the error envelope, logs one line and counts.
//!
//! Input that is not HTTP gets the envelope too, from a request that stands for it (`server/unreadable.rs`),
//! and the end of its connection.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;
use serde::Serialize;
use settle_domain::ids::RequestId;
use settle_domain::seams::{Clock, Entropy};
use tracing::Instrument;

use super::excerpt::Excerpt;
use super::source::Source;
use super::tally::Tally;
use super::traffic::Traffic;
use crate::error::{ApiError, ErrorBody, LogLine};
use crate::language::Messages;
use crate::server::{Crowded, Unreadable};

/// How long an answer 429 takes to leave. A client that asks again at once, whatever `Retry-After` says, can
/// so not keep the service busy with refusals.
const REFUSAL_PAUSE: Duration = Duration::from_millis(200);
/// What machines ask all day; the log shows it when the answer is bad news.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What the envelope layer works with. The requests of a listener share it.
#[derive(Clone)]
pub struct EnvelopeState {
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Gives randomness.
    pub entropy: Arc<dyn Entropy>,
    /// What errors say, in every language.
    pub messages: &'static Messages,
    /// How long a handler may take to answer.
    pub request_timeout: Duration,
    /// Counts the requests whose credential does not hold.
    refused: Tally,
    traffic: Traffic,
}

impl EnvelopeState {
    /// No request has come yet.
    #[must_use]
    pub fn new(
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
        messages: &'static Messages,
        request_timeout: Duration,
    ) -> EnvelopeState {
        let refused = Tally::new("requests were refused for their credentials");
        EnvelopeState { clock, entropy, messages, request_timeout, refused, traffic: Traffic::default() }
    }
}

/// Wraps every request of a listener.
pub async fn envelope(State(state): State<Arc<EnvelopeState>>, request: Request, next: Next) -> Response {
    let request_id = RequestId::new(state.clock.now(), &*state.entropy);
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str);
    let accept_language = accepted(request.headers());
    let source = request.extensions().get::<Source>().copied().unwrap_or_default();
    let span = tracing::info_span!(
        "request",
        %request_id,
        method = %Excerpt(method.as_str()),
        route,
        merchant_id = tracing::field::Empty,
        operator_id = tracing::field::Empty,
    );
    let started = Instant::now();

    let mut response = async {
        let mut response = answer(&state, request, next).await;
        let error = response.extensions_mut().remove::<ErrorBody>();
        if let Some(error) = &error {
            write_error(&mut response, error, state.messages, accept_language.as_deref());
        }
        let (status, elapsed) = (response.status().as_u16(), started.elapsed());
        let duration_ms = elapsed.as_secs_f64() * 1_000.0;
        let line = error.map_or(LogLine::Own, |error| error.log_line);
        if line != LogLine::Own {
            tracing::debug!(status, duration_ms, "answered");
        }
        if line == LogLine::Shared {
            state.refused.count(source);
        } else if line == LogLine::None {
            // Said above, at debug.
        } else if PROBES.contains(&route) && response.status().is_success() {
            tracing::debug!(status, duration_ms, "answered");
        } else {
            tracing::info!(status, duration_ms, "answered");
        }
        state.traffic.count(&method, route, response.status(), elapsed);
        response
    }
    .instrument(span)
    .await;

    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        tokio::time::sleep(REFUSAL_PAUSE).await;
    }
    super::no_store(&mut response);
    // An answer is what its type says, whatever a browser makes of its bytes.
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(value) = HeaderValue::try_from(request_id.to_string()) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Runs the handler. If it panics or takes too long, the answer is an error like any other.
async fn answer(state: &EnvelopeState, request: Request, next: Next) -> Response {
    if let Some(Unreadable(status)) = request.extensions().get() {
        return ApiError::Unreadable(*status).into_response();
    }
    if let Some(Crowded(limited)) = request.extensions().get() {
        return ApiError::Crowded(*limited).into_response();
    }
    if !names_one_host(&request) {
        return ApiError::InvalidHost.into_response();
    }
    let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(state.request_timeout, handled).await {
        Ok(Ok(response)) => response,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            ApiError::Internal(format!("a handler panicked: {text}")).into_response()
        }
        Err(_) => ApiError::Unavailable("a handler took too long".to_owned()).into_response(),
    }
}

/// Whether the request names its host as RFC 9112 asks: once, and before HTTP/1.1 at most once. Those on the
/// way who would each take another of two hosts cannot be led apart.
fn names_one_host(request: &Request) -> bool {
    let hosts = request.headers().get_all(header::HOST).iter().count();
    hosts == 1 || hosts == 0 && request.version() < Version::HTTP_11
}

/// Joins all `Accept-Language` headers into one, as RFC 9110 says to read them.
fn accepted(headers: &HeaderMap) -> Option<String> {
    let values: Vec<&str> =
        headers.get_all(header::ACCEPT_LANGUAGE).iter().filter_map(|value| value.to_str().ok()).collect();
    if values.is_empty() { None } else { Some(values.join(",")) }
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: Body<'a>,
}

#[derive(Serialize)]
struct Body<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<Field<'a>>>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    details: &'a [String],
}

#[derive(Serialize)]
struct Field<'a> {
    field: &'a str,
    code: &'a str,
}

fn write_error(
    response: &mut Response,
    error: &ErrorBody,
    messages: &Messages,
    accept_language: Option<&str>,
) {
    if let Some(cause) = &error.cause {
        tracing::error!(cause, "failed");
    }
    let language = messages.negotiate(accept_language);
    let fields = error.fields.as_ref().map(|faults| {
        faults.iter().map(|fault| Field { field: fault.field, code: fault.code.as_str() }).collect()
    });
    let body = Body {
        code: error.wording.code().as_str(),
        message: messages.text(language, error.wording),
        fields,
        details: &error.details,
    };
    // serde_json cannot fail to write strings into memory, and there is no other answer left to give.
    let text = serde_json::to_string(&Envelope { error: body }).unwrap_or_default();
    *response.body_mut() = text.into();
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LANGUAGE, HeaderValue::from_static(language.tag()));
    headers.insert(header::VARY, HeaderValue::from_static("Accept-Language"));
}
