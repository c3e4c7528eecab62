//! The demo's operator: it hands pay-ins over as a program of a real one does, and asks the sandbox what it
//! did.

use std::collections::HashMap;
use std::net::SocketAddr;

use axum::body::Bytes;
use axum::http::{HeaderValue, Method, Request, header};
use http_body_util::Full;
use serde_json::{Value, json};
use settle_domain::ids::{MerchantId, PaymentId};

use crate::commands::CommandError;
use crate::exchange::exchange;

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
        let mut request =
            Request::new(Full::new(Bytes::from(body.map(Value::to_string).unwrap_or_default())));
        *request.method_mut() = method;
        *request.uri_mut() = axum::http::Uri::from_static(path);
        let value = |text: String| HeaderValue::try_from(text).map_err(std::io::Error::other);
        request.headers_mut().insert(header::HOST, value(place.to_string())?);
        request.headers_mut().insert(header::AUTHORIZATION, value(format!("Bearer {}", self.token))?);
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (_, answer) = exchange(&place.ip().to_string(), place.port(), request, ANSWER_BYTES_MAX).await?;
        let answer = answer.and_then(|answer| serde_json::from_slice(&answer).ok());
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
