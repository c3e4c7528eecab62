//! The alerter tells operations of dead deliveries, on both stores: at least once, and never in a flood.

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
use settle_notify::alerts::{self, AlertError, AlertTransport, Alerter, HOLD, QUIET};
use settle_notify::sender::AttemptFault;
use settle_store::conformance::alerts::death;
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{CALL_TIMEOUT, Death, DueTime, Store, StoreError, Tx};
use settle_store_sqlite::SqliteStore;
use settle_store_sqlite::testing::scratch_url;
use settle_testing::virtual_time::pass;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tracing::subscriber::DefaultGuard;

settle_testing::on_both_stores! {
    an_alert_is_sent_once,
    an_alert_is_sent_until_it_arrives,
    an_alert_of_a_node_that_ended_is_sent_by_another,
    many_deaths_are_few_alerts,
    without_a_url_the_log_is_told,
    a_database_that_is_away_is_waited_for,
}

const URL: &str = "https://merchant.example/hook?token=hush";
/// How much longer than the alerter somebody else waits for the same store.
const AHEAD: Duration = Duration::from_secs(1);
/// Longer than the alerter's limit on one call, and shorter than what the store lets it wait.
const LATE: Duration = CALL_TIMEOUT.saturating_add(Duration::from_secs(3));

/// Keeps every posted alert, and answers with the faults that the test has queued, then with success.
struct Operations {
    posted: mpsc::UnboundedSender<Value>,
    answers: Mutex<VecDeque<AttemptFault>>,
}

#[async_trait]
impl AlertTransport for Operations {
    async fn post(&self, body: Vec<u8>) -> Result<(), AlertError> {
        self.posted.send(serde_json::from_slice(&body).expect("an alert is JSON")).expect("a test reads");
        self.answers.lock().unwrap().pop_front().map_or(Ok(()), |fault| Err(fault.into()))
    }
}

/// A store with a merchant, and a receiver of alerts.
struct Setup {
    store: ScratchStore,
    merchant: MerchantId,
    clock: Arc<ManualClock>,
    operations: Arc<Operations>,
    posted: mpsc::UnboundedReceiver<Value>,
}

impl Setup {
    async fn on(scratch: ScratchStore) -> Setup {
        let store = scratch.migrated().await;
        let merchant = fixtures::merchant(&*store).await;
        Setup::of(store, merchant)
    }

    fn of(store: ScratchStore, merchant: MerchantId) -> Setup {
        let (sender, posted) = mpsc::unbounded_channel();
        let operations = Arc::new(Operations { posted: sender, answers: Mutex::default() });
        Setup { store, merchant, clock: Arc::new(ManualClock::at(fixtures::at(0))), operations, posted }
    }

    /// The alerter of one node.
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

    /// The alerts posted since the last call.
    fn news(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.posted.try_recv().ok()).collect()
    }
}

async fn die(store: &dyn Store, deaths: &[Death], clock: &ManualClock) {
    use settle_domain::seams::Clock;
    let mut tx = store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[deaths[0].merchant_id]).await.unwrap();
    let now = clock.now();
    let entropy = SeededEntropy::new(now.as_micros().unsigned_abs());
    alerts::raise(&mut *tx, &lock, deaths, now, &entropy).await.unwrap();
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
        // The test may have ended its reading.
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

    /// The alerter's lines of one level since the last call. A store may warn of a statement that took long.
    fn news(&mut self, level: &str) -> Vec<Value> {
        let lines = std::iter::from_fn(|| self.lines.try_recv().ok());
        let lines = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
        let is_its_own = |line: &Value| line["target"].as_str().unwrap().starts_with("settle_notify::");
        lines.filter(|line| line["level"] == level && is_its_own(line)).collect()
    }
}

async fn an_alert_is_sent_once(scratch: ScratchStore) {
    let mut setup = Setup::on(scratch).await;
    let death = setup.die("timeout").await;
    let alerter = setup.alerter();
    assert_eq!(alerter.look().await.unwrap(), 1);
    let mut news = setup.news();
    let alert_id = news[0]["alert_id"].take();
    assert_eq!(alert_id.as_str().unwrap().len(), 36);
    let expected = json!({
        "event": "deliveries.dead",
        "alert_id": null,
        "merchant_id": setup.merchant,
        "webhook_url": URL,
        "deaths": 1,
        "delivery_ids": [death.delivery_id],
        "last_error": "timeout",
        "first_at": fixtures::at(0),
        "last_at": fixtures::at(0),
    });
    assert_eq!(news, [expected]);
    setup.at(1_000_000);
    assert_eq!(alerter.look().await.unwrap(), 0);
    assert_eq!(setup.news(), Vec::<Value>::new());
}

