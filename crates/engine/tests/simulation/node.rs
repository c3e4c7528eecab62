//! A node: the real engine with the real writer and the real keeper of shards, until it dies.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use settle_domain::ids::{KeeperId, MerchantId};
use settle_domain::operation::Backoff;
use settle_domain::seams::{Clock, SeededEntropy};
use settle_domain::time::Timestamp;
use settle_engine::life::{Corridors, Means};
use settle_engine::providers::{Providers, Station};
use settle_engine::runner::{Engine, SHUTDOWN_TIMEOUT};
use settle_engine::wake::EngineWake;
use settle_engine::writer::Writer;
use settle_outbox::wake::Wake;
use settle_outbox::{Faults, Outbox};
use settle_provider::provider::Provider;
use settle_provider::seen::{NotSentFault, Seen};
use settle_provider::wire::{Capabilities, Operation, OperationKind, OperationPage, Quote, QuoteRequest};
use settle_shards::keeper::Keeper;
use settle_shards::leases::{ShardLeases, StoreLeases};
use settle_store::{Duty, Leases, Presence, Shard, ShardLease, StoreError, StoreResult};
use settle_testing::virtual_time::pass;
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use crate::liar::Liar;
use crate::world::World;

/// How long the engine waits between tries.
const WAITS: Backoff = Backoff { first: Duration::from_millis(150), longest: Duration::from_secs(1) };
const LEASE: Duration = Duration::from_mins(1);
/// How long a node is away after it has died, at most.
const AWAY_MAX: Duration = Duration::from_secs(1);

/// One life of a process. It dies before or after any of its commits and calls.
pub struct Life {
    name: String,
    world: Arc<World>,
    /// Whether it dies at all.
    is_mortal: bool,
    is_dead: AtomicBool,
    death: Notify,
}

impl Life {
    pub fn new(name: String, world: Arc<World>, is_mortal: bool) -> Arc<Life> {
        Arc::new(Life { name, world, is_mortal, is_dead: AtomicBool::new(false), death: Notify::new() })
    }

    /// It may die here. Says whether it is dead.
    fn dies(&self, times: u64, where_: &str) -> bool {
        if self.is_mortal && self.world.fault(times) && !self.is_dead.swap(true, Ordering::Relaxed) {
            self.world.tell(format_args!("{} dies {where_}", self.name));
            self.death.notify_one();
        }
        self.is_dead.load(Ordering::Relaxed)
    }

    fn unavailable(&self, what: &str) -> StoreResult<()> {
        self.world.tell(format_args!("{}: {what}", self.name));
        Err(StoreError::Unavailable(what.to_owned().into()))
    }
}

impl Faults for Life {
    fn begins(&self) -> StoreResult<()> {
        if self.is_dead.load(Ordering::Relaxed) {
            return self.unavailable("is dead");
        }
        if self.world.fault(60) { self.unavailable("the database is away") } else { Ok(()) }
    }

    fn commits(&self) -> StoreResult<()> {
        if self.dies(60, "before a commit") {
            return self.unavailable("is dead");
        }
        if self.world.fault(60) {
            return self.unavailable("a commit fails");
        }
        if self.world.fault(150) {
            self.world.tell(format_args!("{}: a commit is refused", self.name));
            return Err(StoreError::unexpected("refused"));
        }
        Ok(())
    }

    fn committed(&self) -> StoreResult<()> {
        self.world.committed.notify_one();
        if self.dies(60, "after a commit") {
            return self.unavailable("is dead");
        }
        if self.world.fault(30) { self.unavailable("the answer to a commit is lost") } else { Ok(()) }
    }
}

/// The way from a node to a provider: the node may die before its request leaves, or before it has read the
/// answer.
struct Line {
    life: Arc<Life>,
    liar: Arc<Liar>,
}

impl Line {
    async fn ask<T>(&self, asked: impl Future<Output = T>) -> T {
        if self.life.dies(60, "before a call") {
            return pending().await;
        }
        let seen = asked.await;
        if self.life.dies(40, "before it has read an answer") {
            return pending().await;
        }
        seen
    }
}

#[async_trait]
impl Provider for Line {
    async fn quote(&self, request: &QuoteRequest, _at: Timestamp) -> Seen<Quote> {
        self.ask(async { self.liar.quote(request) }).await
    }

    async fn send(&self, kind: OperationKind, id: Uuid, body: Bytes, at: Timestamp) -> Seen<Operation> {
        self.ask(self.liar.send(kind, id, body, at)).await
    }

    async fn look_up(&self, id: Uuid, at: Timestamp) -> Seen<Operation> {
        self.ask(self.liar.look_up(id, at)).await
    }

    async fn void(&self, id: Uuid, at: Timestamp) -> Seen<Operation> {
        self.ask(self.liar.void(id, at)).await
    }

    async fn changes(&self, _since: Timestamp, _after: Option<&str>, _at: Timestamp) -> Seen<OperationPage> {
        Seen::NotSent(NotSentFault::Dns)
    }

    async fn capabilities(&self, _at: Timestamp) -> Seen<Capabilities> {
        self.ask(async { self.liar.capabilities() }).await
    }
}

/// What an engine, or an operator's API, works with.
pub fn means(
    life: &Arc<Life>,
    liars: &[Arc<Liar>],
    clock: &Arc<dyn Clock>,
    entropy: &Arc<SeededEntropy>,
    wake: &EngineWake,
) -> Means {
    let world = &life.world;
    let outbox = Outbox::of_service(world.store.clone(), Wake::default(), clock.clone(), entropy.clone());
    let outbox = outbox.with_faults(life.clone());
    let station = |liar: &Arc<Liar>| {
        let way = Arc::new(Line { life: life.clone(), liar: liar.clone() });
        Station::new(liar.name().parse().expect("a name"), way, clock.clone(), Duration::from_hours(24))
    };
    Means {
        store: world.store.clone(),
        writer: Writer::start(outbox, wake.clone(), clock.clone()),
        providers: Providers::new(liars.iter().map(station)),
        clock: clock.clone(),
        waits: WAITS,
        corridors: Corridors::default(),
        answer_wait: Duration::from_secs(10),
    }
}

