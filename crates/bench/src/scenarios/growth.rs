//! Growth: the cost of the same page, claim and record with more and more rows in the store.
//!
//! The sizes are measured minutes apart, and the machine does not stay equally fast. So each call is followed
//! by a reference call, which reads no row that grows, and the cost is taken relative to it. Of several
//! rounds the median counts.

use std::time::Instant;

use settle_domain::seams::Clock;
use settle_store::{Ask, DueTime};
use settle_wiring::system::SystemClock;

use super::{Measured, Plan, Usage};
use crate::client::Client;
use crate::durations::Durations;
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::history::History;
use crate::load::batch;
use crate::service::Service;

/// Deliveries that a claim asks for: a lane claims when half its window is free, and the window of a healthy
/// endpoint grows to 64 by default.
const CLAIMED: u32 = 32;
/// The costs, in the order in which they are measured at each size.
const COSTS: [&str; 4] = ["record", "claim", "page of settlements", "page of deliveries"];
/// The reference call. It asks the store only for its migrations, whose number never changes.
const BESIDE: &str = "/readyz";
/// The factor by which a cost may grow when the rows become ten times as many.
const DECADE_MAX: f64 = 1.15;

/// How often each cost is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Samples {
    /// Rounds; an odd number, so that there is a middle one.
    pub(crate) rounds: usize,
    /// Calls in a round that record, and settlements in each call.
    pub(crate) records: usize,
    pub(crate) record_rows: usize,
    /// Claims in a round, and pages of each kind in a round.
    pub(crate) reads: usize,
}

impl Samples {
    /// Calls before those that count, so that caches and plans are in the same state at each size.
    const fn warm_up(calls: usize) -> usize {
        calls / 4
    }

    /// Settlements that the measurement itself adds.
    fn rows(self) -> usize {
        self.rounds * (self.records + Samples::warm_up(self.records)) * self.record_rows
    }
}

/// The costs at each size; one merchant owns all rows. Nothing asks the store for a vacuum or an analysis in
/// between: it must be fast without.
///
/// Also returns the history, for another scenario.
pub(crate) async fn growth(plan: &Plan) -> Result<(Measured, History), BenchError> {
    let mut history = History::new(plan.store).await?;
    let token = history.scratch.operator(&history.context).await?;
    // Without the dispatcher recorded deliveries stay pending until the claims are measured.
    let service = Service::start_without_dispatcher(&history.scratch).await?;
    let usage = Usage::begin(&history.scratch);
    let mut costs: Vec<Vec<Cost>> = Vec::new();
    for size in plan.scale.sizes {
        // The measurement adds rows: halfway through, the store has exactly this size.
        history.grow(size - plan.scale.samples.rows() / 2, &plan.progress).await?;
        plan.progress.step(&format!("measuring with {}", short(*size)), 0);
        costs.push(measure(&mut history, &service, &token, plan.scale.samples).await?);
    }
    let mut figures = figures(plan.scale.sizes, &costs);
    figures.extend(usage.figures("growth", "", &history.scratch, service.cpu_seconds()));
    Ok((Measured::of(figures), history))
}

/// The costs at the present size, in the order of [`COSTS`].
async fn measure(
    history: &mut History,
    service: &Service,
    token: &str,
    samples: Samples,
) -> Result<Vec<Cost>, BenchError> {
    let mut costs = COSTS.map(|_| Vec::new());
    for _ in 0..samples.rounds {
        let record = record(history, service, token, samples).await?;
        let claim = claim(history, service, samples.reads).await?;
        history.deliver_pending().await?;
        let settlements = page(history, service, "/v1/settlements?limit=50", samples.reads).await?;
        let deliveries = page(history, service, "/v1/webhook/deliveries?limit=50", samples.reads).await?;
        for (rounds, cost) in costs.iter_mut().zip([record, claim, settlements, deliveries]) {
            rounds.push(cost);
        }
    }
    Ok(costs.into_iter().filter_map(middle).collect())
}

/// The median round, by the cost relative to the reference call.
fn middle(mut rounds: Vec<Cost>) -> Option<Cost> {
    rounds.sort_by(|one, other| one.ratio().total_cmp(&other.ratio()));
    rounds.get(rounds.len() / 2).copied()
}

