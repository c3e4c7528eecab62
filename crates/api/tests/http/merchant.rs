//! A merchant's client: a key, and an HTTP client that checks every answer against the contract.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use settle_domain::delivery::{Delivery, DeliveryEvent, RetryPolicy};
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::settlement::parse;
use settle_domain::time::Timestamp;
use settle_store::conformance::fixtures;
use settle_store::{NewDelivery, NewSettlement};
use tokio::net::TcpStream;

use crate::answer::Answer;
use crate::contract::Contract;
use crate::service::Service;

/// A merchant with a key.
pub struct Merchant {
    pub service: Service,
    pub id: MerchantId,
    pub key_id: KeyId,
    pub key: String,
}

impl Merchant {
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path).send().await
    }

    pub async fn post(&self, path: &str) -> Answer {
        self.ask("POST", path).send().await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.ask("PUT", path).json(body).send().await
    }

    /// A request with the merchant's key.
    pub fn ask(&self, method: &str, path: &str) -> Ask {
        self.service.ask(method, path).header("authorization", &format!("Bearer {}", self.key))
    }

    /// Sets the endpoint.
    pub async fn set_webhook(&self) {
        let body = json!({ "webhook_url": "https://merchant.example/hook", "webhook_secret": "hush" });
        self.put("/v1/webhook", &body).await.ok();
    }

    /// Records settlements: each is [`settlement`] with the given fields replaced.
    pub async fn record(&self, settlements: impl IntoIterator<Item = Value>) {
        let new: Vec<NewSettlement> = settlements
            .into_iter()
            .map(|fields| {
                let mut object = settlement(fields);
                object["merchant_id"] = Value::from(self.id.to_string());
                let object = object.as_object().expect("an object");
                parse(object).unwrap_or_else(|problems| panic!("{problems:?}")).into()
            })
            .collect();
        for batch in new.chunks(settle_store::BATCH_MAX) {
            let outcome = fixtures::record(&*self.service.store, batch).await;
            assert_eq!(outcome.recorded.len(), batch.len(), "all of them are new");
        }
    }

    /// Enqueues a delivery at the given time, and applies the given events to it at that time.
    pub async fn delivery(&self, created_at: Timestamp, events: &[DeliveryEvent]) -> NewDelivery {
        let new = fixtures::delivery(self.id, created_at);
        fixtures::enqueue(&*self.service.store, std::slice::from_ref(&new)).await;
        self.happen(fixtures::listed(&new), events, created_at).await;
        new
    }

    /// Enqueues a delivery that is dead after its last attempt.
    pub async fn dead_delivery(&self, created_at: Timestamp) -> NewDelivery {
        self.delivery(created_at, &vec![failed(); 8]).await
    }

    /// Applies events to a pending delivery, and stores the result.
    pub async fn happen(&self, mut delivery: Delivery, events: &[DeliveryEvent], at: Timestamp) {
        for event in events {
            delivery.apply(event.clone(), at, &RetryPolicy::default()).expect("the state allows it");
        }
        if !events.is_empty() {
            let changed = fixtures::record_states(&*self.service.store, self.id, &[delivery]).await;
            assert_eq!(changed, 1, "a pending row was changed");
        }
    }
}

/// An attempt that was answered with a 503.
pub fn failed() -> DeliveryEvent {
    DeliveryEvent::Failed { response_status: Some(503), error: "status 503".to_owned() }
}

/// An attempt that was answered with a 204.
pub fn answered() -> DeliveryEvent {
    DeliveryEvent::Answered { response_status: 204 }
}

/// A settlement record as a merchant sees it, with the given fields replaced.
pub fn settlement(fields: Value) -> Value {
    let mut settlement = json!({
        "settlement_id": fixtures::unique_uuid(),
        "completed_at": "2026-01-31T12:31:02.120000+00:00",
        "occurred_at": "2026-01-31T12:30:55.000000+00:00",
        "payin_reference": "E18236120202601311230s0a1b2c3d4e",
        "payout_reference": "0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b",
        "destination_reference": "wallet-main",
        "incoming_currency": "BRL",
        "incoming_amount": "1000.00",
        "outgoing_currency": "USDC",
        "outgoing_amount": "181.149631",
        "conversion_rate": "5.43",
        "fixed_side": "incoming",
        "fee_percentage": "1.5",
        "fee_percentage_amount": "2.762431",
        "fee_fixed": "0.250000",
    });
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    settlement.as_object_mut().expect("an object").extend(fields);
    settlement
}

/// A request to be sent.
#[must_use]
pub struct Ask {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Ask {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Ask {
        Ask {
            address,
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Adds a header; another one of the same name stays.
    pub fn header(self, name: &str, value: &str) -> Ask {
        self.header_bytes(name, value.as_bytes())
    }

    pub fn header_bytes(mut self, name: &str, value: &[u8]) -> Ask {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn json(self, body: &Value) -> Ask {
        self.header("content-type", "application/json").body(body.to_string())
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Ask {
        self.body = body.into();
        self
    }

    /// Sends it to the merchant API, and checks the answer against its contract.
    pub async fn send(self) -> Answer {
        self.send_under(Contract::committed()).await
    }

    /// Sends it, and checks the answer against a contract.
    pub async fn send_under(self, contract: &Contract) -> Answer {
        let (method, path) = (self.method.clone(), self.path.clone());
        let answer = self.exchange().await;
        contract.hold(&method, &path, &answer);
        answer
    }

    async fn exchange(self) -> Answer {
        let stream = TcpStream::connect(self.address).await.expect("the service listens");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("a connection");
        let connection = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(self.method.as_str())
            .uri(&self.path)
            .header("host", self.address.to_string());
        for (name, value) in &self.headers {
            request = request.header(name, value.as_slice());
        }
        let request = request.body(Full::new(Bytes::from(self.body))).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("the whole body").to_bytes();
        connection.abort();
        Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            text: String::from_utf8(bytes.to_vec()).expect("the body is UTF-8"),
        }
    }
}
