//! The demo's operator: it hands pay-ins over as a program of a real one does, and asks the sandbox what it
//! did.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::http::Method;
use serde_json::{Value, json};
use settle_domain::ids::{MerchantId, PaymentId};

use crate::commands::CommandError;
use crate::exchange::ask;

/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 1_024 * 1_024;

/// Where the operator's listener and the sandbox are, and the token.
pub(super) struct Operator {
    pub(super) listener: SocketAddr,
    pub(super) token: String,
    pub(super) sandbox: SocketAddr,
}

impl Operator {
    /// Hands a pay-in over; gives the payment's id.
    pub(super) async fn receive(&self, pay_in: &Value) -> Result<PaymentId, CommandError> {
        let answer = self.ask(self.listener, Method::POST, "/operator/v1/payments", Some(pay_in)).await?;
        let id = answer["payments"][0]["payment_id"].as_str().and_then(|id| id.parse().ok());
        id.ok_or_else(|| CommandError::Refused(format!("the pay-in was refused: {answer}")))
    }

    /// How often the sandbox has executed each payout.
    pub(super) async fn executions(&self) -> Result<Executions, CommandError> {
        payouts(&self.ask(self.sandbox, Method::GET, "/sandbox/executions", None).await?)
    }

    async fn ask(
        &self,
        place: SocketAddr,
        method: Method,
        path: &'static str,
        body: Option<&Value>,
    ) -> Result<Value, CommandError> {
        let host = place.ip().to_string();
        let limits = (ANSWER_TIMEOUT, ANSWER_BYTES_MAX);
        let (_, answer) = ask((&host, place.port()), method, path, &self.token, body, limits).await?;
        answer.ok_or_else(|| CommandError::Refused("the service gave no answer".to_owned()))
    }
}

/// A pay-in as an operator hands it over.
pub(super) fn pay_in(
    merchant: MerchantId,
    number: usize,
    (currency, amount): (&str, &str),
    destination: &str,
) -> Value {
    json!({
        "merchant_id": merchant,
        "payin_reference": format!("PAYIN-{number:06}"),
        "incoming_currency": currency,
        "incoming_amount": amount,
        "outgoing_currency": "USDC",
        "destination_reference": destination,
    })
}

/// How often each operation of a kind was executed.
pub(super) type Executions = HashMap<String, u64>;

/// The executions of payouts in a page of the sandbox's list.
fn payouts(page: &Value) -> Result<Executions, CommandError> {
    let listed = page["executions"].as_array();
    let listed =
        listed.ok_or_else(|| CommandError::Refused("the sandbox's list cannot be read".to_owned()))?;
    let of_payouts = listed.iter().filter(|execution| execution["kind"] == "payout");
    Ok(of_payouts
        .map(|execution| {
            let id = execution["operation_id"].as_str().unwrap_or_default().to_owned();
            (id, execution["times"].as_u64().unwrap_or_default())
        })
        .collect())
}
