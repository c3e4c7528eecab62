//! The calls over the network: one client for each provider.
//!
//! It repeats nothing by itself, follows no redirects, decompresses nothing and uses no proxies of the
//! environment. The address guard does not stand before it: an operator names the provider, and it may well
//! be on the same machine.
//!
//! A request is "not sent" only if that is certain: no connection came about, or a kept one had ended before
//! it took the request. From the moment that a connection takes a request, whatever goes wrong may have
//! happened after a byte has left.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;
use uuid::Uuid;

mod connection;
mod connector;
mod endpoint;
mod pool;

pub use connector::RootsFault;
pub use endpoint::{Endpoint, EndpointFault};

use crate::provider::Provider;
use crate::seen::{AnswerFault, LostFault, NotSentFault, Seen};
use crate::signing::{self, ProviderSecret};
use crate::wire::{
    self, Absence, Body, Capabilities, Operation, OperationKind, OperationPage, Problem, ProblemCode, Quote,
    QuoteRequest, VoidRequest,
};
use connection::{Connection, NoResponse};
use connector::Connector;
use pool::{AGE_MAX, Pool};

/// The header that repeats the operation id, for providers that keep their keys at the door.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";
/// The longest answer about one thing, in bytes.
pub const ANSWER_BYTES_MAX: usize = 64 * 1_024;
/// The longest page of a list, in bytes.
pub const PAGE_BYTES_MAX: usize = 1_024 * 1_024;

/// What a client needs to know of its provider.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// Where it is.
    pub endpoint: Endpoint,
    /// What both sides sign with.
    pub secret: ProviderSecret,
    /// How long a call may take in all.
    pub timeout: Duration,
    /// Certificates that are trusted beside the web's authorities, as PEM text; may be empty.
    pub extra_roots_pem: Vec<u8>,
}

/// A provider that is reached over the network.
pub struct Client {
    endpoint: Endpoint,
    secret: ProviderSecret,
    timeout: Duration,
    clock: Arc<dyn Clock>,
    connector: Connector,
    pool: Pool,
}

/// One request, before it is signed.
struct Call {
    method: Method,
    path: String,
    body: Bytes,
    operation_id: Option<Uuid>,
    /// Whether a 404 is an answer.
    is_look_up: bool,
    stamped_at: Timestamp,
    answer_bytes_max: usize,
}

impl Call {
    fn get(path: String, stamped_at: Timestamp) -> Call {
        Call {
            method: Method::GET,
            path,
            body: Bytes::new(),
            operation_id: None,
            is_look_up: false,
            stamped_at,
            answer_bytes_max: ANSWER_BYTES_MAX,
        }
    }

    fn post(path: String, body: Bytes, stamped_at: Timestamp) -> Call {
        Call { method: Method::POST, body, ..Call::get(path, stamped_at) }
    }

    fn about(self, operation_id: Uuid) -> Call {
        Call { operation_id: Some(operation_id), ..self }
    }
}

/// A whole answer, not yet believed.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

/// Why there is no whole answer.
enum Unanswered {
    NotSent(NotSentFault),
    Lost(LostFault),
    TooLong(StatusCode, usize),
}

impl Client {
    /// A client that signs with the given times and judges the times of answers by this clock.
    pub fn new(settings: ClientSettings, clock: Arc<dyn Clock>) -> Result<Client, RootsFault> {
        let ClientSettings { endpoint, secret, timeout, extra_roots_pem } = settings;
        let connector = Connector::new(&extra_roots_pem)?;
        Ok(Client { endpoint, secret, timeout, clock, connector, pool: Pool::new() })
    }

    /// Gets what a sandbox tells without signing it; `None` if there is nothing.
    pub(crate) async fn get_unsigned(&self, path: String) -> Option<Bytes> {
        let call = Call { answer_bytes_max: PAGE_BYTES_MAX, ..Call::get(path, self.clock.now()) };
        let answer = self.exchange(call).await.ok()?;
        (answer.status == StatusCode::OK).then_some(answer.body)
    }

