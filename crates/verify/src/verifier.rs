//! Checks that a notification is authentic: signed with the secret, over this body, not long ago.

use std::fmt;
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::error::VerifyError;
use crate::event::Event;
use crate::headers::{DELIVERY_ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// The default for how far from the receiver's clock a timestamp may be.
pub const TOLERANCE: Duration = Duration::from_mins(5);
/// The longest accepted delivery id. A receiver stores ids, so a sender must not choose how much it stores.
pub const DELIVERY_ID_BYTES_MAX: usize = 128;

const PREFIX: &str = "sha256=";

/// Verifies notifications. It does not print its secrets.
#[derive(Clone)]
pub struct Verifier {
    /// For each secret an HMAC that has its key but no message yet.
    keys: Vec<Hmac<Sha256>>,
    tolerance: Duration,
}

impl Verifier {
    /// A verifier for notifications signed with this webhook secret.
    ///
    /// An empty secret, for example from an unset variable, accepts nothing.
    #[must_use]
    pub fn new(secret: impl AsRef<[u8]>) -> Verifier {
        Verifier { keys: Vec::new(), tolerance: TOLERANCE }.also(secret)
    }

    /// Accepts another secret as well: the old one, while you replace it.
    #[must_use]
    pub fn also(mut self, secret: impl AsRef<[u8]>) -> Verifier {
        let secret = secret.as_ref();
        if !secret.is_empty() {
            self.keys.push(keyed(secret));
        }
        self
    }

    /// Sets how far from the receiver's clock a timestamp may be, either way.
    #[must_use]
    pub fn tolerance(mut self, tolerance: Duration) -> Verifier {
        self.tolerance = tolerance;
        self
    }

    /// Verifies a notification and reads it.
    ///
    /// `header` finds a header by its lower-case name, `body` is the raw body, `now` the present time. The
    /// verifier checks the signature before the age: a notification that it calls too old is authentic.
    pub fn verify<'a>(
        &self,
        header: impl Fn(&str) -> Option<&'a str>,
        body: &[u8],
        now: SystemTime,
    ) -> Result<Event, VerifyError> {
        if self.keys.is_empty() {
            return Err(VerifyError::NoSecret);
        }
        let required = |name: &'static str| {
            header(name).filter(|value| !value.is_empty()).ok_or(VerifyError::MissingHeader(name))
        };
        let (signature, timestamp) = (required(SIGNATURE_HEADER)?, required(TIMESTAMP_HEADER)?);
        let delivery_id = required(DELIVERY_ID_HEADER)?;
        if delivery_id.len() > DELIVERY_ID_BYTES_MAX
            || !delivery_id.bytes().all(|byte| byte.is_ascii_graphic())
        {
            return Err(VerifyError::MalformedDeliveryId);
        }
        let sent_at = seconds(timestamp)?;
        self.check_signature(signature, timestamp, body)?;
        self.check_age(sent_at, now)?;
        Event::read(delivery_id, body)
    }

    fn check_signature(&self, signature: &str, timestamp: &str, body: &[u8]) -> Result<(), VerifyError> {
        let mut tag = [0; 32];
        let digits = signature.strip_prefix(PREFIX).ok_or(VerifyError::MalformedSignature)?;
        hex::decode_to_slice(digits, &mut tag).map_err(|_| VerifyError::MalformedSignature)?;
        let matches = |key: &Hmac<Sha256>| {
            let message = key.clone().chain_update(timestamp).chain_update(b".").chain_update(body);
            // In constant time: the duration does not reveal how much of a guess was right.
            message.verify_slice(&tag).is_ok()
        };
        if self.keys.iter().any(matches) { Ok(()) } else { Err(VerifyError::SignatureMismatch) }
    }

    fn check_age(&self, sent_at: u64, now: SystemTime) -> Result<(), VerifyError> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let tolerance = self.tolerance.as_secs();
        let (age, lead) = (now.saturating_sub(sent_at), sent_at.saturating_sub(now));
        if age > tolerance {
            return Err(VerifyError::TooOld(age));
        }
        if lead > tolerance {
            return Err(VerifyError::FromTheFuture(lead));
        }
        Ok(())
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Verifier");
        shown.field("secrets", &self.keys.len()).field("tolerance", &self.tolerance).finish()
    }
}

/// Only digits: a sign or spaces would be another text for the same time.
fn seconds(text: &str) -> Result<u64, VerifyError> {
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).ok_or(VerifyError::MalformedTimestamp)
}

#[expect(clippy::expect_used, reason = "HMAC takes a key of any length: the error cannot occur")]
fn keyed(secret: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes a key of any length")
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
