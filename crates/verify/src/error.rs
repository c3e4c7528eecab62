//! Why a notification is refused.

use crate::headers::{DELIVERY_ID_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// Why a notification is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The verifier has only empty secrets, and anybody can sign with those.
    #[error("the verifier has no secret: it was given an empty one")]
    NoSecret,
    /// A header is missing or empty.
    #[error("the header {0} is missing")]
    MissingHeader(&'static str),
    /// The delivery id is too long, or not made of visible ASCII characters.
    #[error("the header {DELIVERY_ID_HEADER} is not an id")]
    MalformedDeliveryId,
    /// The timestamp is not a number of seconds.
    #[error("the header {TIMESTAMP_HEADER} is not a number of seconds")]
    MalformedTimestamp,
    /// The signature is not `sha256=` and 64 hexadecimal digits.
    #[error("the header {SIGNATURE_HEADER} is not sha256= and 64 hexadecimal digits")]
    MalformedSignature,
    /// The signature was made with another secret, or over another timestamp or body.
    #[error("the signature does not match: another secret, or the body or the timestamp was changed")]
    SignatureMismatch,
    /// The notification is authentic but older than the tolerance.
    #[error("sent {0} seconds ago, which is too long: a replay, or the clock of this machine is wrong")]
    TooOld(u64),
    /// The notification is authentic but dated further ahead than the tolerance.
    #[error("dated {0} seconds ahead: the clock of this machine may be wrong")]
    FromTheFuture(u64),
    /// The body is authentic but not a notification; the text says where.
    #[error("the body is not a notification: {0}")]
    MalformedBody(String),
    /// The notification is authentic but of a kind that this version does not know. Answer it as delivered
    /// and do nothing: after a failure Settle would only send it again.
    #[error("an event of an unknown kind: {0:?}")]
    UnknownEvent(String),
}
