//! Where a provider is: the URL that its paths are put behind.

use http::{HeaderValue, Uri};
use url::{Host, Url};

/// A URL that cannot be a provider's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EndpointFault {
    /// It is not a URL with the scheme http or https and a host.
    #[error("is not a URL such as https://provider.example or http://127.0.0.1:4100")]
    NotAUrl,
    /// It has a name, a password, a query or a fragment.
    #[error("must have neither a user, a password, a query nor a fragment")]
    Superfluous,
}

/// Where a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    is_tls: bool,
    host: String,
    port: u16,
    /// Before every path; without a slash at the end.
    prefix: String,
    host_header: HeaderValue,
}

impl Endpoint {
    /// Parses the URL of a provider. It may have a path, which is put before those of the protocol.
    pub fn parse(text: &str) -> Result<Endpoint, EndpointFault> {
        let url = Url::parse(text).map_err(|_| EndpointFault::NotAUrl)?;
        let is_tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(EndpointFault::NotAUrl),
        };
        let has_user = !url.username().is_empty() || url.password().is_some();
        if has_user || url.query().is_some() || url.fragment().is_some() {
            return Err(EndpointFault::Superfluous);
        }
        let host = match url.host().ok_or(EndpointFault::NotAUrl)? {
            Host::Ipv6(address) => address.to_string(),
            host => host.to_string(),
        };
        let port = url.port_or_known_default().ok_or(EndpointFault::NotAUrl)?;
        // With the port unless it is the scheme's own, and brackets around IPv6.
        let named = url.host_str().unwrap_or_default();
        let header = url.port().map_or_else(|| named.to_owned(), |port| format!("{named}:{port}"));
        let host_header = HeaderValue::try_from(header).map_err(|_| EndpointFault::NotAUrl)?;
        let prefix = url.path().trim_end_matches('/').to_owned();
        // Every path of the protocol is letters, digits and escapes: it can be put behind a valid one.
        format!("{prefix}/").parse::<Uri>().map_err(|_| EndpointFault::NotAUrl)?;
        Ok(Endpoint { is_tls, host, port, prefix, host_header })
    }

    pub(super) fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn host_header(&self) -> &HeaderValue {
        &self.host_header
    }

    /// The target of a request to this path.
    pub(super) fn uri(&self, path: &str) -> Uri {
        format!("{}{path}", self.prefix).parse().unwrap_or_default()
    }
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_gives_host_port_and_prefix() {
        for (text, host, port, header, uri) in [
            ("http://127.0.0.1:4100", "127.0.0.1", 4100, "127.0.0.1:4100", "/quotes"),
            ("https://bank.example/settle/v1/", "bank.example", 443, "bank.example", "/settle/v1/quotes"),
            ("https://[::1]:8443", "::1", 8443, "[::1]:8443", "/quotes"),
        ] {
            let endpoint = Endpoint::parse(text).expect(text);
            assert_eq!((endpoint.host(), endpoint.port()), (host, port));
            assert_eq!(endpoint.host_header(), header);
            assert_eq!(endpoint.uri("/quotes").to_string(), uri);
        }
    }

    #[test]
    fn what_is_no_provider_is_refused() {
        for text in ["", "bank.example", "ftp://bank.example", "https://", "unix:///run/bank"] {
            assert_eq!(Endpoint::parse(text), Err(EndpointFault::NotAUrl), "{text}");
        }
        for text in ["https://a:b@bank.example", "https://bank.example/?a=1", "https://bank.example/#a"] {
            assert_eq!(Endpoint::parse(text), Err(EndpointFault::Superfluous), "{text}");
        }
    }
}
