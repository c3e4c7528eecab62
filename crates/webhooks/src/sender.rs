//! One delivery attempt: over pooled connections that the guard opened, within its time, whatever the other
//! side does.
//!
//! Redirects are not followed, bodies are not decompressed, proxies of the environment are not used: each
//! would lead somewhere that the guard has not judged, or cost more than it was asked for.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, timeout_at};

use crate::guard::{Guard, UrlFault};
use crate::notification::Notification;

mod connector;
mod fault;

use connector::GuardedConnector;
pub use fault::AttemptFault;

/// Bytes of a response's body that are read; after that the response counts as complete.
const BODY_BYTES_DRAINED_MAX: usize = 64 * 1_024;
/// How long an idle connection is kept for the next notification.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Idle connections kept for one endpoint.
const IDLE_PER_HOST_MAX: usize = 32;

/// What came of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The status, if there was a response.
    pub response_status: Option<u16>,
    /// What went wrong; `None` when it was answered with 2xx in time.
    pub fault: Option<AttemptFault>,
}

impl Attempt {
    /// Whether the endpoint answered with 2xx in time.
    #[must_use]
    pub fn is_delivered(&self) -> bool {
        self.fault.is_none()
    }
}

/// Who carries a notification to an endpoint: the network, or what a simulation puts in its place.
#[async_trait]
pub trait Transport: Send + Sync {
    /// Makes one attempt, and always comes back within its time.
    async fn attempt(&self, url: &str, notification: Notification) -> Attempt;
}

/// A sender that cannot be made: its certificates are none.
#[derive(Debug, thiserror::Error)]
#[error("not a certificate: {0}")]
pub struct SenderFault(String);

impl From<rustls::Error> for SenderFault {
    fn from(fault: rustls::Error) -> SenderFault {
        SenderFault(fault.to_string())
    }
}

/// The network.
pub struct Sender {
    client: Client<HttpsConnector<GuardedConnector>, Full<Bytes>>,
    guard: Guard,
    timeout: Duration,
}

impl Sender {
    /// A sender that connects through the guard and gives each attempt the given time, all of it. It trusts
    /// the web's certification authorities and the certificates in the given PEM text.
    pub fn new(guard: Guard, timeout: Duration, extra_roots_pem: &[u8]) -> Result<Sender, SenderFault> {
        let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
        for certificate in CertificateDer::pem_slice_iter(extra_roots_pem) {
            roots.add(certificate.map_err(|fault| SenderFault(fault.to_string()))?)?;
        }
        let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .wrap_connector(GuardedConnector::new(guard.clone()));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .build(connector);
        Ok(Sender { client, guard, timeout })
    }

    /// Sends the request, and waits for the head of the response.
    async fn request(
        &self,
        url: &str,
        notification: Notification,
    ) -> Result<Response<Incoming>, AttemptFault> {
        let mut request = Request::new(Full::new(Bytes::from(notification.body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.guard.uri(url)?;
        *request.headers_mut() = notification.headers;
        self.client.request(request).await.map_err(|fault| AttemptFault::of(&fault))
    }
}

#[async_trait]
impl Transport for Sender {
    async fn attempt(&self, url: &str, notification: Notification) -> Attempt {
        // One deadline for everything: a head that came late leaves the body the rest of the time.
        let deadline = Instant::now() + self.timeout;
        let late = |_| AttemptFault::Timeout(self.timeout);
        let answered = timeout_at(deadline, self.request(url, notification)).await;
        let response = match answered.map_err(late).flatten() {
            Ok(response) => response,
            Err(fault) => return Attempt { response_status: None, fault: Some(fault) },
        };
        let status = response.status();
        let drained = timeout_at(deadline, drain(response.into_body())).await;
        let fault = match drained.map_err(late).flatten() {
            Err(fault) => Some(fault),
            Ok(()) if status.is_success() => None,
            Ok(()) => Some(AttemptFault::Status(status.as_u16())),
        };
        Attempt { response_status: Some(status.as_u16()), fault }
    }
}

/// Reads the body to its end, or to the limit. Nothing of it is kept.
async fn drain(mut body: Incoming) -> Result<(), AttemptFault> {
    let mut drained = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|fault| AttemptFault::of(&fault))?;
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained >= BODY_BYTES_DRAINED_MAX {
            break;
        }
    }
    Ok(())
}

impl From<UrlFault> for AttemptFault {
    fn from(fault: UrlFault) -> AttemptFault {
        match fault {
            UrlFault::InvalidUrl => AttemptFault::InvalidUrl,
            UrlFault::UnsafeUrl => AttemptFault::UnsafeAddress,
            UrlFault::UnresolvableHost => AttemptFault::Dns,
        }
    }
}
