//! Nothing of spread, provider's rate, partner or commission is in anything that a merchant can get: every
//! answer and every notification of a payment that the engine settled.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};
use settle_testing::binary::Settle;
use settle_testing::secrecy::internal_names_in;
use settle_testing::serving::{Answer, PATIENCE, Serving, ask, get};

use crate::listening::SECRET;
use crate::sandbox::Running;

on_both_stores! {
    nothing_internal_reaches_a_merchant,
}

const PARTNER: &str = "zebra-partner";
const PROVIDER: &str = "quagga";
const SPREAD: &str = "3.1415926";
const COMMISSION: &str = "27.182818";
const PROVIDERS_RATE: &str = "5.4321987";
/// The merchants' document: every operation that a merchant has.
const DOCUMENT: &str = include_str!("../../../../openapi.json");

/// Receives notifications, answers them with 200, and gives each as it came: head and body.
fn receiver() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, arrived) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The test may have ended its reading.
            let _ = sender.send(notification(&stream));
        }
    });
    (address, arrived)
}

fn notification(mut stream: &TcpStream) -> String {
    let (mut reader, mut text, mut length) = (BufReader::new(stream), String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        text.push_str(&line);
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    text + &String::from_utf8(body).unwrap()
}

/// A service with the engine, and a merchant whose corridor is full of what it must not see.
struct Shop {
    merchant: String,
    key: String,
    token: String,
    api: SocketAddr,
    operator: SocketAddr,
    _serving: Serving,
    _sandbox: Running,
}

impl Shop {
    fn open(settle: &mut Settle) -> Shop {
        let sandbox = Running::start(settle, &["--secret", "hush"]);
        let rate = json!({ "rate": PROVIDERS_RATE }).to_string();
        assert_eq!(ask(sandbox.address, "PUT", "/sandbox/rates/BRL/USDC", "", &rate).status, 200);
        settle.set("SETTLE_WEBHOOK__ALLOW_HTTP", "true");
        settle.set("SETTLE_WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8");
        let name = PROVIDER.to_uppercase();
        settle.set(&format!("SETTLE_PROVIDERS__{name}__URL"), &format!("http://{}", sandbox.address));
        settle.set(&format!("SETTLE_PROVIDERS__{name}__SECRET"), "hush");
        let made = settle.run(&["operator", "create", "Ada", "--json"]).json();
        let token = made["token"].as_str().unwrap().to_owned();
        let merchant = settle.merchant();
        let (_, key) = settle.key(&merchant);
        let corridor = ["corridor", "set", &merchant, "BRL", "USDC", "--provider", PROVIDER];
        let terms = ["--fee-percentage", "1.5", "--fee-fixed", "0.25", "--spread", SPREAD];
        let shared = ["--partner", PARTNER, "--commission", COMMISSION];
        settle.run(&[&corridor[..], &terms, &shared].concat()).ok();
        let (serving, api, operator) = Serving::ready(settle);
        Shop { merchant, key, token, api, operator, _serving: serving, _sandbox: sandbox }
    }

    fn asks(&self, method: &str, path: &str, body: &str) -> Answer {
        ask(self.api, method, path, &self.key, body)
    }

    fn pay_in(&self, reference: &str, destination: &str) -> String {
        let payment = json!({
            "merchant_id": self.merchant,
            "payin_reference": reference,
            "incoming_currency": "BRL",
            "incoming_amount": "1000.00",
            "outgoing_currency": "USDC",
            "destination_reference": destination,
        });
        let answer =
            ask(self.operator, "POST", "/operator/v1/payments", &self.token, &payment.to_string()).json();
        answer["payments"][0]["payment_id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The payment as operators see it.
    fn payment(&self, id: &str) -> Value {
        let path = format!("/operator/v1/merchants/{}/payments/{id}", self.merchant);
        get(self.operator, &path, &self.token).json()
    }
}

/// Every operation of the document, with the id of a delivery where one needs it.
fn operations(delivery: &str) -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(DOCUMENT).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "put", "post", "patch", "delete"] {
            if item.get(method).is_some() {
                operations.push((method.to_uppercase(), path.replace("{delivery_id}", delivery)));
            }
        }
    }
    operations
}

fn nothing_internal_reaches_a_merchant(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let (address, arrived) = receiver();
    let webhook = json!({ "webhook_url": format!("http://{address}/hook"), "webhook_secret": SECRET });
    let put = shop.asks("PUT", "/v1/webhook", &webhook.to_string());
    assert_eq!(put.status, 200, "{put:?}");
    // One that fails first: what merchants never hear of must not be heard either.
    shop.pay_in("pix-2", "sandbox:refuse");
    let id = shop.pay_in("pix-1", "wallet-1");
    let notified = arrived.recv_timeout(PATIENCE).unwrap();
    assert!(notified.contains(&id), "the settlement of the payment: {notified}");

    // What operators see is full of it: otherwise the test would prove nothing.
    let payment = shop.payment(&id);
    assert_eq!(payment["state"], "completed", "{payment}");
    let internal =
        |name: &str| payment["pricing"][name].as_str().unwrap_or_else(|| panic!("{payment}")).to_owned();
    let amounts = ["bought", "spread", "commission"].map(internal);
    let set = [PARTNER, PROVIDER, SPREAD, COMMISSION, PROVIDERS_RATE].map(str::to_owned);
    let quote = ["quote_id", "buy_amount"]
        .map(|name| payment["quote"][name].as_str().unwrap_or_else(|| panic!("{payment}")).to_owned());
    let marks: Vec<String> = set.into_iter().chain(amounts).chain(quote).collect();

    let page = get(shop.api, "/v1/webhook/deliveries", &shop.key).json();
    let delivery =
        page["deliveries"][0]["delivery_id"].as_str().unwrap_or_else(|| panic!("{page}")).to_owned();
    let mut texts = vec![("the notification".to_owned(), notified)];
    let mut hear = |method: &str, path: &str, key: &str| {
        let body = if method == "PUT" { "{}" } else { "" };
        let answer = ask(shop.api, method, path, key, body);
        texts.push((format!("{method} {path}"), format!("{}\n{}", answer.head, answer.body)));
        answer.status
    };
    for (method, path) in operations(&delivery) {
        let status = hear(&method, &path, &shop.key);
        // What has arrived is not redelivered.
        let expected = if path.ends_with("/redeliver") { 404 } else { 200 };
        assert_eq!(status, expected, "{method} {path}");
        assert_eq!(hear(&method, &path, "sk_00"), 401);
    }
    for path in ["/docs", "/openapi.json", "/healthz", "/readyz", "/nowhere", "/operator/v1/payments"] {
        hear("GET", path, &shop.key);
    }
    texts.push(("the test delivery".to_owned(), arrived.recv_timeout(PATIENCE).unwrap()));
    let settlements = &texts.iter().find(|(name, _)| name == "GET /v1/settlements").unwrap().1;
    assert!(settlements.contains(&id) && settlements.contains("pix-1"), "{settlements}");
    assert!(!settlements.contains("pix-2"), "{settlements}");
    for (name, text) in &texts {
        for mark in &marks {
            assert!(!text.contains(mark), "{mark} in {name}: {text}");
        }
        assert_eq!(internal_names_in(text), [""; 0], "in {name}: {text}");
    }
}
