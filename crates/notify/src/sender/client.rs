//! HTTP exchanges over pooled connections that end within a time limit, whatever the other side does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::{Instant, timeout, timeout_at};

use super::connection::{Connection, NoResponse};
use super::connector::{Connector, Locate};
use super::pool::{AGE_MAX, Pool};
use super::{Attempt, AttemptFault, Failure, KEPT_CONNECTION, SendError, SenderFault, count_fault};

/// Most bytes of a response's body that the client reads; after that the response counts as complete.
const BODY_BYTES_DRAINED_MAX: usize = 64 * 1_024;
/// How long a connection may take after a response until it can be kept for the next request.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// Whom a connection leads to.
type Host = (Option<Scheme>, Option<Authority>);

/// Posts, and waits for the answer. It follows no redirects, decompresses no bodies and uses no proxies of
/// the environment.
pub(crate) struct HttpClient {
    connector: Connector,
    pool: Pool<Host, Connection>,
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
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(HttpClient { connector: Connector::new(locate, tls), pool: Pool::new(), timeout })
    }

    /// Sends a body and reads the answer.
    pub(crate) async fn post(
        &self,
        uri: Uri,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Attempt, SendError> {
        // One deadline for everything: the body gets the time that the head has left.
        let deadline = Instant::now() + self.timeout;
        let late = AttemptFault::Timeout(self.timeout);
        let host = (uri.scheme().cloned(), uri.authority().cloned());
        let answering = self.exchange(&host, &uri, request(&uri, headers, body));
        let (connection, response) = match timeout_at(deadline, answering).await {
            Ok(Ok(answered)) => answered,
            Ok(Err(Failure::Theirs(fault))) => return Ok(Attempt::failed(None, fault)),
            Ok(Err(Failure::Ours(error))) => {
                if error == SendError::Resources {
                    // What is idle may be what others lack.
                    self.pool.clear();
                }
                return Err(error);
            }
            Err(_) => return Ok(Attempt::failed(None, late)),
        };
        let status = response.status();
        let fault = match timeout_at(deadline, drain(response.into_body())).await {
            Ok(Ok(drained)) => {
                self.keep(host, connection, drained).await;
                (!status.is_success()).then_some(AttemptFault::Status(status.as_u16()))
            }
            Ok(Err(fault)) => Some(fault),
            Err(_) => Some(late),
        };
        Ok(Attempt { response_status: Some(status.as_u16()), fault })
    }

    /// A response, over a connection that was kept or over a new one.
    ///
    /// The other side may end a kept connection at any time, also while a request is on its way to it. Such a
    /// request was not answered, and has not failed either: it is sent once more, over a new connection.
    async fn exchange(
        &self,
        host: &Host,
        uri: &Uri,
        request: Request<Full<Bytes>>,
    ) -> Result<(Connection, Response<Incoming>), Failure> {
        if let Some(mut kept) = self.pool.take(host) {
            match kept.send(request.clone()).await {
                Ok(response) => return Ok((kept, response)),
                Err(NoResponse { is_silent: true, .. }) => count_fault(KEPT_CONNECTION),
                Err(NoResponse { fault, .. }) => return Err(Failure::Theirs(fault)),
            }
        }
        let stream = self.connector.connect(uri).await?;
        let opened = Connection::over(stream, AGE_MAX + self.timeout).await;
        let mut connection = opened.map_err(Failure::Theirs)?;
        match connection.send(request).await {
            Ok(response) => Ok((connection, response)),
            Err(NoResponse { fault, .. }) => Err(Failure::Theirs(fault)),
        }
    }

    /// Keeps a connection whose response was read to its end.
    async fn keep(&self, host: Host, mut connection: Connection, drained: Drained) {
        let is_reusable = match drained {
            Drained::ToTheEnd => timeout(READY_TIMEOUT, connection.is_reusable()).await.unwrap_or(false),
            Drained::ToTheLimit => false,
        };
        if is_reusable {
            self.pool.put(host, connection);
        }
    }
}

/// The request as an origin server wants it: without scheme and host in the first line.
fn request(uri: &Uri, mut headers: HeaderMap, body: Vec<u8>) -> Request<Full<Bytes>> {
    if let Some(host) = host_header(uri) {
        headers.insert(header::HOST, host);
    }
    let path = uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = Uri::from(path);
    *request.headers_mut() = headers;
    request
}

/// The host, and the port unless it is the scheme's own.
fn host_header(uri: &Uri) -> Option<HeaderValue> {
    let host = uri.host()?;
    let own_port = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let text = match uri.port_u16().filter(|port| *port != own_port) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::try_from(text).ok()
}

/// How far a body was read.
enum Drained {
    ToTheEnd,
    ToTheLimit,
}

/// Reads the body to its end, or to the limit, and discards it.
async fn drain(mut body: Incoming) -> Result<Drained, AttemptFault> {
    let mut drained = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|fault| AttemptFault::of(&fault))?;
        drained += frame.data_ref().map_or(0, Bytes::len);
        if drained >= BODY_BYTES_DRAINED_MAX {
            return Ok(Drained::ToTheLimit);
        }
    }
    Ok(Drained::ToTheEnd)
}
