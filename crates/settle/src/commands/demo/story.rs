//! The texts that the demo prints.

use axum::http::StatusCode;
use settle_domain::delivery::Delivery;
use settle_domain::seams::Clock;
use settle_domain::settlement::Settlement;
use settle_store::QueueDepth;
use settle_wiring::system::SystemClock;

use super::voice::{Mood, Told};
use crate::commands::access::Access;
use crate::receiver::{Arrival, Verdict};
use crate::shells;

/// The last line.
pub(super) const FAREWELL: &str = "The demo has ended, and nothing of it is left.";

/// The first lines: where everything is, and what to try. `gone_key` is the key of the gone shop.
pub(super) fn welcome(access: &Access, gone_key: &str) -> String {
    let Access { api_url, operator_url, api_key, operator_token, .. } = access;
    let settlements = get(&format!("{api_url}/v1/settlements?limit=2"), api_key);
    let deliveries = get(&format!("{api_url}/v1/webhook/deliveries?limit=2"), api_key);
    let test = post(&format!("{api_url}/v1/webhook/test"), api_key, None);
    let dead = get(&format!("{api_url}/v1/webhook/deliveries?status=dead"), gone_key);
    let settlement = operators_settlement(access);
    let settle = post(&format!("{operator_url}/operator/v1/settlements"), operator_token, Some(&settlement));
    format!(
        "\
Settle is running, in a temporary folder, with three shops:

  good shop    its endpoint answers
  flaky shop   its endpoint fails every other 6 seconds, and is tried again
  gone shop    nobody listens at its endpoint: after 4 attempts a delivery is dead, and operations are alerted

The docs:      {api_url}/docs
The metrics:   {operator_url}/metrics

Try, in another terminal, as the good shop:

  {settlements}
  {deliveries}
  {test}

as the gone shop (a line to send it again comes with each death):

  {dead}

and as an operator, who tells of a settlement of the good shop:

  {settle}

Ctrl-C ends it.
"
    )
}

/// A GET request with a key or a token.
fn get(url: &str, credential: &str) -> String {
    shells::line(&["curl", "-s", url, "-H", &format!("Authorization: Bearer {credential}")])
}

/// A POST request with a key or a token, and perhaps a JSON document.
fn post(url: &str, credential: &str, body: Option<&str>) -> String {
    let authorization = format!("Authorization: Bearer {credential}");
    let mut words = vec!["curl", "-s", "-X", "POST", url, "-H", &authorization];
    if let Some(body) = body {
        words.extend(["-H", "Content-Type: application/json", "-d", body]);
    }
    shells::line(&words)
}

/// A settlement as an operator posts it.
fn operators_settlement(access: &Access) -> String {
    serde_json::json!({
        "merchant_id": access.merchant_id,
        "settlement_id": "0190d3c4-7c00-7000-8000-0000000000d1",
        "completed_at": "2026-01-31T12:31:02Z",
        "occurred_at": "2026-01-31T12:30:55Z",
        "payin_reference": "PAYIN-BY-HAND",
        "payout_reference": null,
        "destination_reference": "wallet-treasury",
        "incoming_currency": "BRL",
        "incoming_amount": "1000.00",
        "outgoing_currency": "USDC",
        "outgoing_amount": "181.149631",
        "conversion_rate": "5.43",
        "fixed_side": "incoming",
        "fee_percentage": "1.5",
        "fee_percentage_amount": "2.762431",
        "fee_fixed": "0.250000",
    })
    .to_string()
}

fn told(word: &'static str, mood: Mood, text: String) -> Told {
    Told { time: time(), word, mood, text, command: None }
}

/// A settlement completes.
pub(super) fn settled(shop: &str, settlement: &Settlement) -> Told {
    let outgoing = settlement.outgoing_amount.map(|amount| amount.to_string()).unwrap_or_default();
    let text = format!(
        "{shop:<11} {} {} → {outgoing} {}",
        settlement.incoming_amount, settlement.incoming_currency, settlement.outgoing_currency,
    );
    told("settled", Mood::Plain, text)
}

/// A notification reaches an endpoint.
pub(super) fn arrived(shop: &str, arrival: &Arrival) -> Told {
    let word = match arrival.verdict {
        Verdict::New => "arrived",
        Verdict::Duplicate => "again",
        Verdict::Test => "test",
        Verdict::Refused => "refused",
    };
    let attempt = arrival.attempts.map(|attempts| format!("attempt {attempts}, ")).unwrap_or_default();
    let delivery = arrival.delivery_id.as_deref().unwrap_or("-");
    let mood = if (200..300).contains(&arrival.status) { Mood::Good } else { Mood::Worrying };
    told(word, mood, format!("{shop:<11} {attempt}answered {}, delivery {delivery}", arrival.status))
}

/// A delivery dies. The shop's key sends it again.
pub(super) fn died(shop: &str, key: &str, api_url: &str, delivery: &Delivery) -> Told {
    let id = delivery.delivery_id;
    let reason = delivery.last_error.as_deref().unwrap_or("no reason is known");
    let attempts = delivery.attempts;
    let text =
        format!("{shop:<11} given up after {attempts} attempts ({reason}), delivery {id}; to send it again:");
    let again = post(&format!("{api_url}/v1/webhook/deliveries/{id}/redeliver"), key, None);
    Told { command: Some(again), ..told("died", Mood::Bad, text) }
}

/// The flaky shop's endpoint changes.
pub(super) fn mood(status: StatusCode) -> Told {
    let (mood, text) = if status.is_success() {
        (Mood::Good, "is well again")
    } else {
        (Mood::Worrying, "fails from now on")
    };
    told("endpoint", mood, format!("flaky shop  {text}"))
}

/// The state of the queue.
pub(super) fn summary(depth: QueueDepth) -> Told {
    told("queue", Mood::Plain, format!("{} pending, {} dead", depth.pending, depth.dead))
}

/// Something of the demo's own goes wrong.
pub(super) fn fault(fault: &dyn std::fmt::Display) -> Told {
    told("failed", Mood::Bad, fault.to_string())
}

/// The time of day.
fn time() -> String {
    let now = SystemClock.now().to_string();
    now.get(11..19).unwrap_or(&now).to_owned()
}
