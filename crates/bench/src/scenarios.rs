//! The measurements, one file for each scenario.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use settle_domain::delivery::DeliveryStatus;
use settle_store::DeliveryFilter;
use settle_wiring::Context;
use tokio::sync::watch;

use crate::arrivals::{Arrivals, receive};
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::plot::{Arrived, Latencies};
use crate::process::cpu_seconds;
use crate::progress::Progress;
use crate::scratch::{Scratch, Shop, StoreKind};
use crate::service::Service;

mod deliver;
mod growth;
mod isolation;
mod latency;
mod limits;
mod lists;
mod recovery;
mod settle;
mod start;

pub(crate) use deliver::deliver;
pub(crate) use growth::{Samples, growth};
pub(crate) use isolation::isolation;
pub(crate) use latency::latency;
pub(crate) use limits::limits;
pub(crate) use lists::lists;
pub(crate) use recovery::recovery;
pub(crate) use settle::settle;
pub(crate) use start::start;

/// What to measure, and the progress line that shows it.
pub(crate) struct Plan {
    pub(crate) store: StoreKind,
    pub(crate) scale: Scale,
    pub(crate) progress: Progress,
}

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Notifications of `deliver`, `recovery` and `isolation`.
    pub(crate) notifications: usize,
    pub(crate) merchants: usize,
    /// How long calls are made at a steady rate.
    pub(crate) steady: Duration,
    /// How long calls are made as fast as possible.
    pub(crate) flood: Duration,
    /// How long the benchmark waits for the last arrival.
    pub(crate) patience: Duration,
    /// Rows in the store at which `growth` measures.
    pub(crate) sizes: &'static [usize],
    pub(crate) samples: Samples,
    /// Payments of `settle`.
    pub(crate) payments: usize,
    /// Payments in the store at which `settle` measures what one costs, and how many of each round.
    pub(crate) settled: &'static [usize],
    pub(crate) settled_sample: usize,
}

/// Settlements in one call of the batched scenarios.
const BATCH: usize = 1_000;
/// Calls under way at once in the batched scenarios.
const BATCH_CALLERS: usize = 2;
/// Calls under way at once where each records one settlement, and connections of `lists`.
const CALLERS: usize = 32;

/// Memory that the service may use under load, in MiB.
const MEMORY_MAX: f64 = 200.0;
/// How long the outcomes of deliveries that have arrived may take to be recorded.
const RECORDED_WITHIN: Duration = Duration::from_secs(15);

/// The result of a scenario: its figures, and the data to draw.
#[derive(Default)]
pub(crate) struct Measured {
    pub(crate) figures: Vec<Figure>,
    pub(crate) arrived: Vec<Arrived>,
    pub(crate) latencies: Vec<Latencies>,
}

impl Measured {
    /// Figures with nothing to draw.
    fn of(figures: Vec<Figure>) -> Measured {
        Measured { figures, ..Measured::default() }
    }

    /// Adds the result of another scenario.
    pub(crate) fn add(&mut self, other: Measured) {
        self.figures.extend(other.figures);
        self.arrived.extend(other.arrived);
        self.latencies.extend(other.latencies);
    }
}

fn micros_to_ms(micros: f64) -> f64 {
    micros / 1_000.0
}

fn per_second(count: impl TryInto<u64>, micros: u64) -> f64 {
    number(count) * 1e6 / number(micros.max(1))
}

/// Processor seconds that the processes had used when a scenario began.
struct Usage {
    own: f64,
    database: Option<f64>,
}

impl Usage {
    fn begin(scratch: &Scratch) -> Usage {
        Usage { own: cpu_seconds(std::process::id()), database: scratch.database_cpu_seconds() }
    }

    /// Processor seconds of each process since then. The caller gives those of the service, because it may
    /// have ended.
    fn figures(&self, scenario: &'static str, name: &str, scratch: &Scratch, service: f64) -> Vec<Figure> {
        let figure =
            |what: &str, value| Figure::new(scenario, format!("{name}processor, {what}"), value, "s");
        let own = cpu_seconds(std::process::id()) - self.own;
        let mut figures = vec![figure("service", service), figure("receiver and caller", own)];
        let database = scratch.database_cpu_seconds().zip(self.database);
        figures.extend(database.map(|(now, before)| figure("database", now - before)));
        figures
    }
}

/// A running service with merchants, and the receiver of their notifications.
struct Setup {
    /// Fields are dropped in this order: the service must end before its store is removed.
    service: Service,
    context: Context,
    scratch: Scratch,
    arrivals: Arc<Arrivals>,
    shops: Arc<Vec<Shop>>,
    token: String,
    usage: Usage,
}

impl Setup {
    async fn start(plan: &Plan, merchants: usize, notifications: usize) -> Result<Setup, BenchError> {
        Setup::on(Scratch::new(plan.store).await?, plan, merchants, notifications).await
    }

    /// The same on a store whose settings are made already.
    async fn on(
        scratch: Scratch,
        plan: &Plan,
        merchants: usize,
        notifications: usize,
    ) -> Result<Setup, BenchError> {
        let arrivals = Arrivals::of(notifications, &plan.progress);
        let endpoints = receive(arrivals.clone()).await?;
        let context = scratch.open().await?;
        let shops = Arc::new(scratch.shops(&context, merchants, &endpoints, "/hook").await?);
        let token = scratch.operator(&context).await?;
        let service = Service::start(&scratch).await?;
        let usage = Usage::begin(&scratch);
        Ok(Setup { service, context, scratch, arrivals, shops, token, usage })
    }

    fn address(&self) -> (watch::Sender<std::net::SocketAddr>, watch::Receiver<std::net::SocketAddr>) {
        watch::channel(self.service.operator)
    }

    /// What the processes have used so far, and the most memory of the service.
    fn used(&self, scenario: &'static str, name: &str) -> Vec<Figure> {
        let mut figures = self.usage.figures(scenario, name, &self.scratch, self.service.cpu_seconds());
        let most = self.service.memory_mib().1;
        figures
            .push(Figure::new(scenario, format!("{name}resident at most"), most, "MiB").at_most(MEMORY_MAX));
        figures
    }

    /// Waits until no delivery is pending, at most as long as outcomes may take to be recorded.
    async fn none_pending(&self) -> Result<(), BenchError> {
        let deadline = Instant::now() + RECORDED_WITHIN;
        while self.context.store.queue_depth().await?.pending > 0 && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// How many deliveries are in the wrong state: every one must be delivered once the last outcome is
    /// recorded. It counts the rows, and does not trust the totals that the store keeps.
    async fn wrong_states(&self, expected: usize) -> Result<f64, BenchError> {
        let deadline = Instant::now() + RECORDED_WITHIN;
        let filter = DeliveryFilter { status: Some(DeliveryStatus::Delivered), ..DeliveryFilter::default() };
        loop {
            let delivered = self.context.store.delivery_count(&filter).await?;
            let delivered: HashMap<_, _> = delivered.into_iter().collect();
            let wrong: usize = self
                .shops
                .iter()
                .enumerate()
                .map(|(position, shop)| {
                    // Settlements are given to the merchants in turn.
                    let own = (expected + self.shops.len() - 1 - position) / self.shops.len();
                    let found = delivered.get(&shop.merchant_id).copied().unwrap_or(0);
                    own.abs_diff(usize::try_from(found).unwrap_or(0))
                })
                .sum();
            if wrong == 0 || Instant::now() > deadline {
                return Ok(number(wrong));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
