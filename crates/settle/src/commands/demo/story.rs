//! The texts that the demo prints.

use axum::http::StatusCode;
use settle_domain::delivery::Delivery;
use settle_domain::payment::StateName;
use settle_domain::reason::Reason;
use settle_domain::seams::Clock;
use settle_engine::case::Case;
use settle_store::{PaymentRow, QueueDepth};
use settle_wiring::system::SystemClock;

use super::operator::{Executions, pay_in};
use super::voice::{Mood, Told};
use crate::commands::access::Access;
use crate::receiver::{Arrival, Verdict};
use crate::shells;

/// The number of the pay-in that somebody hands over by hand: the demo's own do not come so far.
const BY_HAND: usize = 999_999;

/// The last line.
pub(super) const FAREWELL: &str = "The demo has ended, and nothing of it is left.";

/// The first lines: where everything is, and what to try. `gone_key` is the key of the gone shop.
pub(super) fn welcome(access: &Access, gone_key: &str) -> String {
    let Access { api_url, operator_url, api_key, operator_token, .. } = access;
    let settlements = get(&format!("{api_url}/v1/settlements?limit=2"), api_key);
    let deliveries = get(&format!("{api_url}/v1/webhook/deliveries?limit=2"), api_key);
    let test = post(&format!("{api_url}/v1/webhook/test"), api_key, None);
    let dead = get(&format!("{api_url}/v1/webhook/deliveries?status=dead"), gone_key);
    let pay_in = pay_in(access.merchant_id, BY_HAND, ("BRL", "1000.00"), "wallet-treasury").to_string();
    let settle = post(&format!("{operator_url}/operator/v1/payments"), operator_token, Some(&pay_in));
    format!(
        "\
Settle is running, in a temporary folder, with a provider of which nobody gets money, and three shops:

  good shop    its endpoint answers
  flaky shop   its endpoint fails every other 6 seconds, and is tried again
  gone shop    nobody listens at its endpoint: after 4 attempts a delivery is dead, and operations are alerted

Each pay-in is quoted, converted and paid out by the provider, which stumbles now and then, or does its work
and loses the answer. Nothing is paid twice.

The docs:      {api_url}/docs
The metrics:   {operator_url}/metrics

Try, in another terminal, as the good shop:

  {settlements}
  {deliveries}
  {test}

as the gone shop (a line to send it again comes with each death):

  {dead}

and as an operator, who hands over a pay-in of the good shop to be settled:

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

fn told(word: &'static str, mood: Mood, text: String) -> Told {
    Told { time: time(), word, mood, text, command: None }
}

/// A pay-in comes.
pub(super) fn came_in(shop: &str, currency: &str, amount: &str) -> Told {
    told("came in", Mood::Plain, format!("{shop:<11} {amount} {currency}, for the engine to settle"))
}

/// What a payment has become, if that is worth a line: a payment on its usual way takes milliseconds.
pub(super) fn became(shop: &str, row: &PaymentRow) -> Option<Told> {
    let id = row.payment_id;
    let standing = &row.standing;
    let (word, mood, text) = match (standing.state, standing.blocked, standing.reason) {
        (_, Some(blocked), _) => {
            ("blocked", Mood::Worrying, format!("by {blocked}: nothing was done, and it is tried again"))
        }
        (StateName::Completed, ..) => ("settled", Mood::Good, format!("{}payment {id}", amounts(row))),
        (StateName::PayingOut, _, Some(Reason::PayoutOutcomeUnknown)) => (
            "lost",
            Mood::Worrying,
            format!("the answer to the payout: nothing is sent again, the provider is asked, payment {id}"),
        ),
        (StateName::Failed | StateName::NeedsReview, _, reason) => {
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            ("stopped", Mood::Bad, format!("{}{reason}, payment {id}", standing.state))
        }
        _ => return None,
    };
    Some(told(word, mood, format!("{shop:<11} {text}")))
}

/// What came in and what goes out: `1000.00 BRL → 181.149631 USDC, `.
fn amounts(row: &PaymentRow) -> String {
    let case = Case::read(row.clone(), None, Vec::new()).ok();
    let told = case.and_then(|case| {
        let (order, quote) = (&case.payment.order, case.payment.quote?);
        let outgoing = quote.quote.outgoing_amount;
        Some(format!("{} {} → {outgoing} {}, ", order.incoming_amount, order.incoming, order.outgoing))
    });
    told.unwrap_or_default()
}

/// What the provider has really done.
pub(super) fn witnessed(payouts: &Executions) -> Told {
    let twice = payouts.values().filter(|times| **times > 1).count();
    let (mood, words) = if twice == 0 {
        (Mood::Good, "none of them twice".to_owned())
    } else {
        (Mood::Bad, format!("{twice} OF THEM MORE THAN ONCE"))
    };
    told("provider", mood, format!("{} payouts made, {words}", payouts.len()))
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
