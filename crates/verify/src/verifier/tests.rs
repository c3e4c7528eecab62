//! Vectors made with other tools, and every way in which a notification can be wrong.

use super::*;
use crate::headers::TEST_HEADER;

const BODY: &str = include_str!("../../tests/data/notification.json");
const DELIVERY_ID: &str = "0190d3c4-7c00-7000-8000-0000000000d1";
const SENT_AT: &str = "1769862662";
/// `(printf 1769862662.; cat tests/data/notification.json) | openssl dgst -sha256 -hmac whsec`
const SIGNATURE: &str = "sha256=a3489a942708a3ce71716e1bd4dd38ac756f548910c5f0e7e6a78878720f94d4";
/// The same with the secret `whsec-ключ-1`, by Python's `hmac`.
const OTHER_SIGNATURE: &str = "sha256=b4cc3e059a8e4c810784466ff2c625103813668553004cbbd3dda8aa1644c914";

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// A notification that a test spoils in one place.
#[derive(Clone)]
struct Sent {
    signature: Option<String>,
    timestamp: Option<String>,
    delivery_id: Option<String>,
    body: String,
    now: SystemTime,
}

impl Sent {
    fn good() -> Sent {
        Sent {
            signature: Some(SIGNATURE.to_owned()),
            timestamp: Some(SENT_AT.to_owned()),
            delivery_id: Some(DELIVERY_ID.to_owned()),
            body: BODY.to_owned(),
            now: at(1_769_862_662),
        }
    }

    /// Another body or timestamp, signed again with `whsec`.
    fn signed(timestamp: &str, body: &str) -> Sent {
        let message = keyed(b"whsec").chain_update(format!("{timestamp}.{body}"));
        let signature = format!("sha256={}", hex::encode(message.finalize().into_bytes()));
        let (signature, timestamp) = (Some(signature), Some(timestamp.to_owned()));
        Sent { signature, timestamp, body: body.to_owned(), ..Sent::good() }
    }

    fn to(&self, verifier: &Verifier) -> Result<Event, VerifyError> {
        let header = |name: &str| match name {
            SIGNATURE_HEADER => self.signature.as_deref(),
            TIMESTAMP_HEADER => self.timestamp.as_deref(),
            DELIVERY_ID_HEADER => self.delivery_id.as_deref(),
            _ => None,
        };
        verifier.verify(header, self.body.as_bytes(), self.now)
    }

    #[track_caller]
    fn refused(&self) -> VerifyError {
        self.to(&Verifier::new("whsec")).unwrap_err()
    }
}

#[test]
fn a_signature_made_by_other_tools_is_accepted_and_every_field_is_read() {
    let event = Sent::good().to(&Verifier::new("whsec")).unwrap();
    assert_eq!((event.delivery_id.as_str(), event.test), (DELIVERY_ID, false));
    let settlement = event.settlement;
    assert_eq!(settlement.settlement_id, "0190d3c4-7c00-7000-8000-0000000000a1");
    assert_eq!(settlement.completed_at.as_deref(), Some("2026-01-31T12:31:02.120000+00:00"));
    assert_eq!(settlement.occurred_at, "2026-01-31T12:30:55.000000+00:00");
    assert_eq!(settlement.payin_reference, "E18236120202601311230s0a1b2c3d4e");
    assert_eq!(settlement.payout_reference, None);
    assert_eq!(settlement.destination_reference, "carteira-são");
    assert_eq!((settlement.incoming_amount, settlement.incoming_currency), ("1000.00".into(), "BRL".into()));
    assert_eq!(settlement.outgoing_amount.as_deref(), Some("181.149631"));
    assert_eq!(settlement.outgoing_currency, "USDC");
    assert_eq!((settlement.conversion_rate, settlement.fixed_side), ("5.43".into(), "incoming".into()));
    assert_eq!((settlement.fee_percentage, settlement.fee_fixed), ("1.5".into(), "0.250000".into()));
    assert_eq!(settlement.fee_percentage_amount.as_deref(), Some("2.762431"));
}

#[test]
fn a_secret_need_not_be_ascii() {
    let sent = Sent { signature: Some(OTHER_SIGNATURE.to_owned()), ..Sent::good() };
    assert!(sent.to(&Verifier::new("whsec-ключ-1")).is_ok());
}

