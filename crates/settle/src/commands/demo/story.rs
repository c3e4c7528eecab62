//! The texts that the demo prints.

use std::net::SocketAddr;

use axum::http::StatusCode;
use settle_domain::seams::Clock;
use settle_domain::settlement::Settlement;
use settle_store::QueueDepth;
use settle_wiring::system::SystemClock;

use crate::receiver::{Arrival, Verdict};

/// The last line.
pub(super) const FAREWELL: &str = "The demo has ended, and nothing of it is left.";

/// The first lines: where everything is, and what to try.
pub(super) fn welcome(api: SocketAddr, operator: SocketAddr, key: &str, token: &str) -> String {
    format!(
        "\
Settle is running, in a temporary folder, with three shops:

  good shop    its endpoint answers
  flaky shop   its endpoint fails every other 6 seconds, and is tried again
  gone shop    nobody listens at its endpoint: after 4 attempts a delivery is dead, and operations are alerted

The docs:      http://{api}/docs
The metrics:   http://{operator}/metrics

Try, in another terminal, as the good shop:

  curl -s http://{api}/v1/settlements?limit=2 -H 'Authorization: Bearer {key}'
  curl -s http://{api}/v1/webhook/deliveries?limit=2 -H 'Authorization: Bearer {key}'
  curl -s -X POST http://{api}/v1/webhook/test -H 'Authorization: Bearer {key}'

and as an operator, whose token may post settlements to http://{operator}/operator/v1/settlements:

  {token}

Ctrl-C ends it.
"
    )
}

/// A settlement completes.
pub(super) fn settled(shop: &str, settlement: &Settlement) -> String {
    let outgoing = settlement.outgoing_amount.map(|amount| amount.to_string()).unwrap_or_default();
    format!(
        "{}  settled    {shop:<11} {} {} → {outgoing} {}",
        time(),
        settlement.incoming_amount,
        settlement.incoming_currency,
        settlement.outgoing_currency,
    )
}

/// A notification reaches an endpoint.
pub(super) fn arrived(shop: &str, arrival: &Arrival) -> String {
    let what = match arrival.verdict {
        Verdict::New => "arrived",
        Verdict::Duplicate => "again",
        Verdict::Test => "test",
        Verdict::Refused => "refused",
    };
    let attempt = arrival.attempts.map(|attempts| format!("attempt {attempts}, ")).unwrap_or_default();
    let delivery = arrival.delivery_id.as_deref().unwrap_or("-");
    format!("{}  {what:<10} {shop:<11} {attempt}answered {}, delivery {delivery}", time(), arrival.status)
}

/// The flaky shop's endpoint changes.
pub(super) fn mood(status: StatusCode) -> String {
    let mood = if status.is_success() { "is well again" } else { "fails from now on" };
    format!("{}  endpoint   flaky shop  {mood}", time())
}

/// The state of the queue.
pub(super) fn summary(depth: QueueDepth) -> String {
    format!("{}  queue      {} pending, {} dead", time(), depth.pending, depth.dead)
}

/// The time of day.
fn time() -> String {
    let now = SystemClock.now().to_string();
    now.get(11..19).unwrap_or(&now).to_owned()
}
