//! One seed: merchants settle and change their endpoints; the dispatcher dies and comes back.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use settle_domain::delivery::{DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::{KeeperId, MerchantId, SettlementId};
use settle_domain::page::PageRequest;
use settle_domain::seams::{Clock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_domain::vault::KeyRing;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::alerts::AlerterWake;
use settle_notify::dispatcher::lanes::InFlightLimits;
use settle_notify::dispatcher::queue::StoreQueue;
use settle_notify::dispatcher::{DispatchSettings, Dispatcher};
use settle_outbox::Outbox;
use settle_outbox::wake::Wake;
use settle_shards::keeper::Keeper;
use settle_shards::leases::StoreLeases;
use settle_store::conformance::fixtures;
use settle_store::{DueTime, Duty, Merchant, Store};
use settle_testing::virtual_time::pass;
use tokio::sync::{Mutex, Notify};
use tokio::time::{Instant, timeout};

use crate::endpoint::Endpoints;
use crate::faults::{Database, exclusive};
use crate::world::{Tracked, World};

/// The folder of the database: memory that looks like a disk, if the machine has it.
const SHARED_MEMORY: &str = "/dev/shm";
/// Deliveries that one step of a clearing ends.
const CLEARING_STEP: u32 = 2;

/// The times of a run.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    retry: RetryPolicy,
    timeout: Duration,
    /// How long merchants are active.
    active: Duration,
    /// The time by which every delivery must have ended.
    limit: Duration,
}

impl Scenario {
    /// A schedule of the same shape that fits into a few seconds.
    pub const SHORT: Scenario = Scenario {
        retry: RetryPolicy {
            retry_first: Duration::from_millis(60),
            retry_max: Duration::from_millis(900),
            attempts_max: 8,
        },
        timeout: Duration::from_millis(250),
        active: Duration::from_millis(1_500),
        limit: Duration::from_mins(10),
    };
    /// The schedule of the contract.
    pub const REAL: Scenario = Scenario {
        retry: RetryPolicy {
            retry_first: Duration::from_mins(1),
            retry_max: Duration::from_hours(1),
            attempts_max: 8,
        },
        timeout: Duration::from_secs(10),
        active: Duration::from_mins(5),
        limit: Duration::from_hours(24),
    };
}

/// Runs seeds one after the other on one database, and names the one that fails.
pub fn run_seeds(seeds: Range<u64>, scenario: Scenario) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let folder = tempfile::tempdir_in(SHARED_MEMORY).or_else(|_| tempfile::tempdir()).expect("a folder");
        let url = format!("sqlite://{}", folder.path().join("settle.db").display());
        let store: Arc<dyn Store> = Arc::new(settle_store_sqlite::SqliteStore::new(&url).expect("a URL"));
        let turn = Arc::new(Mutex::new(()));
        let migrating = store.clone();
        exclusive(&turn, async move { migrating.migrate().await }).await.expect("an empty database");
        let (are_many, mut unclaimed_sends) = (seeds.clone().count() > 1, 0);
        for seed in seeds {
            let simulation = Simulation::new(seed, scenario, store.clone(), turn.clone());
            let world = simulation.world.clone();
            // In a task of its own, so that a failure is reported with its seed and its story.
            if let Err(fault) = tokio::spawn(simulation.run()).await {
                panic!("seed {seed} fails: {fault}\n{}", world.story());
            }
            unclaimed_sends += world.known().unclaimed_sends;
        }
        assert!(unclaimed_sends > 0 || !are_many, "nothing that was handed over was sent without a claim");
    });
}

struct Simulation {
    scenario: Scenario,
    world: Arc<World>,
    store: Arc<dyn Store>,
    turn: Arc<Mutex<()>>,
    ring: Arc<KeyRing>,
    entropy: Arc<SeededEntropy>,
    wake: Wake,
    merchants: Vec<MerchantId>,
}

impl Simulation {
    fn new(seed: u64, scenario: Scenario, store: Arc<dyn Store>, turn: Arc<Mutex<()>>) -> Simulation {
        Simulation {
            scenario,
            world: Arc::new(World::new(seed, scenario.retry)),
            store,
            turn,
            ring: Arc::new(KeyRing::parse(&"5e".repeat(32)).expect("a key")),
            entropy: Arc::new(SeededEntropy::new(seed)),
            wake: Wake::default(),
            merchants: Vec::new(),
        }
    }