#[test]
fn either_secret_is_accepted_while_it_is_being_replaced() {
    let verifier = Verifier::new("whsec-ключ-1").also("whsec");
    for signature in [SIGNATURE, OTHER_SIGNATURE] {
        let sent = Sent { signature: Some(signature.to_owned()), ..Sent::good() };
        assert!(sent.to(&verifier).is_ok(), "{signature}");
    }
    let third = Verifier::new("third").also("fourth");
    assert_eq!(Sent::good().to(&third), Err(VerifyError::SignatureMismatch));
}

#[test]
fn an_empty_secret_accepts_nothing_even_if_it_was_signed_with() {
    let message = keyed(b"").chain_update(format!("{SENT_AT}.{BODY}"));
    let signature = format!("sha256={}", hex::encode(message.finalize().into_bytes()));
    let sent = Sent { signature: Some(signature), ..Sent::good() };
    assert_eq!(sent.to(&Verifier::new("")), Err(VerifyError::NoSecret));
    assert_eq!(sent.to(&Verifier::new("").also("whsec")), Err(VerifyError::SignatureMismatch));
}

#[test]
fn whatever_was_changed_is_refused() {
    let changes: [fn(&mut Sent); 6] = [
        |sent| sent.body = sent.body.replace("1000.00", "9000.00"),
        |sent| sent.body.push('\n'),
        |sent| sent.body.clear(),
        |sent| sent.timestamp = Some("1769862663".to_owned()),
        |sent| sent.timestamp = Some("01769862662".to_owned()),
        |sent| sent.signature = Some(OTHER_SIGNATURE.to_owned()),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut sent = Sent::good();
        change(&mut sent);
        assert_eq!(sent.refused(), VerifyError::SignatureMismatch, "change {index}");
    }
    assert_eq!(Sent::good().to(&Verifier::new("Whsec")), Err(VerifyError::SignatureMismatch));
}

#[test]
fn hexadecimal_digits_may_be_upper_case() {
    let digits = SIGNATURE.strip_prefix(PREFIX).unwrap().to_uppercase();
    let sent = Sent { signature: Some(format!("{PREFIX}{digits}")), ..Sent::good() };
    assert!(sent.to(&Verifier::new("whsec")).is_ok());
}

#[test]
fn a_malformed_signature_is_refused() {
    let digits = &SIGNATURE[PREFIX.len()..];
    for signature in [
        digits,
        PREFIX,
        &SIGNATURE[..SIGNATURE.len() - 1],
        &SIGNATURE[..SIGNATURE.len() - 2],
        &format!("{SIGNATURE}00"),
        &format!("{SIGNATURE} "),
        &format!("SHA256={digits}"),
        &format!("sha1={digits}"),
        &SIGNATURE.replace('a', "g"),
    ] {
        let sent = Sent { signature: Some(signature.to_owned()), ..Sent::good() };
        assert_eq!(sent.refused(), VerifyError::MalformedSignature, "{signature:?}");
    }
}

#[test]
fn a_malformed_timestamp_is_refused_even_if_it_was_signed() {
    for timestamp in ["soon", "+1769862662", "-1", " 1769862662", "1769862662.5", "99999999999999999999"] {
        assert_eq!(Sent::signed(timestamp, BODY).refused(), VerifyError::MalformedTimestamp, "{timestamp:?}");
    }
}

#[test]
fn the_tolerance_ends_after_300_seconds_either_way() {
    let seen_at = |seconds: u64| Sent { now: at(seconds), ..Sent::good() };
    let verifier = Verifier::new("whsec");
    for now in [1_769_862_662 - 300, 1_769_862_662 + 300] {
        assert!(seen_at(now).to(&verifier).is_ok(), "{now}");
    }
    assert_eq!(seen_at(1_769_862_662 + 301).refused(), VerifyError::TooOld(301));
    assert_eq!(seen_at(1_769_862_662 - 301).refused(), VerifyError::FromTheFuture(301));
    let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    let sent = Sent { now: before_1970, ..Sent::good() };
    assert_eq!(sent.refused(), VerifyError::FromTheFuture(1_769_862_662));
}

#[test]
fn the_tolerance_can_be_set() {
    let strict = Verifier::new("whsec").tolerance(Duration::from_secs(10));
    let seen_at = |seconds: u64| Sent { now: at(seconds), ..Sent::good() }.to(&strict);
    assert!(seen_at(1_769_862_672).is_ok());
    assert_eq!(seen_at(1_769_862_673), Err(VerifyError::TooOld(11)));
    assert_eq!(seen_at(1_769_862_651), Err(VerifyError::FromTheFuture(11)));
}

#[test]
fn what_is_called_too_old_is_authentic() {
    let sent = Sent { body: "{}".to_owned(), now: at(1_800_000_000), ..Sent::good() };
    assert_eq!(sent.refused(), VerifyError::SignatureMismatch);
}

