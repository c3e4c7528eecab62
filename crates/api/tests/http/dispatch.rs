//! A merchant with an endpoint, and the real dispatcher that sends to it.
//!
//! The test plays the endpoint: it takes each request and decides its outcome. It also moves the clock: hours
//! of retries pass in the time that the database needs. It never waits for time to pass: it sees the
//! dispatcher's queries, and so knows what the dispatcher has done.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use settle_domain::delivery::RetryPolicy;
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId};
use settle_domain::seams::Clock;
use settle_domain::settlement::parse;
use settle_domain::time::Timestamp;
use settle_notify::alerts::AlerterWake;
use settle_notify::dispatcher::lanes::InFlightLimits;
use settle_notify::dispatcher::queue::{DeliveryQueue, Outcome, RecordedOutcomes, StoreQueue};
use settle_notify::dispatcher::{DispatchSettings, Dispatcher};
use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, AttemptFault, SendError, Transport};
use settle_outbox::Outbox;
use settle_outbox::recorder::{Recorded, Recorder};
use settle_shards::keeper::Keeper;
use settle_shards::leases::StoreLeases;
use settle_store::{Alert, Ask, Claims, DueMerchant, DueTime, Duty, QueueDepth, Shard, StoreResult};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::merchant::{Merchant, settlement};
use crate::service::Setup;

/// How long a test waits for the dispatcher before the test fails.
const PATIENCE: Duration = Duration::from_secs(50);
/// How long an attempt may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A request that waits for its answer. If it is dropped without one, the sender itself has failed.
pub struct Request {
    pub url: String,
    pub notification: Notification,
    answer: Option<oneshot::Sender<Result<Attempt, SendError>>>,
}

impl Request {
    /// Decides the outcome of the attempt.
    pub fn end(&mut self, attempt: Attempt) {
        let answer = self.answer.take().expect("it ends once");
        answer.send(Ok(attempt)).expect("the dispatcher waits");
    }

    /// We could not make the attempt.
    pub fn fail(&mut self, error: SendError) {
        let answer = self.answer.take().expect("it ends once");
        answer.send(Err(error)).expect("the dispatcher waits");
    }

    /// The value of a header that is there exactly once.
    pub fn header(&self, name: &str) -> &str {
        let mut values = self.notification.headers.get_all(name).iter();
        let value = values.next().unwrap_or_else(|| panic!("there is no {name}"));
        assert!(values.next().is_none(), "{name} is there twice");
        value.to_str().expect("text")
    }
}

/// A network with the test at the other end.
struct Network(mpsc::UnboundedSender<Request>);

#[async_trait]
impl Transport for Network {
    async fn attempt(&self, url: &str, notification: Notification) -> Result<Attempt, SendError> {
        let (answer, answered) = oneshot::channel();
        let request = Request { url: url.to_owned(), notification, answer: Some(answer) };
        self.0.send(request).unwrap_or_else(|_| panic!("the test has ended"));
        answered.await.expect("an answer")
    }
}

/// A step of the dispatcher.
#[derive(Debug, PartialEq)]
enum Step {
    /// It has looked for merchants with deliveries that are due.
    Looked,
    /// It has claimed a merchant's deliveries that are due at this time, and found this many.
    Claimed(Timestamp, usize),
    /// It has recorded this many outcomes, of which this many changed their rows.
    Recorded { outcomes: usize, changed: usize },
}

/// The store's own queue; it tells the test of every step.
struct Watched {
    queue: StoreQueue,
    steps: mpsc::UnboundedSender<Step>,
}

impl Watched {
    fn tell(&self, step: Step) {
        // A dispatcher may outlive its test.
        let _ = self.steps.send(step);
    }
}

