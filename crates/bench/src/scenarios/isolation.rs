//! Isolation: what other merchants notice when one merchant's endpoint hangs.

use std::sync::Arc;

use super::{BATCH, BATCH_CALLERS, Measured, Plan, Setup, micros_to_ms};
use crate::arrivals::{HANGING_PATH, receive};
use crate::durations::Durations;
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::{Load, Posted, at_rate};

/// The latency of other merchants while all deliveries of one merchant hang.
pub(crate) async fn isolation(plan: &Plan) -> Result<Measured, BenchError> {
    const RATE: u32 = 100;
    let count = usize::try_from(u64::from(RATE) * plan.scale.steady.as_secs().max(1)).unwrap_or(0);
    let setup = Setup::start(plan, plan.scale.merchants, 4 * count + plan.scale.notifications).await?;
    let (shops, token, operator) = (&setup.shops, setup.token.as_str(), setup.service.operator);
    let arrivals = &setup.arrivals;
    let measure = async |numbers: std::ops::Range<usize>| {
        let calls = at_rate(Posted::Settlements, shops, token, operator, arrivals, numbers, RATE).await;
        let lost = calls.iter().filter(|call| call.took.is_none()).count();
        let took: Durations = calls.iter().filter_map(|call| call.took).collect();
        (micros_to_ms(took.percentile(0.99)), lost)
    };
    plan.progress.step("alone", 2 * count);
    let (_, lost_warming) = measure(0..count).await;
    let (alone, lost_alone) = measure(count..2 * count).await;
    plan.progress.step("recording what hangs", 0);
    let endpoints = receive(arrivals.clone()).await?;
    let hanging = Arc::new(setup.scratch.shops(&setup.context, 1, &endpoints, HANGING_PATH).await?);
    let load = Load::new(hanging, token, plan.scale.notifications, BATCH);
    let (_kept, address) = setup.address();
    load.post(BATCH_CALLERS, address).await;
    plan.progress.step("beside", 4 * count);
    // The first measurement does not count: after recording, the disk and PostgreSQL still have work to
    // finish.
    let (_, lost_settling) = measure(2 * count..3 * count).await;
    let (beside, lost_beside) = measure(3 * count..4 * count).await;
    let lost = number(lost_warming + lost_alone + lost_settling + lost_beside);
    let mut figures = vec![
        Figure::new("isolation", "p99 alone", alone, "ms"),
        Figure::new("isolation", "p99 beside a hanging merchant", beside, "ms").at_most(15.0),
        Figure::new("isolation", "ratio", beside / alone, "×").at_most(2.0),
        Figure::new("isolation", "lost", lost, "").at_most(0.0),
    ];
    figures.extend(setup.used("isolation", ""));
    Ok(Measured::of(figures))
}