    /// Makes a call, and reads the answer as the protocol has it.
    ///
    /// `is_about` says whether a success is about what was asked for.
    async fn ask<T: Body>(&self, call: Call, is_about: impl FnOnce(&T) -> bool) -> Seen<T> {
        let (is_look_up, operation_id) = (call.is_look_up, call.operation_id);
        let answer = match self.exchange(call).await {
            Ok(answer) => answer,
            Err(Unanswered::NotSent(fault)) => return Seen::NotSent(fault),
            Err(Unanswered::Lost(fault)) => return Seen::NoAnswer(fault),
            Err(Unanswered::TooLong(status, bytes)) => {
                return Seen::Unusable { status: status.as_u16(), fault: AnswerFault::TooLong(bytes) };
            }
        };
        let status = answer.status.as_u16();
        let believed = match status {
            404 if is_look_up => self.absence(&answer, operation_id),
            _ => self.believe(&answer, operation_id, is_about),
        };
        match believed {
            Ok(seen) => seen,
            Err(_) if matches!(status, 401 | 403) => Seen::TurnedAway { status, problem: None },
            Err(fault) => Seen::Unusable { status, fault },
        }
    }

    /// Reads a 404 to a look-up, if it is signed and names the operation.
    fn absence<T>(&self, answer: &Answer, operation_id: Option<Uuid>) -> Result<Seen<T>, AnswerFault> {
        self.verify(answer)?;
        let absence: Absence = read(&answer.body)?;
        if Some(absence.operation_id) == operation_id {
            Ok(Seen::Absent(absence))
        } else {
            Err(AnswerFault::Other)
        }
    }

    fn verify(&self, Answer { headers, body, .. }: &Answer) -> Result<(), AnswerFault> {
        signing::verify(headers, &self.secret, body, self.clock.now()).map_err(AnswerFault::Signature)
    }

    /// Reads a whole answer, if it is signed and the protocol's.
    fn believe<T: Body>(
        &self,
        answer: &Answer,
        operation_id: Option<Uuid>,
        is_about: impl FnOnce(&T) -> bool,
    ) -> Result<Seen<T>, AnswerFault> {
        self.verify(answer)?;
        let Answer { status, body, .. } = answer;
        let problem = || {
            let problem: Problem = read(body)?;
            let is_ours = problem.operation_id.is_none_or(|named| Some(named) == operation_id);
            if is_ours { Ok(problem) } else { Err(AnswerFault::Other) }
        };
        let status = status.as_u16();
        match status {
            200..300 => {
                let answered = read(body)?;
                if is_about(&answered) { Ok(Seen::Answered(answered)) } else { Err(AnswerFault::Other) }
            }
            401 | 403 => Ok(Seen::TurnedAway { status, problem: Some(problem()?) }),
            409 | 429 | 503 => Ok(Seen::Blocked { status, problem: problem()? }),
            422 => match problem()? {
                problem if problem.code == ProblemCode::Conflict => Ok(Seen::Conflict(problem)),
                problem if problem.code.is_refusal() => Ok(Seen::Refused(problem)),
                problem => Err(AnswerFault::Body(wire::WireFault::new(
                    "code",
                    format!("is no refusal: {}", problem.code),
                ))),
            },
            status => Err(AnswerFault::Status(status)),
        }
    }

    /// Makes a call; whatever happens, it ends within the time limit.
    async fn exchange(&self, call: Call) -> Result<Answer, Unanswered> {
        let deadline = Instant::now() + self.timeout;
        let late = || Unanswered::Lost(LostFault::Timeout(self.timeout));
        let answer_bytes_max = call.answer_bytes_max;
        let mut request = self.request(call);
        let (connection, response) = loop {
            let kept = self.pool.take();
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(kept) => kept,
                None => self.connect(deadline).await.map_err(Unanswered::NotSent)?,
            };
            match timeout_at(deadline, connection.send(request)).await {
                Ok(Ok(response)) => break (connection, response),
                // It ended before it took the request: not a byte has left us, and nothing is repeated.
                Ok(Err(NoResponse::Untaken(untaken))) if is_kept => request = *untaken,
                Ok(Err(NoResponse::Untaken(_))) => {
                    let fault = NotSentFault::Connect(std::io::ErrorKind::ConnectionAborted);
                    return Err(Unanswered::NotSent(fault));
                }
                Ok(Err(NoResponse::Lost)) => return Err(Unanswered::Lost(LostFault::Closed)),
                Err(_) => return Err(late()),
            }
        };
        let (head, body) = response.into_parts();
        let body = match timeout_at(deadline, collect(body, answer_bytes_max)).await {
            Ok(Ok(body)) => body,
            Ok(Err(Uncollected::Broken)) => return Err(Unanswered::Lost(LostFault::Closed)),
            Ok(Err(Uncollected::TooLong)) => {
                return Err(Unanswered::TooLong(head.status, answer_bytes_max));
            }
            Err(_) => return Err(late()),
        };
        self.pool.keep(connection).await;
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// A new connection.
    async fn connect(&self, deadline: Instant) -> Result<Connection, NotSentFault> {
        let connecting = async {
            let stream = self.connector.connect(&self.endpoint).await?;
            Connection::over(stream, AGE_MAX + self.timeout).await
        };
        let late = |_| Err(NotSentFault::Timeout(self.timeout));
        timeout_at(deadline, connecting).await.unwrap_or_else(late)
    }

