//! The URL to which alerts are posted, which the operator sets.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderValue, Uri};
use percent_encoding::percent_decode_str;
use url::Url;

/// The text is not a http or https URL. The error does not repeat it: it may hold a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a http or https URL with a host")]
pub struct AlertUrlFault;

/// A URL to post alerts to. Its user name and password go into the `Authorization` header.
#[derive(Clone)]
pub struct AlertUrl {
    pub(super) uri: Uri,
    pub(super) authorization: Option<HeaderValue>,
}

impl FromStr for AlertUrl {
    type Err = AlertUrlFault;

    fn from_str(text: &str) -> Result<AlertUrl, AlertUrlFault> {
        let mut url = Url::parse(text).map_err(|_| AlertUrlFault)?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(AlertUrlFault);
        }
        let authorization = authorization(&url).map_err(|_| AlertUrlFault)?;
        url.set_fragment(None);
        url.set_username("").and_then(|()| url.set_password(None)).map_err(|()| AlertUrlFault)?;
        let uri = url.as_str().parse().map_err(|_| AlertUrlFault)?;
        Ok(AlertUrl { uri, authorization })
    }
}

fn authorization(url: &Url) -> Result<Option<HeaderValue>, http::header::InvalidHeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let mut credentials: Vec<u8> = percent_decode_str(url.username()).collect();
    credentials.push(b':');
    credentials.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(credentials)))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

/// Shows the host alone: path, query and credentials may be secrets.
impl fmt::Debug for AlertUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "AlertUrl({}, …)", self.uri.host().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_and_https_with_a_host_are_good() {
        for (text, uri) in [
            ("https://alerts.example", "https://alerts.example/"),
            ("http://10.0.0.1:9093/hook?token=1#part", "http://10.0.0.1:9093/hook?token=1"),
            ("http://[::1]:80/", "http://[::1]/"),
            ("HTTPS://Bücher.example/é", "https://xn--bcher-kva.example/%C3%A9"),
        ] {
            let url: AlertUrl = text.parse().unwrap();
            assert_eq!((url.uri.to_string().as_str(), url.authorization), (uri, None));
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "alerts", "alerts.example/hook", "ftp://alerts.example/", "http://", "mailto:ops@x"]
        {
            assert_eq!(text.parse::<AlertUrl>().map(drop), Err(AlertUrlFault), "{text}");
        }
    }

    #[test]
    fn credentials_become_a_header_and_are_never_shown() {
        let url: AlertUrl = "https://ops:s%C3%A9cret%3A1@alerts.example/hook?token=2".parse().unwrap();
        assert_eq!(url.uri.to_string(), "https://alerts.example/hook?token=2");
        let header = url.authorization.clone().unwrap();
        let decoded = BASE64_STANDARD.decode(header.to_str().unwrap().strip_prefix("Basic ").unwrap());
        assert_eq!(decoded.unwrap(), "ops:sécret:1".as_bytes());
        assert_eq!(
            (format!("{url:?}"), format!("{header:?}")),
            ("AlertUrl(alerts.example, …)".into(), "Sensitive".into())
        );
    }
}
