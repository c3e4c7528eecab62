//! How soon the service is ready, and what it takes then.

use std::time::Duration;

use super::growth::short;
use super::{Measured, Plan};
use crate::durations::Durations;
use crate::error::BenchError;
use crate::figures::Figure;
use crate::history::History;
use crate::scratch::Scratch;
use crate::service::Service;

/// Starts that are measured; the median counts.
const STARTS: usize = 5;
/// Rows that the store has at least.
const ROWS_MAX: usize = 1_000_000;
/// How long a service is left alone before its memory is read.
const IDLE: Duration = Duration::from_secs(1);

/// From the start of the process to ready, with nothing in the store and with a long history, which is filled
/// in unless there is one.
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
