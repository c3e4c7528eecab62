//! A sandbox on a free port with a clock that stands still, the real client before it, and its witness.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use settle_domain::seams::{Clock, ManualClock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_provider::client::{Client, ClientSettings, Endpoint};
use settle_provider::provider::Provider;
use settle_provider::seen::Seen;
use settle_provider::signing::ProviderSecret;
use settle_provider::wire::{ConversionRequest, Operation, OperationKind, Quote, QuoteRequest};
use settle_sandbox::{Sandbox, SandboxSettings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use uuid::Uuid;

pub(crate) const SECRET: &str = "hush";
/// The service's own default; no test waits so long.
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) fn secret(text: &str) -> ProviderSecret {
    ProviderSecret::parse(text.to_owned()).expect("a secret")
}

pub(crate) fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

pub(crate) struct Stage {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Stage {
    /// A sandbox that remembers nothing.
    pub(crate) async fn start() -> Stage {
        Stage::with_file(None, 1).await
    }

    /// A sandbox with this file; a new one is made from the seed.
    pub(crate) async fn with_file(data: Option<PathBuf>, seed: u64) -> Stage {
        let clock = Arc::new(ManualClock::at(Timestamp::from_micros(1_767_225_600_000_000)));
        let settings = SandboxSettings { data, secret: secret(SECRET) };
        let sandbox = Sandbox::open(settings, clock.clone(), &SeededEntropy::new(seed)).expect("a sandbox");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let serving = tokio::spawn(sandbox.serve(listener, async {
            let _ = stopped.await;
        }));
        let client = client(address, SECRET, clock.clone());
        Stage { clock, client, address, stop, serving }
    }

    /// Ends the sandbox, and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.serving.await.expect("no panic").expect("a disk");
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn pass(&self, duration: Duration) {
        self.clock.set(self.now().plus(duration));
    }

    /// Sends a payout of 1.5 USDC.
    pub(crate) async fn pay_out(&self, number: u128, destination: &str) -> Seen<Operation> {
        self.pay(number, destination, "1.500000").await
    }

    pub(crate) async fn pay(&self, number: u128, destination: &str, amount: &str) -> Seen<Operation> {
        let id = id(number);
        let body = format!(
            r#"{{"operation_id":"{id}","asset":"USDC","amount":"{amount}","destination_reference":"{destination}"}}"#
        );
        self.client.send(OperationKind::Payout, id, body.into(), self.now()).await
    }

    /// Sends a refund of 1,000 BRL.
    pub(crate) async fn refund(&self, number: u128, payin: &str) -> Seen<Operation> {
        let id = id(number);
        let body = format!(
            r#"{{"operation_id":"{id}","asset":"BRL","amount":"1000.00","payin_reference":"{payin}"}}"#
        );
        self.client.send(OperationKind::Refund, id, body.into(), self.now()).await
    }

    /// Asks what 1,000 BRL buy in USDC.
    pub(crate) async fn quote(&self, payin: &str) -> Seen<Quote> {
        self.client.quote(&question(payin), self.now()).await
    }

    /// Quotes, and converts at that price.
    pub(crate) async fn convert(&self, number: u128, payin: &str) -> Seen<Operation> {
        let Seen::Answered(quote) = self.quote(payin).await else { panic!("no quote for {payin}") };
        self.convert_at(number, payin, quote.quote_id).await
    }

    pub(crate) async fn convert_at(&self, number: u128, payin: &str, quote_id: String) -> Seen<Operation> {
        let QuoteRequest { payin_reference, sell, sell_amount, buy } = question(payin);
        let operation_id = id(number);
        let request = ConversionRequest { operation_id, payin_reference, quote_id, sell, sell_amount, buy };
        let body = serde_json::to_vec(&request).expect("JSON");
        self.client.send(OperationKind::Conversion, operation_id, body.into(), self.now()).await
    }

    pub(crate) async fn look_up(&self, number: u128) -> Seen<Operation> {
        self.client.look_up(id(number), self.now()).await
    }

    pub(crate) async fn void(&self, number: u128) -> Seen<Operation> {
        self.client.void(id(number), self.now()).await
    }

    /// What the sandbox has really done: operation, reference, amount and times, in order.
    pub(crate) async fn executions(&self) -> Vec<(u128, String, String, u64)> {
        let (status, page) = self.ask("GET", "/sandbox/executions", "").await;
        assert_eq!((status, &page["next"]), (200, &Value::Null));
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        let execution = |found: &Value| {
            let id: Uuid = text(&found["operation_id"]).parse().expect("a uuid");
            (
                id.as_u128(),
                text(&found["reference"]),
                text(&found["amount"]),
                found["times"].as_u64().expect("a number"),
            )
        };
        page["executions"].as_array().expect("a list").iter().map(execution).collect()
    }

    /// How often an operation was executed.
    pub(crate) async fn times(&self, number: u128) -> u64 {
        let executions = self.executions().await;
        executions.into_iter().find(|(id, ..)| *id == number).map_or(0, |(.., times)| times)
    }

    /// A request without a signature.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n");
        self.say(&format!("{head}content-length: {}\r\n\r\n{body}", body.len())).await
    }

    /// A request as text.
    pub(crate) async fn say(&self, request: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.split(' ').nth(1).expect("a status line").parse().expect("a status");
        (status, serde_json::from_str(body).unwrap_or_default())
    }
}

pub(crate) fn client(address: SocketAddr, key: &str, clock: Arc<ManualClock>) -> Client {
    let endpoint = Endpoint::parse(&format!("http://{address}")).expect("a URL");
    let settings =
        ClientSettings { endpoint, secret: secret(key), timeout: TIMEOUT, extra_roots_pem: Vec::new() };
    Client::new(settings, clock).expect("a client")
}

fn question(payin: &str) -> QuoteRequest {
    QuoteRequest {
        payin_reference: payin.to_owned(),
        sell: "BRL".to_owned(),
        sell_amount: "1000.00".parse().expect("a decimal"),
        buy: "USDC".to_owned(),
    }
}
