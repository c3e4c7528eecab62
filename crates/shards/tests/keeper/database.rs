//! A database that the test answers for.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{KeeperId, MerchantId};
use settle_shards::keeper::Keeper;
use settle_shards::leases::ShardLeases;
use settle_store::{LeaseToken, Leases, Presence, Shard, ShardLease, StoreError, StoreResult};
use tokio::sync::mpsc;
use tokio::time::Instant;
use uuid::Uuid;

const LEASE: Duration = Duration::from_secs(15);

/// What other processes say, or that the sign of life is gone.
pub type Heard = StoreResult<Vec<MerchantId>>;

/// Four shards, of which the keeper holds those that it has not given back.
pub struct Database {
    share: AtomicUsize,
    released: Mutex<BTreeSet<Shard>>,
    pub hangs: AtomicBool,
    /// Whether another process serves.
    pub is_taken: AtomicBool,
    pub presences: AtomicUsize,
    /// Whether the next sign of life gets no answer.
    pub is_silent: AtomicBool,
    /// Whether listening to other processes panics.
    pub is_broken: AtomicBool,
    heard: Mutex<Option<mpsc::UnboundedReceiver<Heard>>>,
    /// Whether shards cannot be given back.
    pub keeps_all: AtomicBool,
    /// When somebody tried to give shards back.
    given_back: Mutex<Vec<Instant>>,
}

struct Broken;

#[async_trait]
impl Presence for Broken {
    async fn woken(&mut self) -> Heard {
        panic!("a fault of ours");
    }
}

struct Sign(mpsc::UnboundedReceiver<Heard>);

#[async_trait]
impl Presence for Sign {
    async fn woken(&mut self) -> Heard {
        match self.0.recv().await {
            Some(heard) => heard,
            None => std::future::pending().await,
        }
    }
}

#[async_trait]
impl ShardLeases for Database {
    async fn presence(&self, _keeper: KeeperId) -> StoreResult<Option<Box<dyn Presence>>> {
        if self.is_silent.swap(false, Ordering::SeqCst) {
            return std::future::pending().await;
        }
        if self.is_taken.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.presences.fetch_add(1, Ordering::SeqCst);
        if self.is_broken.load(Ordering::SeqCst) {
            return Ok(Some(Box::new(Broken)));
        }
        let heard = self.heard.lock().unwrap().take();
        let heard = heard.unwrap_or_else(|| mpsc::unbounded_channel().1);
        Ok(Some(Box::new(Sign(heard))))
    }

    async fn renew(&self, _keeper: KeeperId, _lease: Duration) -> StoreResult<Leases> {
        if self.hangs.load(Ordering::SeqCst) {
            return std::future::pending().await;
        }
        let released = self.released.lock().unwrap().clone();
        let held = (0..4).map(Shard).filter(|shard| !released.contains(shard));
        let held = held.map(|shard| ShardLease { shard, token: LeaseToken(Uuid::nil()) }).collect();
        Ok(Leases { held, share: self.share.load(Ordering::SeqCst) })
    }

    async fn release(&self, leases: &[ShardLease]) -> StoreResult<()> {
        self.given_back.lock().unwrap().push(Instant::now());
        if self.keeps_all.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("it is read-only".into()));
        }
        self.released.lock().unwrap().extend(leases.iter().map(|lease| lease.shard));
        Ok(())
    }
}

impl Database {
    pub fn new() -> (Arc<Database>, mpsc::UnboundedSender<Heard>) {
        let (says, heard) = mpsc::unbounded_channel();
        let database = Database {
            share: AtomicUsize::new(4),
            released: Mutex::default(),
            hangs: AtomicBool::new(false),
            is_taken: AtomicBool::new(false),
            presences: AtomicUsize::new(0),
            is_silent: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            heard: Mutex::new(Some(heard)),
            keeps_all: AtomicBool::new(false),
            given_back: Mutex::default(),
        };
        (Arc::new(database), says)
    }

    pub fn keeper(self: &Arc<Database>) -> Keeper {
        Keeper::new(self.clone(), KeeperId(Uuid::from_u128(1)), LEASE)
    }

    pub fn share(&self, share: usize) {
        self.share.store(share, Ordering::SeqCst);
    }

    pub fn released(&self) -> Vec<Shard> {
        self.released.lock().unwrap().iter().copied().collect()
    }

    /// When shards were given back, or somebody tried to.
    pub fn given_back(&self) -> Vec<Instant> {
        self.given_back.lock().unwrap().clone()
    }
}