    fn request(&self, call: Call) -> connection::Request {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, self.endpoint.host_header().clone());
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::USER_AGENT, HeaderValue::from_static("settle"));
        if call.method == Method::POST {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Some(id) = call.operation_id.filter(|_| call.method == Method::POST) {
            // A uuid is letters, digits and hyphens, which every header takes.
            if let Ok(id) = HeaderValue::try_from(id.to_string()) {
                headers.insert(IDEMPOTENCY_KEY_HEADER, id);
            }
        }
        signing::sign(&mut headers, &self.secret, call.stamped_at, &call.body);
        let mut request = connection::Request::new(call.body.into());
        *request.method_mut() = call.method;
        *request.uri_mut() = self.endpoint.uri(&call.path);
        *request.headers_mut() = headers;
        request
    }
}

#[async_trait]
impl Provider for Client {
    async fn quote(&self, request: &QuoteRequest, stamped_at: Timestamp) -> Seen<Quote> {
        let call = Call::post("/quotes".to_owned(), body(request), stamped_at);
        self.ask(call, |quote: &Quote| quote.answers(request)).await
    }

    async fn send(
        &self,
        kind: OperationKind,
        operation_id: Uuid,
        body: Bytes,
        stamped_at: Timestamp,
    ) -> Seen<Operation> {
        let call = Call::post(kind.path().to_owned(), body, stamped_at).about(operation_id);
        self.ask(call, is_about(operation_id)).await
    }

    async fn look_up(&self, operation_id: Uuid, stamped_at: Timestamp) -> Seen<Operation> {
        let call = Call::get(format!("/operations/{operation_id}"), stamped_at).about(operation_id);
        self.ask(Call { is_look_up: true, ..call }, is_about(operation_id)).await
    }

    async fn void(&self, operation_id: Uuid, stamped_at: Timestamp) -> Seen<Operation> {
        let path = format!("/operations/{operation_id}/void");
        let call = Call::post(path, body(&VoidRequest { operation_id }), stamped_at).about(operation_id);
        self.ask(call, is_about(operation_id)).await
    }

    async fn changes(
        &self,
        updated_since: Timestamp,
        after: Option<&str>,
        stamped_at: Timestamp,
    ) -> Seen<OperationPage> {
        let call = Call::get(changes_path(updated_since, after), stamped_at);
        self.ask(Call { answer_bytes_max: PAGE_BYTES_MAX, ..call }, |_: &OperationPage| true).await
    }

    async fn capabilities(&self, stamped_at: Timestamp) -> Seen<Capabilities> {
        let call = Call::get("/capabilities".to_owned(), stamped_at);
        self.ask(call, |_: &Capabilities| true).await
    }
}

fn changes_path(updated_since: Timestamp, after: Option<&str>) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("updated_since", &updated_since.to_string());
    if let Some(after) = after {
        query.append_pair("after", after);
    }
    format!("/operations?{}", query.finish())
}

fn is_about(operation_id: Uuid) -> impl FnOnce(&Operation) -> bool {
    move |operation| operation.operation_id == operation_id
}

fn read<T: Body>(body: &[u8]) -> Result<T, AnswerFault> {
    wire::read(body).map_err(AnswerFault::Body)
}

/// The bytes of a request. Maps and numbers that JSON cannot say do not occur in one.
fn body(request: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(request).unwrap_or_default().into()
}

/// Why a body was not read to its end.
enum Uncollected {
    Broken,
    TooLong,
}

async fn collect(body: Incoming, bytes_max: usize) -> Result<Bytes, Uncollected> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(fault) if fault.is::<http_body_util::LengthLimitError>() => Err(Uncollected::TooLong),
        Err(_) => Err(Uncollected::Broken),
    }
}
