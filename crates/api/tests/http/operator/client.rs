//! The operator's client: a token, both listeners on one store, and a check of every answer.

use serde_json::Value;
use settle_api::OperatorParts;
use settle_domain::credential::{Credential, CredentialKind, Holder};
use settle_domain::ids::OperatorId;
use settle_domain::seams::Clock;
use settle_store::{NewOperator, Operator};

use super::listener::{Listener, parts};
use crate::answer::Answer;
use crate::contract::Contract;
use crate::merchant::{Ask, Merchant, settlement};
use crate::service::{Service, Setup};

/// The operation under test.
pub const SETTLEMENTS: &str = "/operator/v1/settlements";

/// A client with the token of an operator.
pub struct OperatorClient {
    pub service: Service,
    pub listener: Listener,
    pub operator_id: OperatorId,
    pub token: String,
}

impl OperatorClient {
    pub async fn start(setup: Setup) -> OperatorClient {
        OperatorClient::start_with(setup, |_| {}).await
    }

    /// The same, with changed parts of the listener.
    pub async fn start_with(setup: Setup, change: impl FnOnce(&mut OperatorParts)) -> OperatorClient {
        let service = setup.start().await;
        let mut parts = parts(service.store.clone());
        change(&mut parts);
        let listener = Listener::start(parts).await;
        let (operator_id, token) = new_operator(&service, "Ada").await;
        OperatorClient { service, listener, operator_id, token }
    }

    /// A request without a token.
    pub fn ask(&self, method: &str, path: &str) -> Ask {
        Ask::new(self.listener.address, method, path)
    }

    /// A request that records settlements, with the token and without a body.
    pub fn authorized(&self) -> Ask {
        self.ask("POST", SETTLEMENTS).header("authorization", &format!("Bearer {}", self.token))
    }

    /// Posts settlements.
    pub async fn post(&self, body: &Value) -> Answer {
        send(self.authorized().json(body)).await
    }

    /// Posts a body that may not be JSON.
    pub async fn post_text(&self, body: impl Into<Vec<u8>>) -> Answer {
        send(self.authorized().body(body)).await
    }

    /// Sends a request with the token, and with a body if there is one.
    pub async fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let ask = self.ask(method, path).header("authorization", &format!("Bearer {}", self.token));
        send(match body {
            Some(body) => ask.json(body),
            None => ask,
        })
        .await
    }

    /// A merchant with an endpoint.
    pub async fn notified_merchant(&self) -> Merchant {
        let merchant = self.service.merchant().await;
        merchant.set_webhook().await;
        merchant
    }
}

/// Makes one more operator.
pub async fn new_operator(service: &Service, name: &str) -> (OperatorId, String) {
    let token = Credential::generate(CredentialKind::OperatorToken, &*service.entropy);
    let (now, operator_id) = (service.clock.now(), OperatorId::new(service.clock.now(), &*service.entropy));
    let operator = Operator { operator_id, name: name.to_owned(), created_at: now, revoked_at: None };
    let hash = token.hash();
    let seal = service.ring.seal_credential(Holder::Operator(operator_id), hash);
    let mut tx = service.store.begin().await.expect("a transaction");
    tx.operator_create(&NewOperator { operator, hash, seal }).await.expect("an operator");
    tx.commit().await.expect("a commit");
    (operator_id, token.expose().to_owned())
}

/// A completed settlement of a merchant in the import format, with the given fields replaced.
pub fn completed(merchant: &Merchant, fields: Value) -> Value {
    let mut settlement = settlement(fields);
    let object = settlement.as_object_mut().expect("an object");
    object.entry("merchant_id").or_insert_with(|| Value::from(merchant.id.to_string()));
    settlement
}

/// How many settlements and deliveries a merchant sees.
pub async fn seen(merchant: &Merchant) -> (i64, i64) {
    let total = async |path: &str| merchant.get(path).await.ok()["total"].as_i64().expect("a number");
    (total("/v1/settlements").await, total("/v1/webhook/deliveries").await)
}

/// Sends a request, and checks the answer against the contract.
pub async fn send(ask: Ask) -> Answer {
    ask.send_under(Contract::with_operators()).await
}

/// Checks an answer to a request that records settlements, and that came another way.
#[track_caller]
pub fn hold(answer: &Answer) {
    Contract::with_operators().hold("POST", SETTLEMENTS, answer);
}

/// The details of a refusal with this status and this code.
#[track_caller]
pub fn details(answer: &Answer, status: u16, code: &str) -> Vec<String> {
    let error = answer.refused(status, code);
    let details = error["details"].as_array().unwrap_or_else(|| panic!("no details: {error}"));
    details.iter().map(|detail| detail.as_str().expect("a text").to_owned()).collect()
}