/// Which node has the shards, where the database knows only one.
#[derive(Default)]
pub struct Tenure {
    inner: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// The node that should have them.
    holder: usize,
    /// Whether it takes them at once, also from a node that lives and does not know.
    takes_by_force: bool,
    /// Who has them, and as which keeper.
    held: Option<(usize, KeeperId, Vec<ShardLease>)>,
}

impl Tenure {
    pub fn moves_to(&self, node: usize, by_force: bool) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (inner.holder, inner.takes_by_force) = (node, by_force);
    }

    /// The node has died: what it had is free.
    fn forget(&self, node: usize) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.held.take_if(|(held_by, ..)| *held_by == node);
    }
}

/// The leases of one node. On SQLite the simulation decides who has the shards, and the tokens are real.
struct NodeLeases {
    node: usize,
    world: Arc<World>,
    /// None where the database itself shares shards among nodes.
    tenure: Option<Arc<Tenure>>,
}

struct Alone;

#[async_trait]
impl Presence for Alone {
    async fn woken(&mut self) -> StoreResult<Vec<MerchantId>> {
        pending().await
    }
}

#[async_trait]
impl ShardLeases for NodeLeases {
    async fn presence(&self, keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        match self.tenure {
            Some(_) => Ok(Some(Box::new(Alone))),
            None => self.world.store.presence(keeper, Duty::Engine).await,
        }
    }

    async fn renew(&self, keeper: KeeperId, lease: Duration) -> StoreResult<Leases> {
        if self.world.fault(10) {
            return Err(StoreError::Unavailable("the database is away".into()));
        }
        let real = StoreLeases(self.world.store.clone(), Duty::Engine);
        let Some(tenure) = &self.tenure else { return real.renew(keeper, lease).await };
        let (is_holder, has, may_take) = {
            let inner = tenure.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let has = inner.held.as_ref().filter(|(_, held_by, _)| *held_by == keeper);
            let may_take = inner.held.is_none() || has.is_some() || inner.takes_by_force;
            (inner.holder == self.node, has.map(|(_, _, leases)| leases.clone()), may_take)
        };
        // The shards of those merchants that there are: a node with fewer is cheaper to simulate.
        let shards: BTreeSet<Shard> = self.world.merchants().into_iter().map(Shard::of).collect();
        let has_all = |held: &Vec<ShardLease>| held.len() == shards.len();
        match has {
            Some(held) if has_all(&held) || !is_holder => {
                let share = if is_holder { held.len() } else { 0 };
                Ok(Leases { held, share })
            }
            _ if is_holder && may_take => {
                let mut leases = real.renew(keeper, lease).await?;
                leases.held.retain(|lease| shards.contains(&lease.shard));
                leases.share = shards.len();
                self.world.tell(format_args!("node {} has the shards", self.node));
                let mut inner = tenure.inner.lock().unwrap_or_else(PoisonError::into_inner);
                inner.held = Some((self.node, keeper, leases.held.clone()));
                Ok(leases)
            }
            _ => Ok(Leases { held: Vec::new(), share: 0 }),
        }
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        StoreLeases(self.world.store.clone(), Duty::Engine).release(leases).await?;
        if let Some(tenure) = &self.tenure {
            let mut inner = tenure.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let mut is_empty = false;
            if let Some((_, _, held)) = &mut inner.held {
                held.retain(|lease| !leases.contains(lease));
                is_empty = held.is_empty();
            }
            if is_empty {
                self.world.tell(format_args!("node {} has given its shards back", self.node));
                inner.held = None;
            }
        }
        Ok(())
    }
}

/// A place where one process after the other runs.
pub struct Node {
    pub number: usize,
    pub world: Arc<World>,
    pub liars: Vec<Arc<Liar>>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<SeededEntropy>,
    pub wake: EngineWake,
    pub tenure: Option<Arc<Tenure>>,
    pub stop: watch::Receiver<bool>,
}

impl Node {
    /// Starts a process again whenever one has died, until it is told to stop.
    pub async fn run(self) {
        let (world, number) = (self.world.clone(), self.number);
        let mut lives = 0;
        loop {
            lives += 1;
            let life = Life::new(format!("node {number}.{lives}"), world.clone(), true);
            let id = KeeperId::new(world.right.now(), &*self.entropy);
            let tenure = self.tenure.clone();
            let leases = Arc::new(NodeLeases { node: number, world: world.clone(), tenure });
            let mut keeper = Keeper::new(leases, id, LEASE);
            let tenancy = keeper.tenant();
            let means = means(&life, &self.liars, &self.clock, &self.entropy, &self.wake);
            let engine = Engine { means, wake: self.wake.clone(), shutdown_timeout: SHUTDOWN_TIMEOUT };
            let mut stop = self.stop.clone();
            let stopped = async move {
                let _ = stop.wait_for(|stop| *stop).await;
            };
            let is_stopped = tokio::select! {
                biased;
                () = life.death.notified() => false,
                _ = async { tokio::join!(keeper.run(), engine.run(tenancy, stopped)) } => true,
            };
            if let Some(tenure) = &self.tenure {
                tenure.forget(number);
            }
            if is_stopped {
                return;
            }
            pass(world.chance.up_to(AWAY_MAX)).await;
        }
    }
}
