//! How both sides sign: as notifications are, with the provider's secret, in `service-timestamp` and
//! `service-signature`.
//!
//! A signature covers the time and the body, and nothing else: neither method, path, status nor other
//! headers. So whatever matters stands in a body, and binds the signature:
//!
//! - a request names its operation, also a void, and the fields of a payout, a refund and a conversion
//!   differ, so that none of them can be taken for another;
//! - an answer names the operation that it is about, also a 404, and the instance that says so. The client
//!   turns away an answer that names another operation. Where the protocol does not ask for it (refusals,
//!   quotes) a provider may name what was asked, and what it names is checked.
//!
//! What is left: a look-up has no body, so that its signature is good for every look-up of the next five
//! minutes, and whoever can change what passes on the wire may answer with a signed refusal, or a quote, that
//! names nothing and was meant for another call. TLS closes this gap; the signature alone does not.

use http::{HeaderMap, HeaderName, HeaderValue};
use settle_domain::error_code::ErrorCode;
use settle_domain::signature::{self, SIGNATURE_HEADER, SignatureFault, TIMESTAMP_HEADER, TOLERANCE};
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;

/// The secret that Settle and one provider share: 1 to 256 bytes, no control characters. It does not print.
///
/// The rules are those of a webhook secret, because the signatures are.
#[derive(Debug, Clone)]
pub struct ProviderSecret(WebhookSecret);

impl ProviderSecret {
    /// Parses a secret from the settings or the command line.
    pub fn parse(text: String) -> Result<ProviderSecret, ErrorCode> {
        WebhookSecret::parse(text).map(ProviderSecret)
    }

    /// The bytes, used verbatim as the HMAC key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Why a request or an answer must not be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SigningFault {
    /// One of the two headers is missing, is there twice, or is not text.
    #[error("it does not have one header {0}")]
    Header(&'static str),
    /// The headers do not fit the body, the secret or the time.
    #[error(transparent)]
    Signature(SignatureFault),
}

/// Signs a body with the two headers.
pub fn sign(headers: &mut HeaderMap, secret: &ProviderSecret, at: Timestamp, body: &[u8]) {
    let name = HeaderName::from_static;
    headers.insert(name(TIMESTAMP_HEADER), HeaderValue::from(at.as_seconds()));
    // It is `sha256=` and hexadecimal digits, which every header takes.
    if let Ok(signature) = HeaderValue::try_from(signature::sign(secret.as_bytes(), at, body)) {
        headers.insert(name(SIGNATURE_HEADER), signature);
    }
}

/// Checks the two headers against the body. What is further than 300 seconds from now is turned away.
pub fn verify(
    headers: &HeaderMap,
    secret: &ProviderSecret,
    body: &[u8],
    now: Timestamp,
) -> Result<(), SigningFault> {
    let timestamp = only(headers, TIMESTAMP_HEADER)?;
    let signature = only(headers, SIGNATURE_HEADER)?;
    signature::verify(secret.as_bytes(), timestamp, signature, body, now, TOLERANCE)
        .map_err(SigningFault::Signature)
}

fn only<'a>(headers: &'a HeaderMap, name: &'static str) -> Result<&'a str, SigningFault> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().map_err(|_| SigningFault::Header(name)),
        _ => Err(SigningFault::Header(name)),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AT: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    #[test]
    fn what_is_signed_verifies_and_anything_changed_does_not() {
        let secret = |text: &str| ProviderSecret::parse(text.to_owned()).expect("a secret");
        let mut headers = HeaderMap::new();
        sign(&mut headers, &secret("hush"), AT, b"body");
        let check = |headers: &HeaderMap, key: &str, body: &[u8], now: Timestamp| {
            verify(headers, &secret(key), body, now)
        };
        assert_eq!(check(&headers, "hush", b"body", AT.plus(TOLERANCE)), Ok(()));
        let mismatch = Err(SigningFault::Signature(SignatureFault::Mismatch));
        assert_eq!(check(&headers, "hash", b"body", AT), mismatch);
        assert_eq!(check(&headers, "hush", b"Body", AT), mismatch);
        let stale = Err(SigningFault::Signature(SignatureFault::Stale));
        assert_eq!(check(&headers, "hush", b"body", AT.plus(Duration::from_secs(301))), stale);
        assert_eq!(check(&headers, "hush", b"body", AT.minus(Duration::from_secs(301))), stale);

        let mut twice = headers.clone();
        twice.append(SIGNATURE_HEADER, HeaderValue::from_static("sha256=00"));
        assert_eq!(check(&twice, "hush", b"body", AT), Err(SigningFault::Header(SIGNATURE_HEADER)));
        headers.remove(TIMESTAMP_HEADER);
        assert_eq!(check(&headers, "hush", b"body", AT), Err(SigningFault::Header(TIMESTAMP_HEADER)));
        assert!(!format!("{:?}", secret("hush")).contains("hush"));
    }
}
