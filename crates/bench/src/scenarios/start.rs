//! Start: how soon the service is ready, and how much memory it uses when idle.

use std::time::Duration;

use super::growth::short;
use super::{Measured, Plan};
use crate::durations::Durations;
use crate::error::BenchError;
use crate::figures::Figure;
use crate::history::History;
use crate::scratch::Scratch;
use crate::service::Service;

/// Starts to measure; the median counts.
const STARTS: usize = 5;
/// Rows to which the history is filled at most; one that `growth` has left may have more.
const ROWS_MAX: usize = 1_000_000;
/// How long the service idles before its memory is read.
const IDLE: Duration = Duration::from_secs(1);

/// Measures from the start of the process to ready, on an empty store and on one with a long history: the
/// given one, or a new one.
pub(crate) async fn start(plan: &Plan, history: Option<History>) -> Result<Measured, BenchError> {
    let empty = Scratch::new(plan.store).await?;
    empty.open().await?.store.close().await;
    let mut figures = measure(&empty, "empty").await?;
    drop(empty);
    let mut history = match history {
        Some(history) => history,
        None => History::new(plan.store).await?,
    };
    history.grow(plan.scale.sizes.iter().copied().fold(0, usize::max).min(ROWS_MAX), &plan.progress).await?;
    history.context.store.close().await;
    plan.progress.step("with a history", 0);
    figures.extend(measure(&history.scratch, &short(history.rows)).await?);
    Ok(Measured::of(figures))
}

async fn measure(scratch: &Scratch, name: &str) -> Result<Vec<Figure>, BenchError> {
    let mut took = Durations::new();
    let (mut memory, mut seconds) = (0.0, 0.0);
    for number in 1..=STARTS {
        let service = Service::start(scratch).await?;
        took.record(u64::try_from(service.ready_after.as_micros()).unwrap_or(u64::MAX));
        if number == STARTS {
            seconds = service.cpu_seconds();
            tokio::time::sleep(IDLE).await;
            memory = service.memory_mib().0;
        }
    }
    let ready = took.percentile(0.5) / 1e3;
    Ok(vec![
        Figure::new("start", format!("ready after, {name}"), ready, "ms").at_most(150.0),
        Figure::new("start", format!("resident idle, {name}"), memory, "MiB").at_most(40.0),
        Figure::new("start", format!("processor of a start, {name}"), seconds, "s"),
    ])
}
