//! The body of an alert.

use serde::Serialize;
use settle_domain::alert::AlertKind;
use settle_domain::ids::{AlertId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::Alert;
use uuid::Uuid;

/// What is told of deliveries that died.
#[derive(Serialize)]
struct DeathMessage<'a> {
    event: AlertKind,
    alert_id: AlertId,
    merchant_id: MerchantId,
    webhook_url: &'a str,
    deaths: u64,
    delivery_ids: &'a [Uuid],
    last_error: &'a str,
    first_at: Timestamp,
    last_at: Timestamp,
}

/// What is told of everything else. `payment_ids` or `operation_ids` is there where the alert names any.
#[derive(Serialize)]
struct Message<'a> {
    event: AlertKind,
    alert_id: AlertId,
    merchant_id: Option<MerchantId>,
    subject: &'a str,
    occurrences: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    payment_ids: Option<&'a [Uuid]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation_ids: Option<&'a [Uuid]>,
    text: &'a str,
    first_at: Timestamp,
    last_at: Timestamp,
}

/// The JSON that is posted, the same in every attempt.
pub(super) fn body(alert: &Alert) -> Vec<u8> {
    let Alert { alert_id, merchant_id, kind, occurrences, first_at, last_at, .. } = *alert;
    let written = if kind == AlertKind::DeliveriesDead {
        serde_json::to_vec(&DeathMessage {
            event: kind,
            alert_id,
            merchant_id,
            webhook_url: &alert.subject,
            deaths: occurrences,
            delivery_ids: &alert.ids,
            last_error: &alert.last_text,
            first_at,
            last_at,
        })
    } else {
        let ids = Some(alert.ids.as_slice()).filter(|ids| !ids.is_empty());
        let is_of_operations = kind == AlertKind::ReconciliationFinding;
        serde_json::to_vec(&Message {
            event: kind,
            alert_id,
            merchant_id: Some(merchant_id).filter(|merchant| *merchant != MerchantId::NIL),
            subject: &alert.subject,
            occurrences,
            payment_ids: ids.filter(|_| !is_of_operations),
            operation_ids: ids.filter(|_| is_of_operations),
            text: &alert.last_text,
            first_at,
            last_at,
        })
    };
    // Texts, numbers and ids always serialize.
    written.unwrap_or_default()
}

/// A merchant's URL without its query, in which merchants put tokens.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(kind: AlertKind, merchant_id: MerchantId, ids: Vec<Uuid>) -> String {
        let at: Timestamp = "2026-01-31T09:30:00Z".parse().unwrap();
        let alert = Alert {
            alert_id: AlertId::NIL,
            merchant_id,
            kind,
            subject: "https://m.example/hook?a=1".to_owned(),
            occurrences: 2,
            ids,
            last_text: "timeout".to_owned(),
            first_at: at,
            last_at: at,
            attempts: 1,
        };
        String::from_utf8(body(&alert)).unwrap()
    }

    const NIL: &str = "00000000-0000-0000-0000-000000000000";
    const ONE: &str = "00000000-0000-0000-0000-000000000001";

    #[test]
    fn dead_deliveries_are_told_in_the_same_bytes_as_ever() {
        let merchant = MerchantId(Uuid::from_u128(1));
        let expected = concat!(
            r#"{"event":"deliveries.dead","alert_id":"00000000-0000-0000-0000-000000000000","#,
            r#""merchant_id":"00000000-0000-0000-0000-000000000001","#,
            r#""webhook_url":"https://m.example/hook?a=1","deaths":2,"#,
            r#""delivery_ids":["00000000-0000-0000-0000-000000000000"],"last_error":"timeout","#,
            r#""first_at":"2026-01-31T09:30:00.000000+00:00","last_at":"2026-01-31T09:30:00.000000+00:00"}"#
        );
        assert_eq!(alert(AlertKind::DeliveriesDead, merchant, vec![Uuid::nil()]), expected);
    }

    #[test]
    fn every_other_kind_is_told_in_one_form() {
        let merchant = MerchantId(Uuid::from_u128(1));
        for kind in AlertKind::ALL.iter().copied().filter(|kind| *kind != AlertKind::DeliveriesDead) {
            let named =
                if kind == AlertKind::ReconciliationFinding { "operation_ids" } else { "payment_ids" };
            let rest = concat!(
                r#""text":"timeout","first_at":"2026-01-31T09:30:00.000000+00:00","#,
                r#""last_at":"2026-01-31T09:30:00.000000+00:00"}"#
            );
            let told = format!(r#"{{"event":"{kind}","alert_id":"{NIL}","merchant_id":"{ONE}","#)
                + r#""subject":"https://m.example/hook?a=1","occurrences":2,"#
                + &format!(r#""{named}":["{NIL}"],{rest}"#);
            assert_eq!(alert(kind, merchant, vec![Uuid::nil()]), told);
            let of_the_house = format!(r#"{{"event":"{kind}","alert_id":"{NIL}","merchant_id":null,"#)
                + r#""subject":"https://m.example/hook?a=1","occurrences":2,"#
                + rest;
            assert_eq!(alert(kind, MerchantId::NIL, Vec::new()), of_the_house);
        }
    }

    #[test]
    fn a_query_is_left_out() {
        for url in ["https://m.example/hook?token=1", "https://m.example/hook#a?b", "https://m.example/hook"]
        {
            assert_eq!(without_query(url), "https://m.example/hook");
        }
    }
}
