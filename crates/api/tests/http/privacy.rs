//! What nobody may see: internal pricing in an answer, a key or a secret in a log.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::contract::Contract;
use crate::merchant::{Merchant, settlement};
use crate::service::{NOW, Setup};

on_both_stores! {
    internal_pricing_is_never_exposed,
    neither_key_nor_secret_is_logged,
    wrong_credentials_are_not_a_line_each,
    a_caller_cannot_fill_a_line,
}

/// "Internal pricing, spread revenue and partner commission are never exposed."
async fn internal_pricing_is_never_exposed(setup: Setup) {
    let merchant = setup.merchant().await;
    let pricing = json!({
        "provider_rate": "5.3141592",
        "spread_revenue": "2718.281828",
        "partner_commission": "0.577215",
    });
    merchant.record([settlement(json!({ "pricing": pricing }))]).await;
    let dead = merchant.dead_delivery(NOW.parse().unwrap()).await;
    merchant.set_webhook().await;
    let mut texts = vec![Contract::committed_text().to_owned()];
    for operation in Contract::committed().operations() {
        let path = operation.path(&dead.delivery_id.to_string());
        let ask = merchant.ask(&operation.method, &path);
        let ask = if operation.method == "PUT" { ask.json(&json!({})) } else { ask };
        let answer = ask.send().await;
        answer.ok();
        texts.push(format!("{:?} {}", answer.headers, answer.text));
    }
    assert!(texts[1].contains("181.149631"), "the settlement itself is there");
    for text in texts {
        for number in ["3141592", "2718", "281828", "577215"] {
            assert!(!text.contains(number), "{number} in {text}");
        }
        for word in ["provider_rate", "spread", "commission", "pricing"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

/// Collects everything that is logged, at every level.
#[derive(Clone, Default)]
pub struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Captured {
    type Writer = Captured;

    fn make_writer(&self) -> Captured {
        self.clone()
    }
}

async fn neither_key_nor_secret_is_logged(setup: Setup) {
    const SECRET: &str = "whsec-distinctive-0f1e2d3c";
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(captured.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let merchant = setup.merchant().await;
    let request_id = use_secrets(&merchant, SECRET).await;
    let logged = captured.text();
    assert!(logged.contains(&request_id), "requests are logged under their id: {logged}");
    assert!(logged.contains(&merchant.id.to_string()), "and under their merchant");
    let digits = merchant.key.strip_prefix("sk_").unwrap();
    let hex_secret = hex::encode(SECRET);
    for unwanted in [SECRET, digits, &hex_secret] {
        assert!(!logged.contains(unwanted), "{logged}");
    }
}

/// Makes every kind of request with a key or a secret, good and bad; returns a request's id.
async fn use_secrets(merchant: &Merchant, secret: &str) -> String {
    let url = "https://merchant.example/hook";
    for body in [
        json!({ "webhook_url": url, "webhook_secret": secret }),
        json!({ "webhook_secret": secret }),
        json!({ "webhook_url": "https://localhost/", "webhook_secret": secret }),
        json!({ "webhook_url": 7, "webhook_secret": secret }),
        json!({ "webhook_url": url, "webhook_secret": format!("{secret}{}", "x".repeat(256)) }),
    ] {
        merchant.put("/v1/webhook", &body).await;
    }
    let answer = merchant.get("/v1/webhook").await;
    merchant.post("/v1/webhook/test").await.ok();
    merchant.get(&format!("/v1/settlements?key={}", merchant.key)).await.ok();
    merchant.service.revoke(merchant.key_id).await;
    merchant.get("/v1/webhook").await.refused(401, "invalid_credentials");
    merchant.service.store.close().await;
    merchant.get("/v1/webhook").await.refused(503, "internal_error");
    answer.header("x-request-id").unwrap().to_owned()
}

/// Everything that is logged at this level while the guard is held.
pub fn capture(level: tracing::Level) -> (Captured, tracing::subscriber::DefaultGuard) {
    let captured = Captured::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(false)
        .with_writer(captured.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    (captured, guard)
}

/// The log has one line for many: see `Tally`.
async fn wrong_credentials_are_not_a_line_each(setup: Setup) {
    let (captured, _guard) = capture(tracing::Level::INFO);
    let service = setup.start().await;
    for value in ["Bearer sk_00", "nonsense"] {
        let ask = service.ask("GET", "/v1/webhook").header("authorization", value);
        ask.send().await.refused(401, "invalid_credentials");
    }
    service.ask("GET", "/v1/webhook").send().await.refused(401, "invalid_credentials");
    assert!(!captured.text().contains("answered"), "{}", captured.text());
    service.ask("GET", "/nowhere").send().await.refused(404, "not_found");
    assert!(captured.text().contains("answered"), "{}", captured.text());
}

async fn a_caller_cannot_fill_a_line(setup: Setup) {
    const LONG: usize = 2_000;
    let (captured, _guard) = capture(tracing::Level::DEBUG);
    let merchant = setup.merchant().await;
    let long = "x".repeat(LONG);
    let path = format!("/v1/webhook/deliveries/{long}/redeliver?{long}={long}");
    merchant.ask(&long, &path).header(&long, &long).header("accept-language", &long).send().await;
    merchant.ask("POST", &path).send().await.refused(404, "not_found");
    merchant.put("/v1/webhook", &json!({ "webhook_url": long, "webhook_secret": long })).await.invalid();
    for line in captured.text().lines().filter(|line| line.contains("settle_api")) {
        assert!(!line.contains(&long[..201]), "{line}");
    }
    assert!(captured.text().contains(&long[..200]), "the method is recognisable");
}
