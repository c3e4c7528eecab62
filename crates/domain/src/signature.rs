//! How a notification is signed, and how a receiver checks it.
//!
//! The signed message is `{timestamp}.{body}`, the signature `sha256=` and the lower-case hex of its
//! HMAC-SHA256 under the merchant's webhook secret.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::time::Timestamp;

/// The header that carries the signature.
pub const SIGNATURE_HEADER: &str = "service-signature";
/// The header that carries the Unix time, in seconds, of the delivery attempt.
pub const TIMESTAMP_HEADER: &str = "service-timestamp";
/// The header that carries the event type.
pub const EVENT_HEADER: &str = "service-event";
/// The header that carries the delivery id, for idempotency.
pub const DELIVERY_ID_HEADER: &str = "service-delivery-id";
/// The greatest age at which a receiver should accept a notification.
pub const TOLERANCE: Duration = Duration::from_mins(5);

const PREFIX: &str = "sha256=";

/// Why a receiver must not trust a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureFault {
    /// The timestamp is not a number of seconds.
    #[error("the timestamp is not a number of seconds")]
    MalformedTimestamp,
    /// The timestamp is further from now than the tolerance allows.
    #[error("the timestamp is too old or too far ahead")]
    Stale,
    /// The signature is not of this secret, timestamp and body.
    #[error("the signature does not match")]
    Mismatch,
}

/// Signs the body of an attempt made at the given time.
#[must_use]
pub fn sign(secret: &[u8], at: Timestamp, body: &[u8]) -> String {
    let tag = message(secret, &at.as_seconds().to_string(), body).finalize().into_bytes();
    format!("{PREFIX}{}", hex::encode(tag))
}

/// Checks the two headers of a notification against its raw body, in constant time.
pub fn verify(
    secret: &[u8],
    timestamp_header: &str,
    signature_header: &str,
    body: &[u8],
    now: Timestamp,
    tolerance: Duration,
) -> Result<(), SignatureFault> {
    let sent_at: i64 = timestamp_header.parse().map_err(|_| SignatureFault::MalformedTimestamp)?;
    if now.as_seconds().abs_diff(sent_at) > tolerance.as_secs() {
        return Err(SignatureFault::Stale);
    }
    let digits = signature_header.strip_prefix(PREFIX).ok_or(SignatureFault::Mismatch)?;
    let tag = hex::decode(digits).map_err(|_| SignatureFault::Mismatch)?;
    message(secret, timestamp_header, body).verify_slice(&tag).map_err(|_| SignatureFault::Mismatch)
}

fn message(secret: &[u8], timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    hmac_sha256(secret).chain_update(timestamp).chain_update(b".").chain_update(body)
}

/// HMAC-SHA256 keyed with any number of bytes.
#[expect(clippy::expect_used, reason = "HMAC takes a key of any length: the error cannot occur")]
pub(crate) fn hmac_sha256(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_micros(1_767_225_600_500_000)
    }

    #[test]
    fn the_signature_is_hmac_sha256_of_timestamp_dot_body() {
        // printf '1767225600.{"event":"settlement.completed"}' | openssl dgst -sha256 -hmac whsec
        let expected = "sha256=92b52b6c90a033e100e69b6c01f51d4a249e95d6385b5132f9fedd458a2258e2";
        let signature = sign(b"whsec", now(), br#"{"event":"settlement.completed"}"#);
        assert_eq!(signature, expected);
    }

    #[test]
    fn a_receiver_takes_its_own_and_nothing_else() {
        let signature = sign(b"whsec", now(), b"body");
        let check = |secret: &[u8], stamp: &str, signature: &str, body: &[u8], now: Timestamp| {
            verify(secret, stamp, signature, body, now, TOLERANCE)
        };
        assert_eq!(check(b"whsec", "1767225600", &signature, b"body", now()), Ok(()));
        let mismatch = Err(SignatureFault::Mismatch);
        assert_eq!(check(b"other", "1767225600", &signature, b"body", now()), mismatch);
        assert_eq!(check(b"whsec", "1767225601", &signature, b"body", now()), mismatch);
        assert_eq!(check(b"whsec", "1767225600", &signature, b"Body", now()), mismatch);
        assert_eq!(check(b"whsec", "1767225600", &signature[7..], b"body", now()), mismatch);
        assert_eq!(check(b"whsec", "1767225600", "sha256=", b"body", now()), mismatch);
        let malformed = Err(SignatureFault::MalformedTimestamp);
        assert_eq!(check(b"whsec", "soon", &signature, b"body", now()), malformed);
        for stale in [now().plus(Duration::from_secs(301)), Timestamp::from_micros(1_767_225_298_000_000)] {
            assert_eq!(check(b"whsec", "1767225600", &signature, b"body", stale), Err(SignatureFault::Stale));
        }
        assert_eq!(check(b"whsec", "1767225600", &signature, b"body", now().plus(TOLERANCE)), Ok(()));
    }
}