#[test]
fn a_missing_or_empty_header_is_named() {
    for absent in [None, Some(String::new())] {
        let sent = Sent { signature: absent.clone(), ..Sent::good() };
        assert_eq!(sent.refused(), VerifyError::MissingHeader("service-signature"));
        let sent = Sent { timestamp: absent.clone(), ..Sent::good() };
        assert_eq!(sent.refused(), VerifyError::MissingHeader("service-timestamp"));
        let sent = Sent { delivery_id: absent, ..Sent::good() };
        assert_eq!(sent.refused(), VerifyError::MissingHeader("service-delivery-id"));
    }
    let sent = Sent { signature: None, ..Sent::good() };
    assert_eq!(sent.refused().to_string(), "the header service-signature is missing");
}

#[test]
fn a_delivery_id_is_short_and_visible() {
    let with = |delivery_id: &str| Sent { delivery_id: Some(delivery_id.to_owned()), ..Sent::good() };
    assert!(with(&"d".repeat(DELIVERY_ID_BYTES_MAX)).to(&Verifier::new("whsec")).is_ok());
    for delivery_id in [&"d".repeat(DELIVERY_ID_BYTES_MAX + 1), "a b", "a\u{1b}[2J", "é"] {
        assert_eq!(with(delivery_id).refused(), VerifyError::MalformedDeliveryId, "{delivery_id:?}");
    }
}

#[test]
fn a_test_delivery_is_told_by_its_signed_body() {
    let nil = "00000000-0000-0000-0000-000000000000";
    let sent = Sent::signed(SENT_AT, &BODY.replace("0190d3c4-7c00-7000-8000-0000000000a1", nil));
    assert!(sent.to(&Verifier::new("whsec")).unwrap().test);
    let marked = |name: &str| match name {
        SIGNATURE_HEADER => Some(SIGNATURE),
        TIMESTAMP_HEADER => Some(SENT_AT),
        DELIVERY_ID_HEADER => Some(DELIVERY_ID),
        TEST_HEADER => Some("true"),
        _ => None,
    };
    let event = Verifier::new("whsec").verify(marked, BODY.as_bytes(), at(1_769_862_662)).unwrap();
    assert!(!event.test, "a header that is not signed makes no settlement a test");
}

#[test]
fn unknown_fields_are_ignored_and_nulls_are_none() {
    let grown = BODY.replacen('{', r#"{"new_field":{"deep":[1.5]},"#, 1);
    assert!(Sent::signed(SENT_AT, &grown).to(&Verifier::new("whsec")).is_ok());
    let mut body = BODY.to_owned();
    for (field, value) in [
        ("completed_at", "2026-01-31T12:31:02.120000+00:00"),
        ("outgoing_amount", "181.149631"),
        ("fee_percentage_amount", "2.762431"),
    ] {
        body = body.replace(&format!(r#""{field}":"{value}""#), &format!(r#""{field}":null"#));
    }
    let settlement = Sent::signed(SENT_AT, &body).to(&Verifier::new("whsec")).unwrap().settlement;
    assert_eq!((settlement.completed_at, settlement.outgoing_amount), (None, None));
    assert_eq!((settlement.payout_reference, settlement.fee_percentage_amount), (None, None));
}

#[test]
fn an_unknown_event_is_told_from_a_bad_body() {
    let other = BODY.replace("settlement.completed", "settlement.reversed");
    let unknown = VerifyError::UnknownEvent("settlement.reversed".to_owned());
    assert_eq!(Sent::signed(SENT_AT, &other).refused(), unknown);
    let other = Sent::signed(SENT_AT, r#"{"event":"other"}"#).refused();
    assert_eq!(other.to_string(), r#"an event of an unknown kind: "other""#);
    for body in [
        "",
        "[]",
        "{}",
        r#"{"event":"settlement.completed"}"#,
        &BODY.replace(r#""1000.00""#, "1000.00"),
        &format!("{BODY}{BODY}"),
        &BODY[..BODY.len() - 1],
    ] {
        let refused = Sent::signed(SENT_AT, body).refused();
        assert!(matches!(refused, VerifyError::MalformedBody(_)), "{body}: {refused:?}");
    }
}

#[test]
fn secrets_are_not_printed() {
    let printed = format!("{:?}", Verifier::new("whsec-1").also("whsec-2"));
    assert_eq!(printed, "Verifier { secrets: 2, tolerance: 300s }");
}
