//! Passes a verified notification on to a developer's own app, exactly as it came, and tells what the app
//! answered.

use std::io;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use serde::Serialize;

use crate::exchange::exchange;

/// How long the app may take for a whole answer: as long as the service waits for it.
const APP_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 16 * 1_024;
/// Headers that are about one connection: the next one has its own. The length is that of the body again.
const OF_THE_CONNECTION: [header::HeaderName; 9] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::EXPECT,
    header::HOST,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The app's URL.
#[derive(Debug, Clone)]
pub(crate) struct App {
    uri: Uri,
    host: String,
    port: u16,
    timeout: Duration,
}

/// A URL to which nothing can be passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a http URL without a password, as in http://localhost:3000/webhook")]
pub(crate) struct AppFault;

impl FromStr for App {
    type Err = AppFault;

    fn from_str(text: &str) -> Result<App, AppFault> {
        let uri: Uri = text.parse().map_err(|_| AppFault)?;
        let authority = uri.authority().ok_or(AppFault)?;
        if uri.scheme_str() != Some("http") || authority.as_str().contains('@') {
            return Err(AppFault);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = authority.port_u16().unwrap_or(80);
        if host.is_empty() || authority.as_str().ends_with(':') {
            return Err(AppFault);
        }
        Ok(App { uri, host, port, timeout: APP_TIMEOUT })
    }
}

/// What became of a notification that was passed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Forwarded {
    /// The URL of the app.
    pub(crate) url: String,
    /// The status of its answer, if it gave one.
    pub(crate) status: Option<u16>,
    /// What the app wrote, as far as it is text.
    pub(crate) body: Option<String>,
    /// Why there is no answer.
    pub(crate) error: Option<String>,
}

impl App {
    /// Whether it is the listener at this address: it would pass everything on to itself, without an end.
    pub(crate) fn is_at(&self, address: SocketAddr) -> bool {
        let is_here = self.host == "localhost" || self.host.parse() == Ok(address.ip());
        is_here && self.port == address.port()
    }

    /// Passes a request on. Returns the status for the sender: the app's, or why there is none.
    pub(super) async fn pass_on(&self, headers: &HeaderMap, body: Bytes) -> (StatusCode, Forwarded) {
        let exchanged = tokio::time::timeout(self.timeout, self.exchange(headers, body)).await;
        let url = self.uri.to_string();
        let unanswered = |status: StatusCode, error: String| {
            (status, Forwarded { url: url.clone(), status: None, body: None, error: Some(error) })
        };
        match exchanged {
            Ok(Ok((status, body))) => {
                let body = body.map(|body| String::from_utf8_lossy(&body).into_owned());
                (status, Forwarded { url, status: Some(status.as_u16()), body, error: None })
            }
            Ok(Err(fault)) => unanswered(StatusCode::BAD_GATEWAY, fault.to_string()),
            Err(_) => {
                let error = format!("no complete answer within {:?}", self.timeout);
                unanswered(StatusCode::GATEWAY_TIMEOUT, error)
            }
        }
    }

    /// The app's status, and its body unless it is too long.
    async fn exchange(&self, headers: &HeaderMap, body: Bytes) -> io::Result<(StatusCode, Option<Bytes>)> {
        let request = self.request(headers, body)?;
        exchange(&self.host, self.port, request, ANSWER_BYTES_MAX).await
    }

    /// The request for the app: the same headers and bytes, and its own host.
    fn request(&self, headers: &HeaderMap, body: Bytes) -> io::Result<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() =
            self.uri.path_and_query().map_or(Uri::from_static("/"), |path| path.clone().into());
        *request.headers_mut() = headers.clone();
        for name in OF_THE_CONNECTION {
            request.headers_mut().remove(name);
        }
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority).map_err(io::Error::other)?;
        request.headers_mut().insert(header::HOST, host);
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_has_a_plain_http_url() {
        for (text, host, port) in [
            ("http://localhost:3000/webhook?x=1", "localhost", 3000),
            ("http://127.0.0.1", "127.0.0.1", 80),
            ("http://[::1]:9/", "::1", 9),
        ] {
            let app: App = text.parse().unwrap();
            assert_eq!((app.host.as_str(), app.port), (host, port));
        }
        for text in
            ["", "/webhook", "localhost:3000", "https://localhost:3000", "http://a:b@localhost", "http://"]
        {
            assert_eq!(text.parse::<App>().map(drop), Err(AppFault), "{text}");
        }
    }

    #[tokio::test]
    async fn an_app_that_takes_too_long_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let app: App = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        assert_eq!(app.timeout, Duration::from_secs(10), "as long as the service waits");
        let app = App { timeout: Duration::ZERO, ..app };
        let (status, forwarded) = app.pass_on(&HeaderMap::new(), Bytes::new()).await;
        assert_eq!((status.as_u16(), forwarded.status), (504, None));
        assert_eq!(forwarded.error.as_deref(), Some("no complete answer within 0ns"));
    }

    #[test]
    fn an_app_is_not_the_listener() {
        let address: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        for (url, is_at) in [
            ("http://127.0.0.1:4000/", true),
            ("http://localhost:4000/", true),
            ("http://127.0.0.1:4001/", false),
            ("http://127.0.0.2:4000/", false),
        ] {
            assert_eq!(url.parse::<App>().unwrap().is_at(address), is_at, "{url}");
        }
    }
}
