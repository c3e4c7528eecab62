//! A receiver of notifications for a developer's machine: it verifies them, tells new ones from repeated
//! ones, and answers as it is told to, or as a developer's app does to which it passes them on.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use settle_api::server::{self, ServerLimits};
use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;
use settle_verify::{DELIVERY_ID_BYTES_MAX, DELIVERY_ID_HEADER, Event, Verifier};
use tokio::net::TcpListener;
use tokio::sync::watch;

mod arrival;
mod forward;
mod seen;

pub(crate) use arrival::{Arrival, Tally, Verdict};
pub(crate) use forward::App;

use seen::Seen;

/// Deliveries that the receiver remembers; it takes a repetition of an older one for new.
const DELIVERIES_REMEMBERED_MAX: usize = 100_000;
/// The longest body that the receiver reads. A notification is a thousandth of it.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections at once, all of one service.
const CONNECTIONS_MAX: usize = 512;
/// How long a connection may be without a request: the service keeps those that it will use again.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// At a stop all delayed answers are given at once, so two seconds are enough.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// The bounds of the listener.
fn limits() -> ServerLimits {
    ServerLimits {
        connections_max: CONNECTIONS_MAX,
        connections_per_source: CONNECTIONS_MAX,
        header_timeout: HEADER_TIMEOUT,
        shutdown_timeout: SHUTDOWN_TIMEOUT,
        ..ServerLimits::default()
    }
}

/// How the receiver answers good notifications. It refuses bad ones at once, and says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behaviour {
    /// The status of the answer.
    pub(crate) status: StatusCode,
    /// How long the receiver waits before it answers.
    pub(crate) delay: Duration,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour { status: StatusCode::OK, delay: Duration::ZERO }
    }
}

/// A receiver that is bound to its port but does not answer yet.
pub(crate) struct Receiver {
    listener: TcpListener,
    desk: Desk,
    app: Option<App>,
}

impl Receiver {
    /// Binds to this port of 127.0.0.1, or to a free one for 0.
    ///
    /// The sender of `behaviour` can change it while the receiver runs.
    pub(crate) async fn bind(
        port: u16,
        secret: &WebhookSecret,
        behaviour: watch::Receiver<Behaviour>,
        clock: Arc<dyn Clock>,
    ) -> io::Result<Receiver> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let desk = Desk {
            verifier: Verifier::new(secret.as_bytes()),
            behaviour,
            clock,
            received: Mutex::new(Received {
                seen: Seen::new(DELIVERIES_REMEMBERED_MAX),
                tally: Tally::default(),
            }),
        };
        Ok(Receiver { listener, desk, app: None })
    }

    /// Passes good notifications on to an app, and answers as the app does.
    pub(crate) fn forwarding_to(self, app: Option<App>) -> Receiver {
        Receiver { app, ..self }
    }

    /// The address on which the receiver listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Takes notifications until `stop` ends, and returns how many there were. `show` gets each of them
    /// before its answer is sent, and after the app has answered. At the end, answers that are still delayed
    /// are sent at once.
    pub(crate) async fn run(
        self,
        show: impl Fn(&Arrival) + Send + Sync + 'static,
        stop: impl Future<Output = ()>,
    ) -> Tally {
        let desk = Arc::new(self.desk);
        let (stopped, stopping) = watch::channel(false);
        let state =
            Running { desk: desk.clone(), show: Arc::new(show), app: self.app.map(Arc::new), stopping };
        // A merchant may choose any path.
        let router = Router::new().fallback(take).layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
        let stop = async move {
            stop.await;
            stopped.send_replace(true);
        };
        server::serve(self.listener, router.with_state(state), limits(), stop).await;
        desk.tally()
    }
}

/// The state of the handler.
#[derive(Clone)]
struct Running {
    desk: Arc<Desk>,
    show: Arc<dyn Fn(&Arrival) + Send + Sync>,
    app: Option<Arc<App>>,
    stopping: watch::Receiver<bool>,
}

/// Judges and counts notifications.
struct Desk {
    verifier: Verifier,
    behaviour: watch::Receiver<Behaviour>,
    clock: Arc<dyn Clock>,
    received: Mutex<Received>,
}

