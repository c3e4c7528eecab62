//! Operations are alerted of deliveries that died, on both stores: at least once, and never in a flood.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use settle_domain::ids::MerchantId;
use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_notify::alerts::{self, AlertTransport, Alerter, HOLD, QUIET};
use settle_notify::sender::AttemptFault;
use settle_store::conformance::alerts::death;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{Death, Store};
use settle_wiring::config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tracing::subscriber::DefaultGuard;

/// Turns each named function into a test on SQLite and one on PostgreSQL.
macro_rules! on_both_stores {
    ($($name:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $name() {
                super::$name(settle_store_sqlite::testing::scratch().await).await;
            })+
        }

        mod postgres {
            $(#[tokio::test]
            async fn $name() {
                super::$name(settle_store_postgres::testing::scratch().await).await;
            })+
        }
    };
}

on_both_stores! {
    an_alert_is_sent_once,
    an_alert_is_sent_until_it_arrives,
    an_alert_of_a_node_that_ended_is_sent_by_another,
    many_deaths_are_few_alerts,
    without_a_url_the_log_is_told,
    a_database_that_is_away_is_waited_for,
    an_alert_goes_over_real_http,
}

const URL: &str = "https://merchant.example/hook?token=hush";

/// Takes what is posted, and answers as it is told; nothing more said, with 2xx.
struct Operations {
    posted: mpsc::UnboundedSender<Value>,
    answers: Mutex<VecDeque<AttemptFault>>,
}

#[async_trait]
impl AlertTransport for Operations {
    async fn post(&self, body: Vec<u8>) -> Result<(), AttemptFault> {
        self.posted.send(serde_json::from_slice(&body).expect("an alert is JSON")).expect("a test reads");
        self.answers.lock().unwrap().pop_front().map_or(Ok(()), Err)
    }
}

/// A store with a merchant, and operations that listen.
struct Scene {
    store: ScratchStore,
    merchant: MerchantId,
    clock: Arc<ManualClock>,
    operations: Arc<Operations>,
    posted: mpsc::UnboundedReceiver<Value>,
}

impl Scene {
    async fn on(scratch: ScratchStore) -> Scene {
        let store = scratch.migrated().await;
        let merchant = fixtures::merchant(&*store).await;
        Scene::of(store, merchant)
    }

    fn of(store: ScratchStore, merchant: MerchantId) -> Scene {
        let (sender, posted) = mpsc::unbounded_channel();
        let operations = Arc::new(Operations { posted: sender, answers: Mutex::default() });
        Scene { store, merchant, clock: Arc::new(ManualClock::at(fixtures::at(0))), operations, posted }
    }

    /// A node.
    fn alerter(&self) -> Alerter {
        Alerter::new(self.store.share(), Some(self.operations.clone()), self.clock.clone())
    }

    async fn die(&self, last_error: &str) -> Death {
        let death = death(self.merchant, URL, last_error);
        die(&*self.store, std::slice::from_ref(&death), &self.clock).await;
        death
    }

    fn at(&self, second: u64) {
        self.clock.set(fixtures::at(second));
    }

    /// What was posted since the last time.
    fn news(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.posted.try_recv().ok()).collect()
    }
}

async fn die(store: &dyn Store, deaths: &[Death], clock: &ManualClock) {
    use settle_domain::seams::Clock;
    let mut tx = store.begin().await.unwrap();
    tx.merchant_lock(&[deaths[0].merchant_id]).await.unwrap();
    let now = clock.now();
    let entropy = SeededEntropy::new(now.as_micros().unsigned_abs());
    alerts::raise(&mut *tx, deaths, now, &entropy).await.unwrap();
    tx.commit().await.unwrap();
}

/// The log of this thread, line by line.
struct Log {
    lines: mpsc::UnboundedReceiver<String>,
    _guard: DefaultGuard,
}

