//! The part of the verdict that needs no DNS, as a pure function of the text.
//!
//! The guard reads the text twice: strictly, as it is written, and with the `url` crate, which maps names by
//! IDNA and knows every spelling of an IPv4 address. Both readings must agree.

use std::net::IpAddr;

use url::{Position, Url};

use super::written::Written;
use super::{GuardPolicy, Scheme, UrlFault, names, ports};

/// The longest host name that the DNS can carry, in bytes, without its trailing dot.
const NAME_BYTES_MAX: usize = 253;

/// The longest label of a host name, in bytes.
const LABEL_BYTES_MAX: usize = 63;

/// The host of a URL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Host {
    /// A name in lower-case ASCII (after IDNA) without its trailing dot.
    Name(String),
    /// An address literal, not checked yet.
    Address(IpAddr),
}

/// A URL that has passed all checks that need no address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Candidate {
    pub(super) url: Url,
    pub(super) scheme: Scheme,
    pub(super) host: Host,
    pub(super) port: u16,
}

impl Candidate {
    /// The value of the `Host` header: brackets around IPv6, the port only if it is not the scheme's own.
    pub(super) fn authority(&self) -> String {
        let host = match &self.host {
            Host::Address(IpAddr::V6(address)) => format!("[{address}]"),
            Host::Address(IpAddr::V4(address)) => address.to_string(),
            Host::Name(name) => name.clone(),
        };
        if self.port == self.scheme.default_port() { host } else { format!("{host}:{}", self.port) }
    }

    /// The request target: path and query, percent-encoded; at least `/`.
    pub(super) fn path_and_query(&self) -> &str {
        &self.url[Position::BeforePath..Position::AfterQuery]
    }
}

/// The first two steps of the verdict, except for the check of an address literal.
pub(super) fn examine(text: &str, policy: &GuardPolicy) -> Result<Candidate, UrlFault> {
    let written = Written::read(text, policy.allow_http).ok_or(UrlFault::InvalidUrl)?;
    let url = Url::parse(text).map_err(|_| UrlFault::InvalidUrl)?;
    let Written { scheme, port, .. } = written;
    // The two readings should never differ: otherwise the guard would judge one and the sender call the
    // other.
    if url.scheme() != scheme.as_str() || url.port_or_known_default() != Some(port) {
        return Err(UrlFault::InvalidUrl);
    }
    let host = match url.host().ok_or(UrlFault::InvalidUrl)? {
        url::Host::Domain(name) => Host::Name(examine_name(name, policy)?),
        url::Host::Ipv6(address) => Host::Address(IpAddr::V6(address)),
        // Short, octal, hexadecimal and full-width spellings only serve to slip past a reader or a filter.
        url::Host::Ipv4(address) if written.host != address.to_string() => return Err(UrlFault::UnsafeUrl),
        url::Host::Ipv4(address) => Host::Address(IpAddr::V4(address)),
    };
    if !ports::is_allowed(scheme, port) {
        return Err(UrlFault::UnsafeUrl);
    }
    Ok(Candidate { url, scheme, host, port })
}

/// Judges a name after IDNA, and returns it without its trailing dot.
fn examine_name(name: &str, policy: &GuardPolicy) -> Result<String, UrlFault> {
    // One trailing dot marks an absolute name, as all names here are; a second one makes an empty label.
    let name = name.strip_suffix('.').unwrap_or(name);
    if !is_host_name(name) {
        return Err(UrlFault::InvalidUrl);
    }
    if names::is_private(name) && policy.allow_networks.is_empty() {
        return Err(UrlFault::UnsafeUrl);
    }
    Ok(name.to_owned())
}

fn is_host_name(name: &str) -> bool {
    name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label)
}

/// RFC 1123 has no underscores, but names in use have.
fn is_label(label: &str) -> bool {
    (1..=LABEL_BYTES_MAX).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::super::URL_BYTES_MAX;
    use super::*;

    fn verdict(text: &str) -> Result<Host, UrlFault> {
        examine(text, &GuardPolicy::default()).map(|candidate| candidate.host)
    }

    fn with_http() -> GuardPolicy {
        GuardPolicy { allow_http: true, ..GuardPolicy::default() }
    }

    fn name(text: &str) -> Host {
        Host::Name(text.to_owned())
    }

    #[test]
    fn the_length_limit_counts_bytes() {
        let longest = format!("https://example.com/{}", "p".repeat(URL_BYTES_MAX - 20));
        assert_eq!(longest.len(), URL_BYTES_MAX);
        assert_eq!(verdict(&longest), Ok(name("example.com")));
        assert_eq!(verdict(&format!("{longest}p")), Err(UrlFault::InvalidUrl));
        let umlauts = format!("https://example.com/{}", "ü".repeat((URL_BYTES_MAX - 20) / 2));
        assert_eq!(verdict(&umlauts), Ok(name("example.com")));
        assert_eq!(verdict(&format!("{umlauts}ü")), Err(UrlFault::InvalidUrl));
    }

    #[test]
    fn host_limits_are_exact() {
        let label = "a".repeat(LABEL_BYTES_MAX);
        assert!(verdict(&format!("https://{label}.com/")).is_ok());
        assert_eq!(verdict(&format!("https://{label}a.com/")), Err(UrlFault::InvalidUrl));
        let longest = format!("{label}.{label}.{label}.{}", "b".repeat(NAME_BYTES_MAX - 3 * 64));
        assert_eq!(longest.len(), NAME_BYTES_MAX);
        assert!(verdict(&format!("https://{longest}/")).is_ok());
        assert!(verdict(&format!("https://{longest}./")).is_ok());
        assert_eq!(verdict(&format!("https://{longest}b/")), Err(UrlFault::InvalidUrl));
    }

    #[test]
    fn labels_are_judged_after_mapping() {
        assert_eq!(verdict("https://_hooks.my_shop.example/"), Ok(name("_hooks.my_shop.example")));
        assert_eq!(verdict("https://B\u{fc}cher.Example./"), Ok(name("xn--bcher-kva.example")));
        assert_eq!(verdict("https://example\u{3002}com\u{ff0e}/"), Ok(name("example.com")));
        for text in ["a-.example", "-a.example", "example.com..", "exa,mple.com", "exa\u{ff20}mple.com"] {
            assert_eq!(verdict(&format!("https://{text}/")), Err(UrlFault::InvalidUrl), "{text}");
        }
    }

    #[test]
    fn a_malformed_text_is_invalid_even_where_its_host_is_private() {
        for text in ["https://127.1:0/", "https://localhost:x/", "https://10.0.0.1/#", "https://u@localhost/"]
        {
            assert_eq!(verdict(text), Err(UrlFault::InvalidUrl), "{text}");
        }
    }

    #[test]
    fn http_needs_the_permission_and_brings_its_port() {
        assert_eq!(verdict("http://example.com/"), Err(UrlFault::InvalidUrl));
        for (text, port) in
            [("HTTP://example.com/", 80), ("http://example.com:80", 80), ("http://example.com:81", 0)]
        {
            assert_eq!(examine(text, &with_http()).map_or(0, |found| found.port), port, "{text}");
        }
        assert!(matches!(examine("https://example.com:80/", &with_http()), Err(UrlFault::UnsafeUrl)));
        assert!(matches!(examine("http://localhost/", &with_http()), Err(UrlFault::UnsafeUrl)));
        assert!(matches!(examine("http:/example.com/", &with_http()), Err(UrlFault::InvalidUrl)));
    }
}