    async fn run(mut self) {
        for _ in 0..=self.world.chance.below(3) {
            self.add_merchant().await;
        }
        let this = Arc::new(self);
        let living = tokio::spawn(this.clone().live());
        let limit = this.scenario.limit;
        let over = timeout(limit, this.keep_dispatching(&living)).await;
        over.unwrap_or_else(|_| panic!("not everything has come to its end within {limit:?}"));
        this.world.check_end();
        this.compare().await;
    }

    /// A part of the database, with the faults of this life.
    fn database<Part>(&self, part: Part) -> Database<Part> {
        let (turn, world) = (self.turn.clone(), self.world.clone());
        let life = world.known().crashes;
        Database { part: Arc::new(part), turn, world, life }
    }

    /// A process that sends: the keeper of shards, and the dispatcher, which is its tenant.
    async fn process(&self, stopping: impl Future<Output = ()> + Send) {
        let id = KeeperId::new(self.world.clock.now(), &*self.entropy);
        let leases = Arc::new(self.database(StoreLeases(self.store.clone(), Duty::Dispatch)));
        let mut keeper = Keeper::new(leases, id, Keeper::lease_min(self.scenario.timeout));
        let tenancy = keeper.tenant();
        tokio::join!(keeper.run(), self.dispatcher().run(tenancy, stopping));
    }

    fn dispatcher(&self) -> Dispatcher {
        let queue = StoreQueue::new(self.store.clone(), self.entropy.clone(), AlerterWake::default());
        Dispatcher {
            queue: Arc::new(self.database(queue)),
            transport: Arc::new(Endpoints { world: self.world.clone(), timeout: self.scenario.timeout }),
            ring: self.ring.clone(),
            clock: self.world.clock.clone(),
            wake: self.wake.clone(),
            settings: DispatchSettings {
                timeout: self.scenario.timeout,
                retry: self.scenario.retry,
                in_flight: InFlightLimits { total: 12, per_merchant: 6 },
                shutdown_timeout: 2 * self.scenario.timeout,
            },
        }
    }

    /// Starts the dispatcher again whenever it has died or stopped, until every delivery has ended.
    async fn keep_dispatching(&self, living: &tokio::task::JoinHandle<()>) {
        while !(living.is_finished() && self.world.is_over()) {
            let stop = Notify::new();
            let lifetime = self.world.chance.up_to(Duration::from_secs(8));
            let over = async {
                while !(living.is_finished() && self.world.is_over()) {
                    pass(Duration::from_millis(100)).await;
                }
            };
            let stopping = async {
                tokio::select! {
                    biased;
                    () = over => {}
                    () = pass(lifetime) => {}
                    () = stop.notified() => {}
                }
            };
            tokio::select! {
                    biased;
                () = self.process(stopping) => self.world.tell("the dispatcher has stopped"),
                () = self.world.crash.notified() => {}
            }
            self.world.crashed();
            pass(self.world.chance.up_to(Duration::from_millis(300))).await;
        }
    }

    /// What merchants and the service do meanwhile.
    async fn live(self: Arc<Self>) {
        let chance = &self.world.chance;
        let until = Instant::now() + self.scenario.active;
        while Instant::now() < until {
            pass(chance.up_to(self.scenario.active / 4)).await;
            if self.world.has_steps && chance.once_in(2) {
                self.step_clock();
            }
            let merchant = *chance.pick(&self.merchants);
            match chance.below(11) {
                0..=5 => self.settle(merchant).await,
                6 => self.set_endpoint(merchant).await,
                7 => self.clear_endpoint(merchant).await,
                8 => self.end_some(merchant, CLEARING_STEP).await,
                _ => self.redeliver(merchant).await,
            }
        }
        self.world.clock.step(0);
        self.world.tell("the clock is right");
    }

    /// Somebody sets the clock: a moment, an hour or a day ahead or behind, or right again.
    fn step_clock(&self) {
        const SECOND: i64 = 1_000_000;
        let steps = [0, 1, 3_600, 86_400].map(|seconds| seconds * SECOND);
        let ahead = *self.world.chance.pick(&steps);
        let ahead = if self.world.chance.once_in(2) { ahead } else { -ahead };
        self.world.clock.step(ahead);
        self.world.tell(format_args!("the clock is {} s ahead", ahead / SECOND));
    }

