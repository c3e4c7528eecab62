//! The library for receivers, `verify`, accepts what the service signs. The library depends on no other
//! crate, so it cannot test this itself.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::time::{Duration, SystemTime};

use serde_json::Value;
use settle_domain::event::EventType;
use settle_domain::ids::DeliveryId;
use settle_domain::settlement::FIELDS;
use settle_domain::signature;
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::notification::{self, Notification};
use settle_verify::{Event, Verifier, VerifyError};

const BODY: &[u8] = include_bytes!("../../../verify/tests/data/notification.json");
const SENT_AT: &str = "2026-01-31T12:31:02.9Z";
const DELIVERY_ID: &str = "0190d3c4-7c00-7000-8000-0000000000d1";

fn secret() -> WebhookSecret {
    WebhookSecret::parse("whsec-ключ-1".to_owned()).unwrap()
}

fn sent_at() -> Timestamp {
    SENT_AT.parse().unwrap()
}

fn delivery() -> DeliveryId {
    DELIVERY_ID.parse().unwrap()
}

fn received(notification: &Notification, secret: &[u8]) -> Result<Event, VerifyError> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(sent_at().as_micros().unsigned_abs());
    let header = |name: &str| notification.headers.get(name)?.to_str().ok();
    Verifier::new(secret).verify(header, &notification.body, now)
}

#[test]
fn a_notification_is_accepted_and_read() {
    let notification =
        Notification::sign(&secret(), delivery(), EventType::SettlementCompleted, BODY.to_vec(), sent_at());
    let event = received(&notification, secret().as_bytes()).unwrap();
    assert_eq!((event.delivery_id.as_str(), event.test), (DELIVERY_ID, false));
    // Every field of the record with its value: if the library lost one, it could not give it back.
    let mut sent: Value = serde_json::from_slice(BODY).unwrap();
    let event_type = sent.as_object_mut().unwrap().remove("event").unwrap();
    assert_eq!(event_type, settle_verify::EVENT_TYPE);
    assert_eq!(sent.as_object().unwrap().len(), FIELDS.len());
    assert_eq!(serde_json::to_value(&event.settlement).unwrap(), sent);
    assert_eq!(received(&notification, b"other"), Err(VerifyError::SignatureMismatch));
}

#[test]
fn a_test_delivery_is_accepted_and_called_one() {
    let event = received(&Notification::test(&secret(), delivery(), sent_at()), secret().as_bytes()).unwrap();
    assert!(event.test);
    assert_eq!(event.settlement.payin_reference, "TEST");
}

#[test]
fn both_sides_use_the_same_names_and_the_same_tolerance() {
    assert_eq!(settle_verify::SIGNATURE_HEADER, signature::SIGNATURE_HEADER);
    assert_eq!(settle_verify::TIMESTAMP_HEADER, signature::TIMESTAMP_HEADER);
    assert_eq!(settle_verify::EVENT_HEADER, signature::EVENT_HEADER);
    assert_eq!(settle_verify::DELIVERY_ID_HEADER, signature::DELIVERY_ID_HEADER);
    assert_eq!(settle_verify::TEST_HEADER, notification::TEST_HEADER);
    assert_eq!(settle_verify::EVENT_TYPE, EventType::SettlementCompleted.as_str());
    assert_eq!(settle_verify::TOLERANCE, signature::TOLERANCE);
}
