//! A dispatcher whose database refuses some of what it asks, and does the rest.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the message")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::delivery::RetryPolicy;
use settle_domain::ids::{DeliveryId, KeeperId, MerchantId, SettlementId};
use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_domain::vault::KeyRing;
use settle_notify::alerts::AlerterWake;
use settle_notify::dispatcher::lanes::InFlightLimits;
use settle_notify::dispatcher::queue::{DeliveryQueue, Outcome, RecordedOutcomes, StoreQueue};
use settle_notify::dispatcher::{DispatchSettings, Dispatcher};
use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, SendError, Transport};
use settle_outbox::wake::Wake;
use settle_shards::keeper::{Keeper, Standing};
use settle_shards::leases::{ShardLeases, StoreLeases};
use settle_store::conformance::{ScratchStore, fixtures};
use settle_store::{
    Ask, Claims, DueMerchant, DueTime, Duty, Leases, NewDelivery, Presence, QueueDepth, Shard, ShardLease,
    StoreError, StoreResult,
};
use settle_testing::virtual_time::pass;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(10);
const ALL_SHARDS: usize = 64;
/// Longer than the dispatcher rests after any failure. It is virtual time.
const PATIENCE: Duration = Duration::from_mins(10);

/// What the queue has done.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Recorded(MerchantId),
    Refused(MerchantId),
}

/// A queue that refuses a merchant's outcomes, or claims.
struct Refusing {
    queue: StoreQueue,
    claims_fail: AtomicBool,
    refused: Mutex<Option<MerchantId>>,
    steps: mpsc::UnboundedSender<Step>,
}

impl Refusing {
    fn is_refused(&self, outcomes: &[Outcome]) -> Option<StoreError> {
        let refused = (*self.refused.lock().unwrap())?;
        let is_refused = outcomes.iter().any(|outcome| outcome.state.merchant_id == refused);
        is_refused.then(|| StoreError::unexpected("an outcome that is refused"))
    }

    fn tell(&self, outcomes: &[Outcome], step: fn(MerchantId) -> Step) {
        for outcome in outcomes {
            // The test may have seen enough.
            let _ = self.steps.send(step(outcome.state.merchant_id));
        }
    }
}

#[async_trait]
impl DeliveryQueue for Refusing {
    async fn due(
        &self,
        shards: &[Shard],
        due: DueTime,
        known: &[MerchantId],
        limit: u32,
    ) -> StoreResult<Vec<DueMerchant>> {
        self.queue.due(shards, due, known, limit).await
    }

    async fn claim(&self, asks: &[Ask], taken: &[DeliveryId], due: DueTime) -> StoreResult<Claims> {
        if self.claims_fail.load(Ordering::SeqCst) {
            return Err(StoreError::unexpected("permission denied for table webhook_endpoints"));
        }
        self.queue.claim(asks, taken, due).await
    }

    async fn record(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<RecordedOutcomes> {
        if let Some(error) = self.is_refused(outcomes) {
            return Err(error);
        }
        let recorded = self.queue.record(outcomes, at).await?;
        self.tell(outcomes, Step::Recorded);
        Ok(recorded)
    }

    async fn record_in_turn(&self, outcomes: &[Outcome], at: Timestamp) -> StoreResult<()> {
        if let Some(error) = self.is_refused(outcomes) {
            self.tell(outcomes, Step::Refused);
            return Err(error);
        }
        self.queue.record_in_turn(outcomes, at).await?;
        self.tell(outcomes, Step::Recorded);
        Ok(())
    }

    async fn refresh(&self, merchants: &[MerchantId], at: Timestamp) -> StoreResult<()> {
        self.queue.refresh(merchants, at).await
    }

    async fn depth(&self) -> StoreResult<QueueDepth> {
        self.queue.depth().await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        self.queue.wake_others(merchants).await
    }
}

/// The leases of a node whose share the test says.
struct Shares {
    leases: StoreLeases,
    share: AtomicUsize,
    released: mpsc::UnboundedSender<Shard>,
}

#[async_trait]
impl ShardLeases for Shares {
    async fn presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        self.leases.presence(keeper).await
    }

    async fn renew(&self, keeper: KeeperId, lease: Duration) -> StoreResult<Leases> {
        let leases = self.leases.renew(keeper, lease).await?;
        Ok(Leases { share: self.share.load(Ordering::SeqCst), ..leases })
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        self.leases.release(leases).await?;
        for lease in leases {
            let _ = self.released.send(lease.shard);
        }
        Ok(())
    }
}

/// Nobody has an endpoint here: that alone is the outcome.
struct Nowhere;

#[async_trait]
impl Transport for Nowhere {
    async fn attempt(&self, _url: &str, _notification: Notification) -> Result<Attempt, SendError> {
        Err(SendError::Network)
    }
}

/// A node that sends.
struct Node {
    store: ScratchStore,
    queue: Arc<Refusing>,
    shares: Arc<Shares>,
    steps: mpsc::UnboundedReceiver<Step>,
    released: mpsc::UnboundedReceiver<Shard>,
    standing: watch::Receiver<Standing>,
}