struct Received {
    seen: Seen,
    tally: Tally,
}

/// Why a request is refused, and with which status.
struct Refusal {
    status: StatusCode,
    reason: String,
}

impl Desk {
    fn tally(&self) -> Tally {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).tally
    }

    /// Judges a request and counts the verdict.
    fn judge(&self, headers: &HeaderMap, body: Result<Bytes, Refusal>, behaviour: Behaviour) -> Arrival {
        let received_at = self.clock.now();
        let event = body.and_then(|body| self.verify(headers, &body, received_at));
        let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let arrival = match event {
            Ok(event) => {
                let attempts = received.seen.count(&event.delivery_id);
                let verdict = match (attempts, event.test) {
                    (2.., _) => Verdict::Duplicate,
                    (_, true) => Verdict::Test,
                    (_, false) => Verdict::New,
                };
                Arrival {
                    received_at,
                    verdict,
                    delivery_id: Some(event.delivery_id),
                    attempts: Some(attempts),
                    status: behaviour.status.as_u16(),
                    reason: None,
                    settlement: Some(event.settlement),
                    forwarded: None,
                }
            }
            Err(refusal) => Arrival {
                received_at,
                verdict: Verdict::Refused,
                delivery_id: claimed_delivery(headers),
                attempts: None,
                status: refusal.status.as_u16(),
                reason: Some(refusal.reason),
                settlement: None,
                forwarded: None,
            },
        };
        received.tally.count(arrival.verdict);
        arrival
    }

    fn verify(&self, headers: &HeaderMap, body: &[u8], now: Timestamp) -> Result<Event, Refusal> {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let since_1970 = Duration::from_micros(u64::try_from(now.as_micros()).unwrap_or_default());
        let verified = self.verifier.verify(header, body, SystemTime::UNIX_EPOCH + since_1970);
        verified.map_err(|fault| Refusal { status: StatusCode::BAD_REQUEST, reason: fault.to_string() })
    }
}

/// Handles one request.
async fn take(State(running): State<Running>, request: Request) -> Response {
    if request.method() != Method::POST {
        let text = "notifications are sent with POST\n";
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST")], text).into_response();
    }
    let headers = request.headers().clone();
    let body = read(request).await;
    let received = body.as_ref().map_or_else(|_| Bytes::new(), Bytes::clone);
    let behaviour = *running.desk.behaviour.borrow();
    let mut arrival = running.desk.judge(&headers, body, behaviour);
    if let (Some(app), None) = (&running.app, &arrival.reason) {
        let (status, forwarded) = app.pass_on(&headers, received).await;
        (arrival.status, arrival.forwarded) = (status.as_u16(), Some(forwarded));
        (running.show)(&arrival);
        return status.into_response();
    }
    (running.show)(&arrival);
    if let Some(reason) = arrival.reason {
        let status = StatusCode::from_u16(arrival.status).unwrap_or(StatusCode::BAD_REQUEST);
        return (status, format!("{reason}\n")).into_response();
    }
    let mut stopping = running.stopping;
    // The answer is due when the delay is over, or when the receiver stops or is gone.
    let _ = tokio::time::timeout(behaviour.delay, stopping.wait_for(|stopping| *stopping)).await;
    behaviour.status.into_response()
}

async fn read(request: Request) -> Result<Bytes, Refusal> {
    match tokio::time::timeout(BODY_TIMEOUT, Bytes::from_request(request, &())).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(fault)) => Err(Refusal { status: fault.status(), reason: fault.body_text() }),
        Err(_) => {
            let reason = "the body did not arrive in time".to_owned();
            Err(Refusal { status: StatusCode::REQUEST_TIMEOUT, reason })
        }
    }
}

/// The delivery id that a refused request claims, if it is short enough to show.
fn claimed_delivery(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(DELIVERY_ID_HEADER)?.to_str().ok()?;
    Some(text.to_owned()).filter(|text| text.len() <= DELIVERY_ID_BYTES_MAX)
}

#[cfg(test)]
mod tests;
