//! The keeper: it shows that the process lives, renews the lease on its shards, and hands shards over.
//!
//! One task renews every second and gives back what every tenant has let go of, one after the other. A second
//! one passes on what other processes say. Every call to the database has a limit, and the keeper makes a
//! call that failed again at its next renewal.

use std::sync::Arc;
use std::time::Duration;

use settle_domain::ids::KeeperId;
use settle_store::{CALL_TIMEOUT, Presence, StoreError, within};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::holdings::Holdings;
use crate::leases::ShardLeases;
use crate::tenancy::{Desk, Tenancy};

/// How often a keeper renews its lease, and so how soon it sees that another one has died.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// How long a leaving shard is kept at least, so that shards with and without work are given back together.
/// Otherwise the first keeper that asks would get all those without work, and the next all the others.
const RELEASE_WAIT: Duration = Duration::from_millis(200);
/// How long giving a shard back may take: a renewal waits for it, and the lease must not run out meanwhile.
const RELEASE_TIMEOUT: Duration = RENEW_INTERVAL;
/// How long giving everything back may take when the process stops.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_secs(5);

/// Where a keeper stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody is served yet: since then the keeper has been asking the database for the first time.
    Starting(Instant),
    /// Nobody is served: since then the keeper could not show that the process lives, or not renew.
    Absent(Instant),
    /// Another process serves, and this one takes over when that one ends.
    StandingBy,
    /// The shards that it holds are not served: since then something has failed that a tenant cannot do
    /// without.
    Failing(Instant),
    /// The shards that it holds are served.
    Present,
}

/// Holds shards for the tenants of this process.
pub struct Keeper {
    leases: Arc<dyn ShardLeases>,
    id: KeeperId,
    /// How long shards are held without being renewed.
    lease_duration: Duration,
    holdings: Holdings,
    /// When leaving shards may be given back.
    release_due: Instant,
    desks: Vec<Arc<Desk>>,
    /// A tenant has let go of shards.
    let_go: Arc<Notify>,
    /// A tenant has gone.
    gone: Arc<Notify>,
    standing: watch::Sender<Standing>,
}

impl Keeper {
    /// A keeper with an id of its own. The lease must outlast what its tenants do under it.
    #[must_use]
    pub fn new(leases: Arc<dyn ShardLeases>, id: KeeperId, lease_duration: Duration) -> Keeper {
        let now = Instant::now();
        Keeper {
            leases,
            id,
            lease_duration,
            holdings: Holdings::none(now),
            release_due: now,
            desks: Vec::new(),
            let_go: Arc::default(),
            gone: Arc::default(),
            standing: watch::Sender::new(Standing::Starting(now)),
        }
    }

    /// Where the keeper stands, now and later.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// The shortest lease under which work of the given duration always ends before the shard can change
    /// hands: a renewal may come late by a few intervals.
    #[must_use]
    pub fn lease_min(work: Duration) -> Duration {
        work + 5 * RENEW_INTERVAL
    }

    /// A place for one more tenant.
    pub fn tenant(&mut self) -> Tenancy {
        let (desk, tenancy) = Desk::open(self.let_go.clone(), self.gone.clone());
        self.desks.push(desk);
        tenancy
    }

    /// Holds shards until the last tenant has gone; then gives them back.
    pub async fn run(mut self) {
        let (desks, gone) = (self.desks.clone(), self.gone.clone());
        tokio::select! {
            biased;
            // Whatever the keeper waits for is dropped: a database that hangs does not hold up a stop.
            () = vacant(&desks, &gone) => {}
            () = self.work() => {}
        }
        self.give_back().await;
    }

    /// Shows that the process lives, and keeps its shards while it does; without an end.
    async fn work(&mut self) {
        loop {
            let shown = within(CALL_TIMEOUT, self.leases.presence(self.id)).await;
            // Counted from here: a sign that is lost later is shown again at once, before others notice.
            let next = Instant::now() + RENEW_INTERVAL;
            match shown {
                Ok(Some(presence)) => {
                    self.keep(presence).await;
                    self.stands(Standing::Absent(Instant::now()));
                }
                Ok(None) => self.stands(Standing::StandingBy),
                Err(error) => {
                    self.stands(Standing::Absent(Instant::now()));
                    warn(&error, "to show that the process lives");
                }
            }
            sleep_until(next).await;
        }
    }

