//! HTTP exchanges over pooled connections that end within a time limit, whatever the other side does.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, timeout_at};

use super::connector::{Connector, Locate};
use super::{Attempt, AttemptFault, SenderFault};

/// Most bytes of a response's body that the client reads; after that the response counts as complete.
const BODY_BYTES_DRAINED_MAX: usize = 64 * 1_024;
/// How long the client keeps an idle connection for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Idle connections kept for one endpoint.
const IDLE_PER_HOST_MAX: usize = 32;

/// Posts, and waits for the answer. It follows no redirects, decompresses no bodies and uses no proxies of
/// the environment.
pub(crate) struct HttpClient {
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
    timeout: Duration,
}

impl HttpClient {
    /// A client that connects to the addresses that `locate` gives, and gives each exchange the given time in
    /// all. It trusts the web's certification authorities and the certificates in the given PEM text.
    pub(crate) fn new(
        locate: impl Locate,
        timeout: Duration,
        extra_roots_pem: &[u8],
    ) -> Result<HttpClient, SenderFault> {
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
            .wrap_connector(Connector::new(locate));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .build(connector);
        Ok(HttpClient { client, timeout })
    }

    /// Sends a body and reads the answer.
    pub(crate) async fn post(&self, uri: Uri, headers: HeaderMap, body: Vec<u8>) -> Attempt {
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        // One deadline for everything: the body gets the time that the head has left.
        let deadline = Instant::now() + self.timeout;
        let late = |_| AttemptFault::Timeout(self.timeout);
        let answering =
            async { self.client.request(request).await.map_err(|fault| AttemptFault::of(&fault)) };
        let response = match timeout_at(deadline, answering).await.map_err(late).flatten() {
            Ok(response) => response,
            Err(fault) => return Attempt::failed(None, fault),
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

/// Reads the body to its end, or to the limit, and discards it.
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
