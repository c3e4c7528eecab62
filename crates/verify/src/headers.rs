//! The headers of a notification.

/// The header that carries the signature: `sha256=` and the hex of the HMAC-SHA256 of `{timestamp}.{body}`.
pub const SIGNATURE_HEADER: &str = "service-signature";
/// The header that carries the Unix time, in seconds, of the delivery attempt.
pub const TIMESTAMP_HEADER: &str = "service-timestamp";
/// The header that carries the event type. It is not signed, but the body says the same and is signed.
pub const EVENT_HEADER: &str = "service-event";
/// The header that carries the delivery id, for idempotency.
pub const DELIVERY_ID_HEADER: &str = "service-delivery-id";
/// The header that marks a test delivery. It is not signed: [`Event::test`](crate::Event::test) comes from
/// the body.
pub const TEST_HEADER: &str = "service-test";