struct Lines(mpsc::UnboundedSender<String>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A test that has read enough reads no more.
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn start() -> Log {
        let (sender, lines) = mpsc::unbounded_channel();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .with_max_level(tracing::Level::WARN)
            .with_writer(move || Lines(sender.clone()))
            .finish();
        Log { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines of alerting of one level since the last time.
    fn news(&mut self, level: &str) -> Vec<Value> {
        let lines = std::iter::from_fn(|| self.lines.try_recv().ok());
        let lines = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        lines.filter(|line| line["level"] == level).collect()
    }
}

async fn an_alert_is_sent_once(scratch: ScratchStore) {
    let mut scene = Scene::on(scratch).await;
    let death = scene.die("timeout").await;
    let alerter = scene.alerter();
    assert_eq!(alerter.look().await.unwrap(), 1);
    let mut news = scene.news();
    let alert_id = news[0]["alert_id"].take();
    assert_eq!(alert_id.as_str().unwrap().len(), 36);
    let expected = json!({
        "event": "deliveries.dead",
        "alert_id": null,
        "merchant_id": scene.merchant,
        "webhook_url": URL,
        "deaths": 1,
        "delivery_ids": [death.delivery_id],
        "last_error": "timeout",
        "first_at": fixtures::at(0),
        "last_at": fixtures::at(0),
    });
    assert_eq!(news, [expected]);
    scene.at(1_000_000);
    assert_eq!(alerter.look().await.unwrap(), 0);
    assert_eq!(scene.news(), Vec::<Value>::new());
}

/// With the same id and the same words, after 1 s, 2 s, 4 s, and in the end every five minutes.
async fn an_alert_is_sent_until_it_arrives(scratch: ScratchStore) {
    let mut log = Log::start();
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut scene = Scene::on(scratch).await;
    let waits = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
    let refused = AttemptFault::Connect(io::ErrorKind::ConnectionRefused);
    let answers = [AttemptFault::Status(500), refused].into_iter().cycle().take(waits.len());
    scene.operations.answers.lock().unwrap().extend(answers);
    scene.die("timeout").await;
    let alerter = scene.alerter();
    assert_eq!(alerter.look().await.unwrap(), 1);
    let first = scene.news();
    assert_eq!(first.len(), 1);
    let mut second = 0;
    for wait in waits {
        scene.at(second + wait - 1);
        assert_eq!(alerter.look().await.unwrap(), 0, "{wait}");
        second += wait;
        scene.at(second);
        assert_eq!(alerter.look().await.unwrap(), 1, "{wait}");
        assert_eq!(scene.news(), first);
    }
    scene.at(second + 1_000_000);
    assert_eq!(alerter.look().await.unwrap(), 0, "it has arrived");
    let lines = log.news("WARN");
    assert_eq!(lines.len(), waits.len());
    let counts = recorder.handle().render();
    for count in ["settle_alerts_raised_total 1", "settle_alerts_send_failures_total 11"] {
        assert!(counts.lines().any(|line| line == count), "{counts}");
    }
    assert_eq!(lines[1]["fields"]["fault"], "connection: refused");
}

/// It ends after it has taken the alert, and before anybody says that it has arrived.
async fn an_alert_of_a_node_that_ended_is_sent_by_another(scratch: ScratchStore) {
    struct Endless(mpsc::UnboundedSender<Value>);

    #[async_trait]
    impl AlertTransport for Endless {
        async fn post(&self, body: Vec<u8>) -> Result<(), AttemptFault> {
            self.0.send(serde_json::from_slice(&body).unwrap()).unwrap();
            std::future::pending().await
        }
    }

    let mut scene = Scene::on(scratch).await;
    scene.die("timeout").await;
    let (sender, mut posted) = mpsc::unbounded_channel();
    let ending = Alerter::new(scene.store.share(), Some(Arc::new(Endless(sender))), scene.clock.clone());
    let first = tokio::select! {
        first = posted.recv() => first.unwrap(),
        _ = ending.look() => panic!("it cannot know that the alert has arrived"),
    };
    drop(ending);
    let alerter = scene.alerter();
    scene.at(HOLD.as_secs() - 1);
    assert_eq!(alerter.look().await.unwrap(), 0, "the other may still be sending it");
    scene.at(HOLD.as_secs());
    assert_eq!(alerter.look().await.unwrap(), 1);
    assert_eq!(scene.news(), [first]);
}

/// The first death is told at once, what dies in the quiet time after it is told together.
async fn many_deaths_are_few_alerts(scratch: ScratchStore) {
    let mut scene = Scene::on(scratch).await;
    let alerter = scene.alerter();
    let minutes = QUIET.as_secs() / 60;
    for second in (0..=minutes * 60).step_by(10) {
        scene.at(second);
        scene.die("timeout").await;
        alerter.look().await.unwrap();
    }
    let deaths: Vec<Value> = scene.news().iter().map(|alert| alert["deaths"].clone()).collect();
    assert_eq!(deaths, [json!(1), json!(minutes * 6)]);
}

/// Once for an alert, without the merchant's query, and never again.
async fn without_a_url_the_log_is_told(scratch: ScratchStore) {
    let mut log = Log::start();
    let scene = Scene::on(scratch).await;
    let deaths: Vec<Death> =
        std::iter::repeat_with(|| death(scene.merchant, URL, "refused")).take(12).collect();
    die(&*scene.store, &deaths, &scene.clock).await;
    let alerter = Alerter::new(scene.store.share(), None, scene.clock.clone());
    assert_eq!(alerter.look().await.unwrap(), 1);
    scene.at(1_000_000);
    assert_eq!(alerter.look().await.unwrap(), 0);
    let lines = log.news("ERROR");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let fields = &lines[0]["fields"];
    assert_eq!(fields["merchant_id"], json!(scene.merchant));
    assert_eq!((&fields["url"], &fields["deaths"]), (&json!("https://merchant.example/hook"), &json!(12)));
    assert_eq!(fields["last_error"], "refused");
    let named: Vec<_> = deaths[..10].iter().map(|death| death.delivery_id).collect();
    assert_eq!(fields["delivery_ids"], format!("{named:?}"));
}

/// A store without tables answers as badly as one that is away.
async fn a_database_that_is_away_is_waited_for(scratch: ScratchStore) {
    let mut log = Log::start();
    let mut scene = Scene::of(scratch, MerchantId::NIL);
    let alerter = scene.alerter();
    let bell = alerter.bell();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(alerter.run(async { stopped.await.unwrap() }));
    while !log.lines.recv().await.unwrap().contains("alerts cannot be looked for") {}
    scene.store.migrate().await.unwrap();
    scene.merchant = fixtures::merchant(&*scene.store).await;
    scene.die("timeout").await;
    bell.ring();
    assert_eq!(scene.posted.recv().await.unwrap()["deaths"], 1);
    stop.send(()).unwrap();
    running.await.unwrap();
    scene.at(1_000_000);
    assert!(!scene.store.alert_any_due(fixtures::at(1_000_000)).await.unwrap(), "it was finished first");
}

/// Wired as the service does it, to a receiver on this machine.
async fn an_alert_goes_over_real_http(scratch: ScratchStore) {
    let scene = Scene::on(scratch).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/alerts", listener.local_addr().unwrap());
    let (config, _) = config::load(None, &vec![("SETTLE_ALERTS__URL".to_owned(), url)]).unwrap();
    let alerter = settle_wiring::alerter(&config, scene.store.share(), scene.clock.clone()).unwrap();
    let bell = alerter.bell();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(alerter.run(async { stopped.await.unwrap() }));
    scene.die("timeout").await;
    bell.ring();
    let request = receive(&listener).await;
    stop.send(()).unwrap();
    running.await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /alerts HTTP/1.1\r\n"), "{head}");
    let body: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&body["event"], &body["last_error"]), (&json!("deliveries.dead"), &json!("timeout")));
    assert!(!scene.store.alert_any_due(fixtures::at(0).plus(Duration::from_hours(1))).await.unwrap());
}

/// Reads one request, and answers it with 200.
async fn receive(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut request = String::new();
    while !request.ends_with('}') {
        let mut chunk = [0; 4_096];
        let read = stream.read(&mut chunk).await.unwrap();
        request.push_str(std::str::from_utf8(&chunk[..read]).unwrap());
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    request
}