impl Node {
    async fn start() -> Node {
        let store = settle_store_sqlite::testing::scratch().await.migrated().await;
        let entropy = Arc::new(SeededEntropy::new(1));
        let queue = StoreQueue::new(store.share(), entropy, AlerterWake::default());
        let (told, steps) = mpsc::unbounded_channel();
        let queue = Arc::new(Refusing {
            queue,
            claims_fail: AtomicBool::new(false),
            refused: Mutex::default(),
            steps: told,
        });
        let (told, released) = mpsc::unbounded_channel();
        let leases = StoreLeases(store.share(), Duty::Dispatch);
        let shares = Arc::new(Shares { leases, share: AtomicUsize::new(ALL_SHARDS), released: told });
        let mut keeper =
            Keeper::new(shares.clone(), fixtures::unique_keeper_id(), Keeper::lease_min(TIMEOUT));
        let dispatcher = Dispatcher {
            queue: queue.clone(),
            transport: Arc::new(Nowhere),
            ring: Arc::new(KeyRing::parse(&"5e".repeat(32)).unwrap()),
            clock: Arc::new(ManualClock::at(fixtures::at(10))),
            wake: Wake::default(),
            settings: DispatchSettings {
                timeout: TIMEOUT,
                retry: RetryPolicy::default(),
                in_flight: InFlightLimits { total: 64, per_merchant: 8 },
                shutdown_timeout: TIMEOUT,
            },
        };
        let standing = keeper.standing();
        tokio::spawn(dispatcher.run(keeper.tenant(), std::future::pending()));
        tokio::spawn(keeper.run());
        Node { store, queue, shares, steps, released, standing }
    }

    /// Two merchants of one shard.
    async fn neighbours(&self) -> (MerchantId, MerchantId) {
        let one = fixtures::merchant(&*self.store).await;
        loop {
            let other = fixtures::merchant(&*self.store).await;
            if Shard::of(other) == Shard::of(one) {
                return (one, other);
            }
        }
    }

    /// A delivery of a merchant is due. The next look finds it.
    async fn notify(&self, merchant: MerchantId) {
        let id = SettlementId(fixtures::unique_uuid());
        fixtures::record(&*self.store, &[fixtures::settlement(merchant, id, fixtures::at(1))]).await;
        let delivery = NewDelivery { settlement_id: id, ..fixtures::delivery(merchant, fixtures::at(1)) };
        fixtures::enqueue(&*self.store, &[delivery]).await;
    }

    async fn until(&mut self, wanted: Step) {
        let found = timeout(PATIENCE, async {
            while self.steps.recv().await.expect("the dispatcher runs") != wanted {}
        });
        found.await.unwrap_or_else(|_| panic!("never: {wanted:?}"));
    }

    async fn until_released(&mut self, wanted: Shard) {
        let found = timeout(PATIENCE, async {
            while self.released.recv().await.expect("the keeper runs") != wanted {}
        });
        found.await.unwrap_or_else(|_| panic!("{wanted:?} is never given back"));
    }
}

/// Otherwise nobody would serve the others of its shard: here nothing starts any more, and nobody else has
/// it.
#[tokio::test(start_paused = true)]
async fn outcomes_that_are_refused_do_not_keep_a_shard_that_leaves() {
    let mut node = Node::start().await;
    let (refused, neighbour) = node.neighbours().await;
    *node.queue.refused.lock().unwrap() = Some(refused);
    node.notify(refused).await;
    node.until(Step::Refused(refused)).await;
    node.shares.share.store(0, Ordering::SeqCst);
    node.until_released(Shard::of(refused)).await;

    // This node gets it back, and might be any other.
    node.notify(neighbour).await;
    node.shares.share.store(ALL_SHARDS, Ordering::SeqCst);
    node.until(Step::Recorded(neighbour)).await;
    node.until(Step::Refused(refused)).await;
    *node.queue.refused.lock().unwrap() = None;
    node.until(Step::Recorded(refused)).await;
}

/// The lease is renewed and looks find who is due; and yet nobody is served.
#[tokio::test(start_paused = true)]
async fn a_dispatcher_that_can_never_claim_says_so_until_it_can() {
    let mut node = Node::start().await;
    node.standing.wait_for(|standing| *standing == Standing::Present).await.unwrap();
    pass(PATIENCE).await;
    assert_eq!(*node.standing.borrow(), Standing::Present, "it has nothing to do");

    let merchant = fixtures::merchant(&*node.store).await;
    node.queue.claims_fail.store(true, Ordering::SeqCst);
    node.notify(merchant).await;
    let is_failing = |standing: &Standing| matches!(standing, Standing::Failing(_));
    let failing = timeout(PATIENCE, node.standing.wait_for(is_failing)).await;
    let failing = *failing.expect("it fails").unwrap();
    pass(PATIENCE).await;
    assert_eq!(*node.standing.borrow(), failing, "since the first time");

    node.queue.claims_fail.store(false, Ordering::SeqCst);
    node.until(Step::Recorded(merchant)).await;
    let serving = node.standing.wait_for(|standing| *standing == Standing::Present);
    timeout(PATIENCE, serving).await.expect("it serves").unwrap();
}