    /// Renews, as long as the sign that the process lives stands.
    async fn keep(&mut self, presence: Box<dyn Presence>) {
        // A task of its own: what other processes say does not wait for a renewal.
        let mut listening = JoinSet::new();
        listening.spawn(listen(presence, self.desks.clone()));
        let let_go = self.let_go.clone();
        let mut renew_due = Instant::now();
        loop {
            let now = Instant::now();
            if renew_due <= now {
                self.renew(now).await;
                renew_due = Instant::now() + RENEW_INTERVAL;
            }
            if self.holdings.is_leaving() && self.release_due <= Instant::now() {
                self.release().await;
            }
            let is_waiting = self.holdings.is_leaving() && self.release_due > Instant::now();
            let next = if is_waiting { renew_due.min(self.release_due) } else { renew_due };
            tokio::select! {
                biased;
                Some(lost) = listening.join_next() => {
                    match lost.map_err(JoinError::try_into_panic) {
                        Ok(error) => warn(&error, "to stay present"),
                        // A panic is passed on: the keeper ends with it, and the process with the keeper.
                        Err(Ok(panic)) => std::panic::resume_unwind(panic),
                        // The runtime shuts down.
                        Err(Err(_)) => {}
                    }
                    return;
                }
                () = let_go.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    async fn renew(&mut self, asked_at: Instant) {
        match within(CALL_TIMEOUT, self.leases.renew(self.id, self.lease_duration)).await {
            Ok(leases) => {
                let (earlier, was_leaving) = (self.holdings.clone(), self.holdings.is_leaving());
                self.holdings.renew(&leases, asked_at, self.lease_duration);
                if self.holdings.is_leaving() && !was_leaving {
                    self.release_due = Instant::now() + RELEASE_WAIT;
                }
                if self.holdings.has_gained(&earlier) {
                    tracing::info!(shards = leases.held.len(), share = leases.share, "shards are served");
                }
                self.publish();
                let failing = self.desks.iter().filter_map(|desk| desk.fails_since()).min();
                self.stands(failing.map_or(Standing::Present, Standing::Failing));
            }
            Err(error) => {
                self.stands(Standing::Absent(Instant::now()));
                warn(&error, "to renew the lease");
            }
        }
    }

    /// Takes note of where it stands. A keeper that stays absent has been so since the first time, and one
    /// that fails when it starts since it started.
    fn stands(&self, now: Standing) {
        let changed = self.standing.send_if_modified(|standing| {
            let next = match (*standing, now) {
                (Standing::Starting(since) | Standing::Absent(since), Standing::Absent(_)) => {
                    Standing::Absent(since)
                }
                (_, now) => now,
            };
            std::mem::replace(standing, next) != next
        });
        if changed && now == Standing::StandingBy {
            tracing::warn!(
                "another process does this work on this database: this one stands by, and works when that one ends"
            );
        }
    }

    /// Gives back what every tenant has let go of. Nothing renews meanwhile, so that a shard that is being
    /// given back cannot stay after all.
    async fn release(&mut self) {
        let desks = &self.desks;
        let leases =
            self.holdings.to_release(|departure| desks.iter().all(|desk| desk.has_let_go(departure)));
        if leases.is_empty() {
            return;
        }
        match within(RELEASE_TIMEOUT, self.leases.release(&leases)).await {
            Ok(()) => {
                self.holdings.released(&leases);
                self.publish();
            }
            Err(error) => {
                self.release_due = Instant::now() + RENEW_INTERVAL;
                warn(&error, "to give shards back");
            }
        }
    }

    fn publish(&self) {
        let holdings = Arc::new(self.holdings.clone());
        for desk in &self.desks {
            desk.tell_holdings(holdings.clone());
        }
    }

    async fn give_back(&self) {
        let leases = self.holdings.all();
        if leases.is_empty() {
            return;
        }
        if let Err(error) = within(GIVE_BACK_TIMEOUT, self.leases.release(&leases)).await {
            tracing::warn!(%error, "shards were not given back: they are free when the lease ends");
        }
    }
}

/// Passes on what other processes say, until the sign that this process lives is gone.
async fn listen(mut presence: Box<dyn Presence>, desks: Vec<Arc<Desk>>) -> StoreError {
    loop {
        match presence.woken().await {
            Ok(merchants) => desks.iter().for_each(|desk| desk.tell_heard(&merchants)),
            Err(error) => return error,
        }
    }
}

/// When every tenant has gone.
async fn vacant(desks: &[Arc<Desk>], gone: &Notify) {
    while !desks.iter().all(|desk| desk.has_gone()) {
        gone.notified().await;
    }
}

fn warn(error: &StoreError, what: &str) {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(%error, cause, "the keeper of shards failed {what}");
}
