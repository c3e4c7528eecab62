//! A queue in memory, and leases that nobody contends for: a dispatcher on a database that the test answers
//! for.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::delivery::{Delivery, DeliveryStatus, RetryPolicy};
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId, SettlementId};
use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_domain::settlement::Record;
use settle_domain::time::Timestamp;
use settle_domain::vault::KeyRing;
use settle_domain::webhook_secret::{SealedSecret, WebhookSecret};
use settle_notify::dispatcher::lanes::InFlightLimits;
use settle_notify::dispatcher::queue::{DeliveryQueue, Outcome, RecordedOutcomes};
use settle_notify::dispatcher::{DispatchSettings, Dispatcher};
use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, SendError, Transport};
use settle_outbox::wake::Wake;
use settle_shards::keeper::Keeper;
use settle_shards::leases::ShardLeases;
use settle_store::{
    Ask, Claimed, Claims, DueMerchant, DueTime, LeaseToken, Leases, Presence, QueueDepth, Shard, ShardLease,
    StoreError, StoreResult,
};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long a test waits, in virtual time, before something counts as not happening.
const PATIENCE: Duration = Duration::from_hours(1);

/// A merchant of the shard with this number.
pub fn merchant(shard: u8) -> MerchantId {
    MerchantId(Uuid::from_u128(shard.into()))
}

/// A delivery; those with smaller numbers are claimed first.
pub fn delivery(number: u128) -> DeliveryId {
    DeliveryId(Uuid::from_u128(number))
}

/// A delivery that is due. Without an endpoint its outcome is known without an attempt.
#[derive(Debug, Clone, Copy)]
struct Row {
    merchant: MerchantId,
    has_endpoint: bool,
    is_readable: bool,
    is_recorded: bool,
    /// How many attempts the outcome counts that was recorded.
    attempts: i32,
}

/// The deliveries of all merchants.
#[derive(Default)]
pub struct Queue {
    rows: Mutex<BTreeMap<DeliveryId, Row>>,
    /// The merchant whose outcomes are refused.
    refused: Mutex<Option<MerchantId>>,
    /// How often somebody asked how full the queue is.
    depths: AtomicUsize,
    has_changed: Notify,
}

impl Queue {
    fn rows(&self) -> MutexGuard<'_, BTreeMap<DeliveryId, Row>> {
        self.rows.lock().unwrap()
    }

    /// Adds a delivery of a merchant without an endpoint.
    pub fn add(&self, merchant: MerchantId, delivery: DeliveryId) {
        self.put(merchant, delivery, false);
    }

    /// Adds a delivery that there is an endpoint for.
    pub fn add_to_send(&self, merchant: MerchantId, delivery: DeliveryId) {
        self.put(merchant, delivery, true);
    }

    fn put(&self, merchant: MerchantId, delivery: DeliveryId, has_endpoint: bool) {
        let row = Row { merchant, has_endpoint, is_readable: true, is_recorded: false, attempts: 0 };
        self.rows().insert(delivery, row);
    }

    /// Says whether deliveries can be read.
    pub fn set_readable(&self, deliveries: impl IntoIterator<Item = DeliveryId>, is_readable: bool) {
        for delivery in deliveries {
            self.rows().get_mut(&delivery).unwrap().is_readable = is_readable;
        }
    }

    /// From now on the outcomes of this merchant alone are refused.
    pub fn refuse(&self, merchant: Option<MerchantId>) {
        *self.refused.lock().unwrap() = merchant;
    }

    pub fn is_recorded(&self, delivery: DeliveryId) -> bool {
        self.rows()[&delivery].is_recorded
    }

    /// How many attempts the recorded outcome of a delivery counts.
    pub fn attempts(&self, delivery: DeliveryId) -> i32 {
        self.rows()[&delivery].attempts
    }

    pub async fn until_recorded(&self, delivery: DeliveryId) {
        let recorded = async {
            while !self.is_recorded(delivery) {
                self.has_changed.notified().await;
            }
        };
        timeout(PATIENCE, recorded).await.expect("the outcome is recorded in the end");
    }

    pub fn depths(&self) -> usize {
        self.depths.load(Ordering::SeqCst)
    }

    fn write(&self, outcomes: &[Outcome]) -> StoreResult<Vec<DeliveryId>> {
        let refused = *self.refused.lock().unwrap();
        if outcomes.iter().any(|outcome| Some(outcome.state.merchant_id) == refused) {
            return Err(StoreError::unexpected("an outcome that is refused"));
        }
        let changed: Vec<DeliveryId> =
            outcomes.iter().map(|outcome| outcome.state.delivery.delivery_id).collect();
        for outcome in outcomes {
            let delivery = &outcome.state.delivery;
            let mut rows = self.rows();
            let row = rows.get_mut(&delivery.delivery_id).unwrap();
            (row.is_recorded, row.attempts) = (true, delivery.attempts);
        }
        self.has_changed.notify_one();
        Ok(changed)
    }
}

#[async_trait]
impl DeliveryQueue for Queue {
    async fn due(
        &self,
        shards: &[Shard],
        _due: DueTime,
        known: &[MerchantId],
        _limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        let waiting = self.rows();
        let waiting = waiting.values().filter(|row| !row.is_recorded).map(|row| row.merchant);
        let asked =
            |merchant: &MerchantId| shards.contains(&Shard::of(*merchant)) && !known.contains(merchant);
        Ok(waiting.filter(asked).map(|merchant_id| DueMerchant { merchant_id, due_at: NOW }).collect())
    }

