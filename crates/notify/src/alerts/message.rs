//! The body of an alert.

use serde::Serialize;
use settle_domain::ids::{AlertId, DeliveryId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::Alert;

/// The value of `event` in an alert.
const EVENT: &str = "deliveries.dead";

#[derive(Serialize)]
struct Message<'a> {
    event: &'static str,
    alert_id: AlertId,
    merchant_id: MerchantId,
    webhook_url: &'a str,
    deaths: u64,
    delivery_ids: &'a [DeliveryId],
    last_error: &'a str,
    first_at: Timestamp,
    last_at: Timestamp,
}

/// The JSON that is posted, the same in every attempt.
pub(super) fn body(alert: &Alert) -> Vec<u8> {
    let message = Message {
        event: EVENT,
        alert_id: alert.alert_id,
        merchant_id: alert.merchant_id,
        webhook_url: &alert.url,
        deaths: alert.deaths,
        delivery_ids: &alert.delivery_ids,
        last_error: &alert.last_error,
        first_at: alert.first_at,
        last_at: alert.last_at,
    };
    // Texts, numbers and ids always serialize.
    serde_json::to_vec(&message).unwrap_or_default()
}

/// A merchant's URL without its query, in which merchants put tokens.
pub(super) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_left_out() {
        for url in ["https://m.example/hook?token=1", "https://m.example/hook#a?b", "https://m.example/hook"]
        {
            assert_eq!(without_query(url), "https://m.example/hook");
        }
    }
}
