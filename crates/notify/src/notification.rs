//! The request of one delivery attempt: a body that is always the same, and headers signed for this attempt.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, SettlementId};
use settle_domain::money::Decimal;
use settle_domain::quote::FixedSide;
use settle_domain::settlement::Settlement;
use settle_domain::signature::{DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER, sign};
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;

/// Marks a test delivery.
pub const TEST_HEADER: &str = "service-test";

/// The text of every reference in a test delivery.
const TEST_REFERENCE: &str = "TEST";
/// The currency code that ISO 4217 reserves for tests: no receiver takes it for money.
const TEST_CURRENCY: &str = "XTS";

/// One signed notification, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notification {
    /// The headers, the signature among them.
    pub headers: HeaderMap,
    /// The body that was signed.
    pub body: Vec<u8>,
}

impl Notification {
    /// Signs the body of an event for an attempt made at the given time.
    #[must_use]
    pub fn sign(
        secret: &WebhookSecret,
        delivery: DeliveryId,
        event: EventType,
        body: Vec<u8>,
        at: Timestamp,
    ) -> Notification {
        let signature = sign(secret.as_bytes(), at, &body);
        let entries = [
            (header::CONTENT_TYPE, "application/json".to_owned()),
            (header::USER_AGENT, concat!("settle/", env!("CARGO_PKG_VERSION")).to_owned()),
            (HeaderName::from_static(SIGNATURE_HEADER), signature),
            (HeaderName::from_static(TIMESTAMP_HEADER), at.as_seconds().to_string()),
            (HeaderName::from_static(EVENT_HEADER), event.to_string()),
            (HeaderName::from_static(DELIVERY_ID_HEADER), delivery.to_string()),
        ];
        // Hex, digits and fixed texts are valid header values.
        let headers =
            entries.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::try_from(value).ok()?)));
        Notification { headers: headers.collect(), body }
    }

    /// A test delivery: signed and shaped like any other, and impossible to mistake for money.
    #[must_use]
    pub fn test(secret: &WebhookSecret, delivery: DeliveryId, at: Timestamp) -> Notification {
        let event = EventType::SettlementCompleted;
        let body = test_settlement(at).record().notification(event);
        let mut notification = Self::sign(secret, delivery, event, body, at);
        notification.headers.insert(TEST_HEADER, HeaderValue::from_static("true"));
        notification
    }
}

fn test_settlement(at: Timestamp) -> Settlement {
    Settlement {
        settlement_id: SettlementId::NIL,
        completed_at: Some(at),
        occurred_at: at,
        payin_reference: TEST_REFERENCE.to_owned(),
        payout_reference: Some(TEST_REFERENCE.to_owned()),
        destination_reference: TEST_REFERENCE.to_owned(),
        incoming_currency: TEST_CURRENCY.to_owned(),
        incoming_amount: Decimal::ZERO,
        outgoing_currency: TEST_CURRENCY.to_owned(),
        outgoing_amount: Some(Decimal::ZERO),
        conversion_rate: Decimal::ONE,
        fixed_side: FixedSide::Incoming,
        fee_percentage: Decimal::ZERO,
        fee_percentage_amount: Some(Decimal::ZERO),
        fee_fixed: Decimal::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_domain::signature::{TOLERANCE, verify};

    #[test]
    fn a_test_delivery_is_signed_and_cannot_be_mistaken_for_money() {
        let secret = WebhookSecret::parse("whsec".to_owned()).unwrap();
        let at: Timestamp = "2026-01-31T09:30:00.5Z".parse().unwrap();
        let delivery: DeliveryId = "0190d3c4-7c00-7000-8000-000000000001".parse().unwrap();
        let test = Notification::test(&secret, delivery, at);
        let header = |name: &str| test.headers[name].to_str().unwrap();
        let verdict =
            verify(b"whsec", header(TIMESTAMP_HEADER), header(SIGNATURE_HEADER), &test.body, at, TOLERANCE);
        assert_eq!(verdict, Ok(()));
        assert_eq!(header(TIMESTAMP_HEADER), "1769851800");
        assert_eq!((header(EVENT_HEADER), header(TEST_HEADER)), ("settlement.completed", "true"));
        assert_eq!(header(DELIVERY_ID_HEADER), delivery.to_string());
        assert_eq!(header("content-type"), "application/json");
        let body: serde_json::Value = serde_json::from_slice(&test.body).unwrap();
        assert_eq!(body["settlement_id"], "00000000-0000-0000-0000-000000000000");
        assert_eq!((&body["payin_reference"], &body["outgoing_amount"]), (&"TEST".into(), &"0".into()));
        assert_eq!((&body["conversion_rate"], &body["incoming_currency"]), (&"1".into(), &"XTS".into()));
    }
}
