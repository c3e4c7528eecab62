//! What the same page, claim and record cost when there is more in the store.

use std::time::Instant;

use settle_domain::seams::Clock;
use settle_store::Ask;

use super::{Outcome, Plan, Usage};
use crate::bench::client::Client;
use crate::bench::figures::{Figure, number, percentile};
use crate::bench::history::History;
use crate::bench::load::batch;
use crate::bench::service::Service;
use crate::commands::CommandFault;
use crate::system::SystemClock;

/// Deliveries that a claim asks for: half the window of a merchant that answers well, as it is asked for.
const CLAIMED: i64 = 32;
/// What is measured, in the order in which it is measured at each size.
const COSTS: [&str; 5] = ["record", "claim", "page of settlements", "page of deliveries", "HTTP alone"];
/// How much dearer ten times the rows may make it.
const DECADE_MAX: f64 = 1.15;

/// How often each cost is measured.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Samples {
    /// Calls that record, and settlements in each.
    pub(in crate::bench) records: usize,
    pub(in crate::bench) record_rows: usize,
    /// Claims, and pages of each kind.
    pub(in crate::bench) reads: usize,
}

impl Samples {
    /// Calls that are made before any is counted: caches and plans are the same at each size then.
    const fn warm_up(calls: usize) -> usize {
        calls / 4
    }

    /// Settlements that measuring adds.
    fn rows(self) -> usize {
        (self.records + Samples::warm_up(self.records)) * self.record_rows
    }
}

/// The cost at each size, all of it one merchant's. Nobody asks for a vacuum or an analysis in between: a
/// store must be good as it is.
///
/// Gives the history too, for whoever needs one.
pub(in crate::bench) async fn growth(plan: &Plan) -> Result<(Outcome, History), CommandFault> {
    let mut history = History::new(plan.store).await?;
    let token = history.ground.operator(&history.context).await?;
    // Without the dispatcher: what is recorded stays pending until the claims are measured.
    let service = Service::start_without_dispatcher(&history.ground).await?;
    let usage = Usage::begin(&history.ground);
    let mut costs: Vec<Vec<f64>> = Vec::new();
    for size in plan.scale.sizes {
        history.grow(size - plan.scale.samples.rows(), &plan.progress).await?;
        plan.progress.step(&format!("measuring with {}", short(*size)), 0);
        costs.push(measure(&mut history, &service, &token, plan.scale.samples).await?);
    }
    let mut figures = figures(plan.scale.sizes, &costs);
    figures.extend(usage.figures("growth", "", &history.ground, service.cpu_seconds()));
    Ok((Outcome::of(figures), history))
}

/// The costs at the present size, in the order of their names.
async fn measure(
    history: &mut History,
    service: &Service,
    token: &str,
    samples: Samples,
) -> Result<Vec<f64>, CommandFault> {
    let mut costs = vec![record(history, service, token, samples).await?];
    costs.push(claim(history, samples.reads).await?);
    history.deliver_pending().await?;
    let mut client = Client::connect(service.api).await?;
    for (path, expected) in [
        ("/v1/settlements?limit=50", 200),
        ("/v1/webhook/deliveries?limit=50", 200),
        // What changes here is the machine, not the store.
        ("/v1/nothing", 404),
    ] {
        let mut took = Vec::new();
        for _ in 0..samples.reads + Samples::warm_up(samples.reads) {
            let asked = Instant::now();
            let (status, _) = client.get(path, &history.shop.api_key).await?;
            took.push(nanos(asked));
            if status != expected {
                return Err(CommandFault::Refused(format!("{path} was answered with {status}")));
            }
        }
        costs.push(least(took, samples.reads));
    }
    Ok(costs)
}

async fn record(
    history: &mut History,
    service: &Service,
    token: &str,
    samples: Samples,
) -> Result<f64, CommandFault> {
    let mut client = Client::connect(service.operator).await?;
    let mut took = Vec::new();
    for _ in 0..samples.records + Samples::warm_up(samples.records) {
        let body = batch(&history.shop, history.rows..history.rows + samples.record_rows);
        let asked = Instant::now();
        let status = client.post("/operator/v1/settlements", token, &body).await?;
        took.push(nanos(asked));
        if status != 200 {
            return Err(CommandFault::Refused(format!("a batch was answered with {status}")));
        }
        history.rows += samples.record_rows;
    }
    Ok(least(took, samples.records))
}

async fn claim(history: &History, reads: usize) -> Result<f64, CommandFault> {
    let ask = Ask { merchant_id: history.shop.merchant_id, number: CLAIMED };
    let mut took = Vec::new();
    for _ in 0..reads + Samples::warm_up(reads) {
        let asked = Instant::now();
        let claimed = history.context.store.queue_claim(&[ask], &[], SystemClock.now()).await?;
        took.push(nanos(asked));
        if i64::try_from(claimed.len()) != Ok(CLAIMED) {
            return Err(CommandFault::Refused(format!("{} are there to be claimed", claimed.len())));
        }
    }
    Ok(least(took, reads))
}

fn nanos(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// What the fastest tenth of the last so many took at most, in microseconds: what came before warmed up. The
/// sizes are measured minutes apart, and what a neighbour or the disk adds is no cost of the rows; it moves a
/// median by more than the target allows.
fn least(mut took: Vec<u64>, number: usize) -> f64 {
    let mut counted = took.split_off(took.len().saturating_sub(number));
    counted.sort_unstable();
    percentile(&counted, 0.1) / 1e3
}

/// Each cost at each size, and then how it changed from each size to the next.
fn figures(sizes: &[usize], costs: &[Vec<f64>]) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (position, name) in COSTS.iter().enumerate() {
        let at_size = |size: usize| costs.get(size).and_then(|costs| costs.get(position)).copied();
        for (index, size) in sizes.iter().enumerate() {
            let cost = at_size(index).unwrap_or(f64::NAN);
            figures.push(Figure::new("growth", format!("{name}, {}", short(*size)), cost, "µs"));
        }
        for (index, pair) in sizes.windows(2).enumerate() {
            let ratio = at_size(index + 1).unwrap_or(f64::NAN) / at_size(index).unwrap_or(f64::NAN);
            let decades = (number(pair[1]) / number(pair[0])).log10();
            let name = format!("{name}, {} → {}", short(pair[0]), short(pair[1]));
            let figure = Figure::new("growth", name, ratio.powf(1.0 / decades), "×");
            figures.push(if position + 1 < COSTS.len() { figure.at_most(DECADE_MAX) } else { figure });
        }
    }
    figures
}

/// A number of rows as people say it.
pub(in crate::bench) fn short(rows: usize) -> String {
    match rows {
        1_000_000.. => format!("{}M rows", rows / 1_000_000),
        1_000.. => format!("{}k rows", rows / 1_000),
        _ => format!("{rows} rows"),
    }
}