#[async_trait]
impl DeliveryQueue for Watched {
    async fn due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let due = self.queue.due(shards, due, known, limit).await?;
        self.tell(Step::Looked);
        Ok(due)
    }

    async fn claim(&self, asks: &[Ask], in_flight: &[DeliveryId], due: DueTime) -> StoreResult<Claims> {
        let claims = self.queue.claim(asks, in_flight, due).await?;
        self.tell(Step::Claimed(due.by, claims.found.len()));
        Ok(claims)
    }

    async fn record_in_turn(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<()> {
        self.queue.record_in_turn(outcomes, at).await?;
        self.tell(Step::Recorded { outcomes: outcomes.len(), changed: outcomes.len() });
        Ok(())
    }

    async fn refresh(&self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()> {
        self.queue.refresh(merchants, at).await
    }

    async fn record(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<RecordedOutcomes> {
        let recorded = self.queue.record(outcomes, at).await?;
        self.tell(Step::Recorded { outcomes: outcomes.len(), changed: recorded.changed.len() });
        Ok(recorded)
    }

    async fn depth(&self) -> StoreResult<QueueDepth> {
        self.queue.depth().await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        self.queue.wake_others(merchants).await
    }
}

/// A dispatcher that serves one merchant.
pub struct Dispatching {
    pub merchant: Merchant,
    requests: mpsc::UnboundedReceiver<Request>,
    steps: mpsc::UnboundedReceiver<Step>,
    running: JoinHandle<()>,
}

impl Dispatching {
    /// Makes a merchant with an endpoint, and starts a dispatcher.
    pub async fn start(setup: Setup) -> Dispatching {
        let merchant = setup.merchant().await;
        merchant.set_webhook().await;
        Dispatching::of(merchant).await
    }

    /// Starts a dispatcher for a merchant.
    pub async fn of(merchant: Merchant) -> Dispatching {
        let (requests, steps, running) = launch(&merchant);
        let mut this = Dispatching { merchant, requests, steps, running };
        this.until(|step| *step == Step::Looked).await;
        this
    }

    /// Kills the dispatcher, whatever it is doing, and starts another one.
    pub async fn crash_and_restart(&mut self) {
        self.running.abort();
        let ended = (&mut self.running).await.expect_err("it was running");
        assert!(ended.is_cancelled(), "{ended}");
        (self.requests, self.steps, self.running) = launch(&self.merchant);
        self.until(|step| *step == Step::Looked).await;
    }

    /// Completes a settlement of the merchant. Returns what was recorded.
    pub async fn settle(&self) -> Recorded {
        let mut object = settlement(Value::Object(serde_json::Map::new()));
        object["merchant_id"] = Value::from(self.merchant.id.to_string());
        let completed = parse(object.as_object().expect("an object")).expect("a settlement");
        let service = &self.merchant.service;
        let recorder = Recorder::start(Outbox::of_service(
            service.store.clone(),
            service.wake.clone(),
            service.clock.clone(),
            service.entropy.clone(),
        ));
        recorder.record(vec![completed.into()]).await.expect("recorded")
    }

    pub fn now(&self) -> Timestamp {
        self.merchant.service.clock.now()
    }

    /// Moves the clock.
    pub fn pass(&self, duration: Duration) {
        self.set(self.now().plus(duration));
    }

    pub fn set(&self, now: Timestamp) {
        self.merchant.service.clock.set(now);
    }

    /// Makes the dispatcher look, and waits for its next request.
    pub async fn request(&mut self) -> Request {
        self.wake();
        let request = timeout(PATIENCE, self.requests.recv()).await.expect("a request in time");
        request.expect("the dispatcher runs")
    }

    /// The next attempt, from its request until its outcome is recorded.
    pub async fn attempt(&mut self, attempt: Attempt) -> Request {
        let mut request = self.request().await;
        request.end(attempt);
        assert_eq!(self.recorded().await, 1, "the row was changed");
        request
    }

    /// Waits until an outcome is recorded. Returns the number of changed rows.
    pub async fn recorded(&mut self) -> usize {
        match self.until(|step| matches!(step, Step::Recorded { .. })).await {
            Step::Recorded { outcomes: 1, changed } => changed,
            other => panic!("one outcome is recorded: {other:?}"),
        }
    }

    /// Lets the dispatcher look twice, and checks that it records nothing.
    pub async fn nothing_is_recorded(&mut self) {
        for _ in 0..2 {
            let step = self.until(|step| matches!(step, Step::Looked | Step::Recorded { .. })).await;
            assert_eq!(step, Step::Looked);
        }
    }

    /// At this time the dispatcher looks, finds nothing due, and sends nothing.
    pub async fn nothing_is_due_at(&mut self, time: Timestamp) {
        assert_ne!(self.now(), time, "a look at another time may still be under way");
        self.set(time);
        self.wake();
        let claimed = self.until(|step| matches!(step, Step::Claimed(at, _) if *at == time)).await;
        assert_eq!(claimed, Step::Claimed(time, 0));
        self.nothing_was_sent();
    }

    /// No request waits for its answer.
    pub fn nothing_was_sent(&mut self) {
        assert!(self.requests.try_recv().is_err(), "something was sent");
    }

    /// The merchant's newest delivery, as its log shows it.
    pub async fn row(&self) -> Value {
        self.merchant.get("/v1/webhook/deliveries?limit=1").await.ok()["deliveries"][0].clone()
    }

    /// Requests a redelivery of the newest delivery.
    pub async fn redeliver(&self) -> Value {
        let id = self.row().await["delivery_id"].as_str().expect("an id").to_owned();
        self.merchant.post(&format!("/v1/webhook/deliveries/{id}/redeliver")).await.ok()
    }

    /// Lets every attempt fail until the delivery is dead.
    pub async fn die(&mut self) {
        let policy = RetryPolicy::default();
        for attempt in 1..=policy.attempts_max {
            self.attempt(status(503)).await;
            self.pass(policy.delay_after(attempt));
        }
        assert_eq!(self.row().await["status"], "dead");
    }

    /// Takes the alerts that are due and marks them as sent, as the alerter does.
    pub async fn alerts(&self) -> Vec<Alert> {
        let mut tx = self.merchant.service.store.begin().await.expect("a transaction");
        let alerts = tx.alert_take(DueTime::by(self.now()), Timestamp::MAX, 100).await.expect("alerts");
        let ids: Vec<_> = alerts.iter().map(|alert| (alert.merchant_id, alert.alert_id)).collect();
        tx.alert_sent(&ids, self.now()).await.expect("sent");
        tx.commit().await.expect("a commit");
        alerts
    }

    fn wake(&self) {
        self.merchant.service.wake.merchants([self.merchant.id]);
    }

    /// Waits for a step.
    async fn until(&mut self, wanted: impl Fn(&Step) -> bool) -> Step {
        loop {
            let step = timeout(PATIENCE, self.steps.recv()).await.expect("a step in time");
            let step = step.expect("the dispatcher runs");
            if wanted(&step) {
                return step;
            }
        }
    }
}

impl Drop for Dispatching {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Starts a dispatcher.
fn launch(
    merchant: &Merchant,
) -> (mpsc::UnboundedReceiver<Request>, mpsc::UnboundedReceiver<Step>, JoinHandle<()>) {
    let (requested, requests) = mpsc::unbounded_channel();
    let (told, steps) = mpsc::unbounded_channel();
    let service = &merchant.service;
    let queue = StoreQueue::new(service.store.clone(), service.entropy.clone(), AlerterWake::default());
    let dispatcher = Dispatcher {
        queue: Arc::new(Watched { queue, steps: told }),
        transport: Arc::new(Network(requested)),
        ring: service.ring.clone(),
        clock: service.clock.clone(),
        wake: service.wake.clone(),
        settings: DispatchSettings {
            timeout: TIMEOUT,
            retry: RetryPolicy::default(),
            in_flight: InFlightLimits { total: 64, per_merchant: 8 },
            shutdown_timeout: TIMEOUT,
        },
    };
    let id = KeeperId::new(service.clock.now(), &*service.entropy);
    let leases = Arc::new(StoreLeases(service.store.clone(), Duty::Dispatch));
    let mut keeper = Keeper::new(leases, id, Keeper::lease_min(TIMEOUT));
    let dispatching = dispatcher.run(keeper.tenant(), std::future::pending());
    // One task: aborting it is like killing the process.
    let process = async move {
        tokio::join!(keeper.run(), dispatching);
    };
    (requests, steps, tokio::spawn(process))
}

/// An attempt that was answered with this status.
pub fn status(status: u16) -> Attempt {
    let fault = if (200..300).contains(&status) { None } else { Some(AttemptFault::Status(status)) };
    Attempt { response_status: Some(status), fault }
}

/// An attempt without a response.
pub fn fault(fault: AttemptFault) -> Attempt {
    Attempt { response_status: None, fault: Some(fault) }
}