async fn record(
    history: &mut History,
    service: &Service,
    token: &str,
    samples: Samples,
) -> Result<Cost, BenchError> {
    let mut client = Client::connect(service.operator).await?;
    let mut times = Times::default();
    for _ in 0..samples.records + Samples::warm_up(samples.records) {
        let body = batch(&history.shop, history.rows..history.rows + samples.record_rows);
        let asked = Instant::now();
        let status = client.post("/operator/v1/settlements", token, &body).await?;
        times.took.push(nanos(asked));
        if status != 200 {
            return Err(BenchError::Failed(format!("a batch was answered with {status}")));
        }
        history.rows += samples.record_rows;
        times.beside.push(get(&mut client, BESIDE, "").await?);
    }
    Ok(times.cost(samples.records))
}

async fn page(history: &History, service: &Service, path: &str, reads: usize) -> Result<Cost, BenchError> {
    let mut client = Client::connect(service.api).await?;
    let mut other = Client::connect(service.operator).await?;
    let mut times = Times::default();
    for _ in 0..reads + Samples::warm_up(reads) {
        times.took.push(get(&mut client, path, &history.shop.api_key).await?);
        times.beside.push(get(&mut other, BESIDE, "").await?);
    }
    Ok(times.cost(reads))
}

/// How long an answer took, in nanoseconds.
async fn get(client: &mut Client, path: &str, key: &str) -> Result<u64, BenchError> {
    let asked = Instant::now();
    let (status, _) = client.get(path, key).await?;
    let took = nanos(asked);
    match status {
        200 => Ok(took),
        status => Err(BenchError::Failed(format!("{path} was answered with {status}"))),
    }
}

async fn claim(history: &History, service: &Service, reads: usize) -> Result<Cost, BenchError> {
    let mut client = Client::connect(service.operator).await?;
    let ask = Ask { merchant_id: history.shop.merchant_id, number: CLAIMED };
    let mut times = Times::default();
    for _ in 0..reads + Samples::warm_up(reads) {
        let asked = Instant::now();
        let claimed =
            history.context.store.queue_claim(&[ask], &[], DueTime::by(SystemClock.now())).await?.found;
        times.took.push(nanos(asked));
        if u32::try_from(claimed.len()) != Ok(CLAIMED) {
            return Err(BenchError::Failed(format!("{} are there to be claimed", claimed.len())));
        }
        times.beside.push(get(&mut client, BESIDE, "").await?);
    }
    Ok(times.cost(reads))
}

/// How long calls took, and the reference calls beside them, in nanoseconds.
#[derive(Default)]
struct Times {
    took: Vec<u64>,
    beside: Vec<u64>,
}

impl Times {
    /// The cost over the last `number` calls; those before only warmed up.
    fn cost(&self, number: usize) -> Cost {
        Cost { took: least(&self.took, number), beside: least(&self.beside, number) }
    }
}

/// The cost of a call and of the reference call beside it, in microseconds.
#[derive(Clone, Copy)]
struct Cost {
    took: f64,
    beside: f64,
}

impl Cost {
    fn ratio(self) -> f64 {
        self.took / self.beside
    }
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The time that the fastest tenth of the last `number` calls did not exceed, in microseconds. Other work on
/// the machine or disk slows single calls; it moves a median by more than the target allows.
fn least(took: &[u64], number: usize) -> f64 {
    let counted = &took[took.len().saturating_sub(number)..];
    counted.iter().copied().collect::<Durations>().percentile(0.1) / 1e3
}

/// Each cost at each size, and the factor from each size to the next.
fn figures(sizes: &[usize], costs: &[Vec<Cost>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (position, name) in COSTS.iter().enumerate() {
        let at_sizes =
            || sizes.iter().zip(costs).filter_map(|(size, costs)| Some((*size, *costs.get(position)?)));
        for (size, Cost { took, beside }) in at_sizes() {
            figures.push(Figure::new("growth", format!("{name}, {}", short(size)), took, "µs"));
            figures.push(Figure::new("growth", format!("{name}, {}: beside it", short(size)), beside, "µs"));
        }
        for ((small, before), (large, after)) in at_sizes().zip(at_sizes().skip(1)) {
            let ratio = after.ratio() / before.ratio();
            let decades = (number(large) / number(small)).log10();
            let name = format!("{name}, {} → {}", short(small), short(large));
            figures.push(Figure::new("growth", name, ratio.powf(1.0 / decades), "×").at_most(DECADE_MAX));
        }
    }
    figures
}

/// A number of rows as people say it.
pub(crate) fn short(rows: usize) -> String {
    match rows {
        1_000_000.. => format!("{}M rows", rows / 1_000_000),
        1_000.. => format!("{}k rows", rows / 1_000),
        _ => format!("{rows} rows"),
    }
}