    async fn claim(&self, asks: &[Ask], taken: &[DeliveryId], _due: DueTime) -> StoreResult<Claims> {
        let mut claims = Claims::default();
        for ask in asks {
            let rows = self.rows();
            let waiting = rows.iter().filter(|(id, row)| {
                row.merchant == ask.merchant_id && !row.is_recorded && !taken.contains(id)
            });
            for (id, row) in waiting.take(usize::try_from(ask.number).unwrap()) {
                let unreadable = || StoreError::unexpected("an event of another version");
                let claimed = if row.is_readable { Ok(claimed(*row, *id)) } else { Err(unreadable()) };
                claims.add(row.merchant, *id, claimed);
            }
        }
        Ok(claims)
    }

    async fn record(&self, outcomes: &[Outcome], _at: Timestamp) -> StoreResult<RecordedOutcomes> {
        Ok(RecordedOutcomes { changed: self.write(outcomes)?, locked: Vec::new() })
    }

    async fn record_in_turn(&self, outcomes: &[Outcome], _at: Timestamp) -> StoreResult<()> {
        self.write(outcomes).map(drop)
    }

    async fn refresh(&self, _merchants: &[MerchantId], _at: Timestamp) -> StoreResult<()> {
        Ok(())
    }

    async fn depth(&self) -> StoreResult<QueueDepth> {
        self.depths.fetch_add(1, Ordering::SeqCst);
        Ok(QueueDepth::default())
    }

    async fn wake_others(&self, _merchants: &[MerchantId]) -> StoreResult<()> {
        Ok(())
    }
}

fn claimed(row: Row, delivery_id: DeliveryId) -> Claimed {
    let delivery = Delivery {
        delivery_id,
        settlement_id: SettlementId(Uuid::nil()),
        event_type: EventType::SettlementCompleted,
        status: DeliveryStatus::Pending,
        attempts: 0,
        created_at: NOW,
        delivered_at: None,
        next_attempt_at: NOW,
        response_status: None,
        last_error: None,
        url: String::new(),
    };
    let secret = row.has_endpoint.then(|| sealed(row.merchant));
    Claimed { merchant_id: row.merchant, delivery, record: Record::from_stored("{}".to_owned()), secret }
}

fn ring() -> KeyRing {
    KeyRing::parse(&"5e".repeat(32)).unwrap()
}

fn sealed(merchant: MerchantId) -> SealedSecret {
    let secret = WebhookSecret::parse("whsec".to_owned()).unwrap();
    ring().seal(merchant, &secret, &SeededEntropy::new(1))
}

/// Shards that one keeper holds for as long as it wants.
struct Held(Vec<ShardLease>);

/// A sign of life that is never lost, and nobody to hear from.
struct Alone;

#[async_trait]
impl Presence for Alone {
    async fn woken(&mut self) -> StoreResult<Vec<MerchantId>> {
        std::future::pending().await
    }
}

#[async_trait]
impl ShardLeases for Held {
    async fn presence(&self, _keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        Ok(Some(Box::new(Alone)))
    }

    async fn renew(&self, _keeper: KeeperId, _lease: Duration) -> StoreResult<Leases> {
        Ok(Leases { held: self.0.clone(), share: self.0.len() })
    }

    async fn release(&self, _leases: &[ShardLease]) -> StoreResult<()> {
        Ok(())
    }
}

/// Where nothing is ever sent to.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn attempt(&self, _url: &str, _notification: Notification) -> Result<Attempt, SendError> {
        panic!("no merchant has an endpoint");
    }
}

/// Endpoints that take everything, once what we lack ourselves has been mended.
#[derive(Default)]
pub struct OutOfReach {
    is_mended: AtomicBool,
    tries: Mutex<Vec<Instant>>,
}

impl OutOfReach {
    pub fn mend(&self) {
        self.is_mended.store(true, Ordering::SeqCst);
    }

    /// When the dispatcher has tried to send.
    pub fn tries(&self) -> Vec<Instant> {
        self.tries.lock().unwrap().clone()
    }
}

#[async_trait]
impl Transport for OutOfReach {
    async fn attempt(&self, _url: &str, _notification: Notification) -> Result<Attempt, SendError> {
        self.tries.lock().unwrap().push(Instant::now());
        if self.is_mended.load(Ordering::SeqCst) {
            Ok(Attempt { response_status: Some(200), fault: None })
        } else {
            Err(SendError::Network)
        }
    }
}

/// Runs a dispatcher that holds these shards and has nothing to send, until the result is dropped.
pub fn start(queue: &Arc<Queue>, shards: Range<i16>) -> JoinSet<()> {
    start_with(queue, Arc::new(Nowhere), shards)
}

/// The same, where merchants have endpoints.
pub fn start_with(queue: &Arc<Queue>, transport: Arc<dyn Transport>, shards: Range<i16>) -> JoinSet<()> {
    let dispatcher = Dispatcher {
        queue: queue.clone(),
        transport,
        ring: Arc::new(ring()),
        clock: Arc::new(ManualClock::at(NOW)),
        wake: Wake::default(),
        settings: DispatchSettings {
            timeout: TIMEOUT,
            retry: RetryPolicy::default(),
            in_flight: InFlightLimits { total: 64, per_merchant: 8 },
            shutdown_timeout: TIMEOUT,
        },
    };
    let held = shards.map(|shard| ShardLease { shard: Shard(shard), token: LeaseToken(Uuid::nil()) });
    let leases = Arc::new(Held(held.collect()));
    let mut keeper = Keeper::new(leases, KeeperId(Uuid::nil()), Keeper::lease_min(TIMEOUT));
    let tenancy = keeper.tenant();
    let mut running = JoinSet::new();
    running.spawn(keeper.run());
    running.spawn(dispatcher.run(tenancy, std::future::pending()));
    running
}