/// With the same id and the same text, after 1 s, 2 s, 4 s, and in the end every five minutes.
async fn an_alert_is_sent_until_it_arrives(scratch: ScratchStore) {
    let mut log = Log::start();
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let mut setup = Setup::on(scratch).await;
    let waits = [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300];
    let refused = AttemptFault::Connect(io::ErrorKind::ConnectionRefused);
    let answers = [AttemptFault::Status(500), refused].into_iter().cycle().take(waits.len());
    setup.operations.answers.lock().unwrap().extend(answers);
    setup.die("timeout").await;
    let alerter = setup.alerter();
    assert_eq!(alerter.look().await.unwrap(), 1);
    let first = setup.news();
    assert_eq!(first.len(), 1);
    let mut second = 0;
    for wait in waits {
        setup.at(second + wait - 1);
        assert_eq!(alerter.look().await.unwrap(), 0, "{wait}");
        second += wait;
        setup.at(second);
        assert_eq!(alerter.look().await.unwrap(), 1, "{wait}");
        assert_eq!(setup.news(), first);
    }
    setup.at(second + 1_000_000);
    assert_eq!(alerter.look().await.unwrap(), 0, "it has arrived");
    let lines = log.news("WARN");
    assert_eq!(lines.len(), waits.len());
    let counts = recorder.handle().render();
    for count in ["settle_alerts_raised_total 1", "settle_alerts_send_failures_total 11"] {
        assert!(counts.lines().any(|line| line == count), "{counts}");
    }
    assert_eq!(lines[1]["fields"]["fault"], "connection: refused");
}

/// The first node ends after it has taken the alert and before the alert is known to have arrived.
async fn an_alert_of_a_node_that_ended_is_sent_by_another(scratch: ScratchStore) {
    struct Endless(mpsc::UnboundedSender<Value>);

    #[async_trait]
    impl AlertTransport for Endless {
        async fn post(&self, body: Vec<u8>) -> Result<(), AlertError> {
            self.0.send(serde_json::from_slice(&body).unwrap()).unwrap();
            std::future::pending().await
        }
    }

    let mut setup = Setup::on(scratch).await;
    setup.die("timeout").await;
    let (sender, mut posted) = mpsc::unbounded_channel();
    let ending = Alerter::new(setup.store.share(), Some(Arc::new(Endless(sender))), setup.clock.clone());
    let first = tokio::select! {
        first = posted.recv() => first.unwrap(),
        _ = ending.look() => panic!("it cannot know that the alert has arrived"),
    };
    drop(ending);
    let alerter = setup.alerter();
    setup.at(HOLD.as_secs() - 1);
    assert_eq!(alerter.look().await.unwrap(), 0, "the other may still be sending it");
    setup.at(HOLD.as_secs());
    assert_eq!(alerter.look().await.unwrap(), 1);
    assert_eq!(setup.news(), [first]);
}

/// The first death is told at once; deaths in the quiet time after it are told together.
async fn many_deaths_are_few_alerts(scratch: ScratchStore) {
    let mut setup = Setup::on(scratch).await;
    let alerter = setup.alerter();
    let minutes = QUIET.as_secs() / 60;
    for second in (0..=minutes * 60).step_by(10) {
        setup.at(second);
        setup.die("timeout").await;
        alerter.look().await.unwrap();
    }
    let deaths: Vec<Value> = setup.news().iter().map(|alert| alert["deaths"].clone()).collect();
    assert_eq!(deaths, [json!(1), json!(minutes * 6)]);
}

/// The alerter logs each alert once, without the query of the merchant's URL.
async fn without_a_url_the_log_is_told(scratch: ScratchStore) {
    let mut log = Log::start();
    let setup = Setup::on(scratch).await;
    let deaths: Vec<Death> =
        std::iter::repeat_with(|| death(setup.merchant, URL, "refused")).take(12).collect();
    die(&*setup.store, &deaths, &setup.clock).await;
    let alerter = Alerter::new(setup.store.share(), None, setup.clock.clone());
    assert_eq!(alerter.look().await.unwrap(), 1);
    setup.at(1_000_000);
    assert_eq!(alerter.look().await.unwrap(), 0);
    let lines = log.news("ERROR");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let fields = &lines[0]["fields"];
    assert_eq!(fields["merchant_id"], json!(setup.merchant));
    assert_eq!((&fields["url"], &fields["deaths"]), (&json!("https://merchant.example/hook"), &json!(12)));
    assert_eq!(fields["last_error"], "refused");
    let named: Vec<_> = deaths[..10].iter().map(|death| death.delivery_id).collect();
    assert_eq!(fields["delivery_ids"], format!("{named:?}"));
}