    async fn add_merchant(&mut self) {
        let merchant_id = MerchantId::new(self.world.clock.now(), &*self.entropy);
        let merchant = Merchant { merchant_id, name: "m".to_owned(), created_at: self.world.clock.now() };
        let store = self.store.clone();
        exclusive(&self.turn, async move {
            let mut tx = store.begin().await.expect("a transaction");
            tx.merchant_create(&merchant).await.expect("a new merchant");
            tx.commit().await.expect("a commit");
        })
        .await;
        self.merchants.push(merchant_id);
        self.set_endpoint(merchant_id).await;
    }

    /// Completes settlements, which enqueues their notifications. The dispatcher gets the deliveries at once
    /// or late, or only the merchant, or no hint at all.
    async fn settle(&self, merchant: MerchantId) {
        let (store, world, entropy) = (self.store.clone(), self.world.clone(), self.entropy.clone());
        let number = 1 + self.world.chance.below(4);
        let (is_handed_over, is_told) = (self.world.chance.once_in(2), !self.world.chance.once_in(4));
        let delay = self.world.chance.up_to(Duration::from_millis(200));
        let delay = if self.world.chance.once_in(2) { delay } else { Duration::ZERO };
        let wake = self.wake.clone();
        let handed_over = exclusive(&self.turn, async move {
            let now = world.clock.now();
            let id = |_| SettlementId::new(now, &*entropy);
            let settlements: Vec<_> =
                (0..number).map(id).map(|id| fixtures::settlement(merchant, id, now)).collect();
            let outbox =
                Outbox::of_service(store.clone(), wake.clone(), world.clock.clone(), entropy.clone());
            let mut work = outbox.begin().await.expect("a transaction");
            let lock = work.merchant_lock(&[merchant]).await.expect("a lock");
            let completed = work.complete(&lock, &settlements).await.expect("recorded");
            let untold = work.commit_untold(&wake).await.expect("a commit");
            world.tell(format_args!("{number} settlements, {} notifications", completed.notifications));
            track(&*store, &world, merchant, &settlements).await;
            let is_handed_over = is_handed_over && is_told && completed.notifications > 0;
            is_handed_over.then(|| {
                world.handed_over(merchant, untold.deliveries());
                untold
            })
        })
        .await;
        match handed_over {
            Some(untold) => {
                pass(delay).await;
                untold.tell(&self.wake);
            }
            None if is_told => self.wake.merchants([merchant]),
            None => {}
        }
    }

    async fn set_endpoint(&self, merchant: MerchantId) {
        let text = format!("whsec-{}", self.world.chance.below(u64::MAX));
        let secret = WebhookSecret::parse(text.clone()).expect("a secret");
        let sealed = self.ring.seal(merchant, &secret, &*self.entropy);
        let endpoint = Endpoint { url: "https://merchant.example/".to_owned(), secret: sealed };
        let (store, world) = (self.store.clone(), self.world.clone());
        exclusive(&self.turn, async move {
            fixtures::put_endpoint(&*store, merchant, &endpoint).await;
            world.tell("a secret is set");
            world.known().secrets.insert(merchant, Some(text));
        })
        .await;
    }

    async fn clear_endpoint(&self, merchant: MerchantId) {
        let (store, world) = (self.store.clone(), self.world.clone());
        exclusive(&self.turn, async move {
            let now = world.clock.now();
            let at_once = u32::try_from(world.chance.below(4)).expect("a small number");
            let ended = fixtures::clear_endpoint_but(&*store, merchant, now, at_once).await;
            world.tell(format_args!("an endpoint is cleared: {ended:?}"));
            let mut known = world.known();
            known.secrets.insert(merchant, None);
            for tracked in known.deliveries.values_mut().filter(|tracked| tracked.merchant == merchant) {
                let _ = tracked.state.apply(DeliveryEvent::EndpointGone, now, &world.retry);
            }
        })
        .await;
    }

