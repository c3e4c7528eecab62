//! What a reader sees in the raw text of a URL, before any parser has touched it.
//!
//! The `url` crate follows the WHATWG standard and repairs the text: it trims, deletes tabs and newlines,
//! adds missing slashes, drops an empty user name. So the guard reads the raw text first, by rules that leave
//! nothing to repair.

use super::{Scheme, characters};

/// The longest accepted URL, in bytes.
pub const URL_BYTES_MAX: usize = 2_048;

/// What a reader sees in the raw text.
pub(super) struct Written<'text> {
    pub(super) scheme: Scheme,
    /// With its brackets, if it has any.
    pub(super) host: &'text str,
    pub(super) port: u16,
}

impl<'text> Written<'text> {
    /// Reads the raw text; `None` if it is malformed.
    pub(super) fn read(text: &'text str, allow_http: bool) -> Option<Self> {
        // A fragment is never sent, so the service would call another URL than it stores.
        if text.len() > URL_BYTES_MAX || text.contains('#') || characters::has_refused(text) {
            return None;
        }
        let (scheme, rest) = split_scheme(text, allow_http)?;
        let authority = rest.split(['/', '?']).next()?;
        // The service would store, log and send user information; a percent-encoded host is a disguise.
        if authority.contains(['@', '%']) {
            return None;
        }
        let (host, port) = split_port(authority)?;
        Some(Self { scheme, host, port: read_port(port, scheme)? })
    }
}

fn split_scheme(text: &str, allow_http: bool) -> Option<(Scheme, &str)> {
    let after = |prefix: &str| {
        let (head, rest) = text.split_at_checked(prefix.len())?;
        head.eq_ignore_ascii_case(prefix).then_some(rest)
    };
    if let Some(rest) = after("https://") {
        return Some((Scheme::Https, rest));
    }
    after("http://").filter(|_| allow_http).map(|rest| (Scheme::Http, rest))
}

/// Separates the host from the digits of the port. The digits may be empty, the host may not.
fn split_port(authority: &str) -> Option<(&str, &str)> {
    let host_length = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, rest) = authority.split_at(host_length);
    let digits = if rest.is_empty() { rest } else { rest.strip_prefix(':')? };
    (!host.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some((host, digits))
}

/// The port as a number. An empty one is the scheme's own (RFC 3986); port 0 cannot be connected to.
fn read_port(digits: &str, scheme: Scheme) -> Option<u16> {
    if digits.is_empty() {
        return Some(scheme.default_port());
    }
    digits.parse().ok().filter(|port| *port != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(&str, u16)> {
        Written::read(text, false).map(|written| (written.host, written.port))
    }

    #[test]
    fn ports_may_be_empty_or_padded_but_not_signed_or_repeated() {
        assert_eq!(read("https://example.com:/"), Some(("example.com", 443)));
        assert_eq!(read("https://[::1]:?x"), Some(("[::1]", 443)));
        assert_eq!(read("https://example.com:0008443/"), Some(("example.com", 8443)));
        for port in ["+443", "-1", "443:443", "4 43", "0x1bb", "000", "65536", "18446744073709552059"] {
            assert_eq!(read(&format!("https://example.com:{port}/")), None, "{port}");
        }
    }

    #[test]
    fn a_host_is_not_empty_and_ends_where_its_bracket_closes() {
        for authority in ["", ":443", "::1", "[::1", "[::1].example.com", "[::1]443", "@a", "a@", "a%2eb"] {
            assert_eq!(read(&format!("https://{authority}/")), None, "{authority}");
        }
    }

    #[test]
    fn the_scheme_is_spelled_out_in_any_case() {
        assert_eq!(read("hTTpS://a?b"), Some(("a", 443)));
        for text in
            ["", "https", "https:/a", "https:a", "http://a/", "httpsü//a", "xhttps://a/", "//a/", "https//a"]
        {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