/// A store without tables fails like one that cannot be reached.
async fn a_database_that_is_away_is_waited_for(scratch: ScratchStore) {
    let mut log = Log::start();
    let mut setup = Setup::of(scratch, MerchantId::NIL);
    let alerter = setup.alerter();
    let wake = alerter.wake();
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(alerter.run(async { stopped.await.unwrap() }));
    while !log.lines.recv().await.unwrap().contains("alerts cannot be looked for") {}
    setup.store.migrate().await.unwrap();
    setup.merchant = fixtures::merchant(&*setup.store).await;
    setup.die("timeout").await;
    wake.wake();
    assert_eq!(setup.posted.recv().await.unwrap()["deaths"], 1);
    stop.send(()).unwrap();
    running.await.unwrap();
    setup.at(1_000_000);
    assert!(
        !setup.store.alert_any_due(DueTime::by(fixtures::at(1_000_000))).await.unwrap(),
        "it was finished first"
    );
}

/// A store that does not answer any more: another process takes the file and keeps it. Each wait in the store
/// has a limit, but whoever comes after somebody else of this process has two of them before him.
struct Jam {
    store: Arc<dyn Store>,
    elsewhere: Arc<dyn Store>,
    holder: Mutex<Option<Box<dyn Tx>>>,
    _folder: TempDir,
}

impl Jam {
    /// A store with an alert, which answers as yet.
    async fn with_an_alert(clock: &ManualClock) -> Jam {
        let (url, folder) = scratch_url();
        let open = || -> Arc<dyn Store> { Arc::new(SqliteStore::new(&url).unwrap()) };
        let jam = Jam { store: open(), elsewhere: open(), holder: Mutex::default(), _folder: folder };
        jam.store.migrate().await.unwrap();
        let merchant = fixtures::merchant(&*jam.store).await;
        die(&*jam.store, &[death(merchant, URL, "timeout")], clock).await;
        jam
    }

    async fn begin(&self) {
        let holder = self.elsewhere.begin().await.unwrap();
        *self.holder.lock().unwrap() = Some(holder);
        let ahead = self.store.clone();
        tokio::spawn(async move { ahead.begin().await.map(drop) });
        pass(AHEAD).await;
    }

    fn end(&self) {
        *self.holder.lock().unwrap() = None;
    }
}

/// Alerts arrive, and from then on the store does not answer.
#[async_trait]
impl AlertTransport for Jam {
    async fn post(&self, _body: Vec<u8>) -> Result<(), AlertError> {
        self.begin().await;
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_database_that_never_answers_is_given_up_when_alerts_are_looked_for() {
    let clock = Arc::new(ManualClock::at(fixtures::at(0)));
    let jam = Jam::with_an_alert(&clock).await;
    let alerter = Alerter::new(jam.store.clone(), None, clock);
    jam.begin().await;
    let looked = timeout(LATE, alerter.look()).await.expect("it gives up");
    assert!(matches!(looked, Err(StoreError::Unavailable(_))), "{looked:?}");
    jam.end();
    assert_eq!(alerter.look().await.unwrap(), 1, "nothing was taken");
}

#[tokio::test(start_paused = true)]
async fn a_database_that_never_answers_is_given_up_when_an_alert_was_sent() {
    let clock = Arc::new(ManualClock::at(fixtures::at(0)));
    let jam = Arc::new(Jam::with_an_alert(&clock).await);
    let alerter = Alerter::new(jam.store.clone(), Some(jam.clone()), clock.clone());
    let looked = timeout(LATE, alerter.look()).await.expect("it gives up");
    assert!(matches!(looked, Err(StoreError::Unavailable(_))), "{looked:?}");
    jam.end();
    clock.set(fixtures::at(HOLD.as_secs()));
    let alerter = Alerter::new(jam.store.clone(), None, clock);
    assert_eq!(alerter.look().await.unwrap(), 1, "nobody knows that it has arrived");
}