    /// Takes a step of a clearing. To [`World`] what waits for it is dead already: it must not be sent.
    async fn end_some(&self, merchant: MerchantId, ended_max: u32) {
        let (store, world) = (self.store.clone(), self.world.clone());
        exclusive(&self.turn, async move {
            let step = fixtures::clearing_step(&*store, merchant, ended_max).await;
            world.tell(format_args!("a step of a clearing: {step:?}"));
        })
        .await;
    }

    async fn redeliver(&self, merchant: MerchantId) {
        let (store, world, wake) = (self.store.clone(), self.world.clone(), self.wake.clone());
        exclusive(&self.turn, async move {
            let dead: Vec<_> = world
                .known()
                .deliveries
                .values()
                .filter(|tracked| {
                    tracked.merchant == merchant && tracked.state.status == DeliveryStatus::Dead
                })
                .map(|tracked| tracked.state.delivery_id)
                .collect();
            for id in dead {
                let now = world.clock.now();
                let Some(requeued) = fixtures::requeue(&*store, merchant, id, now).await else {
                    let left = store.clearing_left(1_000).await.expect("the clearings");
                    assert!(left.merchants.contains(&merchant), "{id} is dead, and no step is left to take");
                    continue;
                };
                world.tell(format_args!("redelivery of {id} is asked for"));
                let mut known = world.known();
                let tracked = known.deliveries.get_mut(&id).expect("it is tracked");
                tracked.state.apply(DeliveryEvent::RedeliveryAsked, now, &world.retry).expect("it is dead");
                assert_eq!(tracked.state, requeued);
            }
            wake.merchants([merchant]);
        })
        .await;
    }

    async fn has_clearing(&self, merchant: MerchantId) -> bool {
        let store = self.store.clone();
        let left = exclusive(&self.turn, async move { store.clearing_left(1_000).await }).await;
        left.expect("the clearings").merchants.contains(&merchant)
    }

    /// The database shows every delivery as [`World`] tracked it, and operations hear of each death.
    async fn compare(&self) {
        let store = self.store.clone();
        let alerted: u64 = exclusive(&self.turn, async move {
            let mut tx = store.begin().await.expect("a transaction");
            let alerts =
                tx.alert_take(DueTime::by(Timestamp::MAX), Timestamp::MAX, 1_000).await.expect("alerts");
            let ids: Vec<_> = alerts.iter().map(|alert| (alert.merchant_id, alert.alert_id)).collect();
            tx.alert_sent(&ids, Timestamp::MAX).await.expect("sent");
            tx.commit().await.expect("a commit");
            alerts.iter().map(|alert| alert.occurrences).sum()
        })
        .await;
        assert_eq!(alerted, u64::try_from(self.world.known().deaths).expect("few"));
        for merchant in &self.merchants {
            while self.has_clearing(*merchant).await {
                self.end_some(*merchant, CLEARING_STEP).await;
            }
            let (store, merchant_id) = (self.store.clone(), *merchant);
            let rows = exclusive(&self.turn, async move { all_deliveries(&*store, merchant_id).await }).await;
            let known = self.world.known();
            let own = known.deliveries.values().filter(|tracked| tracked.merchant == *merchant);
            assert_eq!(rows.len(), own.count());
            for row in rows {
                assert_eq!(known.deliveries[&row.delivery_id].state, row);
            }
        }
    }
}

/// Tracks the enqueued deliveries.
async fn track(
    store: &dyn Store,
    world: &World,
    merchant: MerchantId,
    settlements: &[settle_store::NewSettlement],
) {
    for row in all_deliveries(store, merchant).await {
        let Some(settlement) = settlements.iter().find(|new| new.settlement_id == row.settlement_id) else {
            continue;
        };
        let body = settlement.record.notification(row.event_type);
        let tracked = Tracked { merchant, body, answered: false, reached: 0, spent: 0, state: row };
        world.known().deliveries.insert(tracked.state.delivery_id, tracked);
    }
}

async fn all_deliveries(store: &dyn Store, merchant: MerchantId) -> Vec<settle_domain::delivery::Delivery> {
    let mut rows = Vec::new();
    loop {
        let offset = u32::try_from(rows.len()).expect("a short list");
        let page = store.delivery_page(merchant, None, PageRequest::new(200, offset).expect("a page"));
        let page = page.await.expect("a page");
        rows.extend(page.rows);
        if u64::try_from(rows.len()).expect("a short list") >= page.total {
            return rows;
        }
    }
}
