//! How long a payment takes at a steady rate: alone, and beside a provider that hangs.

use std::sync::Arc;

use super::{HANGS, Settling};
use crate::arrivals::receive;
use crate::durations::Durations;
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::{Load, Posted, at_rate};
use crate::providers::agree;
use crate::scenarios::{BATCH, Measured, Plan, micros_to_ms};

/// Payments a second.
const RATE: u32 = 20;
/// How many times as long as other scenarios: a percentile of a slow rate needs time.
const LONGER: u32 = 3;
/// Payments of the provider that hangs, at most: more than the engine takes in hand.
const HANGING_MAX: usize = 2_000;

/// From the operator's call to the arrival of the notification.
pub(super) async fn pace(plan: &Plan) -> Result<Measured, BenchError> {
    let seconds = (plan.scale.steady * LONGER).as_secs().max(1);
    let count = usize::try_from(u64::from(RATE) * seconds).unwrap_or(0);
    // The first two seconds warm up connections and plans, and let everything settle again.
    let warm_up = (2 * usize::try_from(RATE).unwrap_or(0)).min(count);
    let all = 2 * (warm_up + count);
    let waiting = plan.scale.payments.min(HANGING_MAX);
    let settling = Settling::start(plan, all + waiting).await?;
    let setup = &settling.setup;
    let measure = async |numbers: std::ops::Range<usize>| {
        let (shops, token, operator) = (&setup.shops, setup.token.as_str(), setup.service.operator);
        let calls = at_rate(Posted::Payments, shops, token, operator, &setup.arrivals, numbers, RATE).await;
        let lost = calls.iter().filter(|call| call.took.is_none()).count();
        let took: Durations = calls.iter().filter_map(|call| call.took).collect();
        (took, lost)
    };
    plan.progress.step("at 20/s", warm_up + count);
    let (_, lost_warming) = measure(0..warm_up).await;
    let (alone, lost_alone) = measure(warm_up..warm_up + count).await;
    plan.progress.step("beside a provider that hangs", all);
    let endpoints = receive(setup.arrivals.clone()).await?;
    // As many merchants as the others, so that fairness between merchants alone does not help.
    let hanging = setup.scratch.shops(&setup.context, plan.scale.merchants, &endpoints, "/hook").await?;
    agree(&setup.context, &hanging, HANGS).await?;
    let load = Load::of(Posted::Payments, Arc::new(hanging), &setup.token, all..all + waiting, BATCH);
    let (_kept, address) = setup.address();
    load.post(1, address).await;
    let begun = warm_up + count;
    let (_, lost_settling) = measure(begun..begun + warm_up).await;
    let (beside, lost_beside) = measure(begun + warm_up..all).await;
    let lost = lost_warming + lost_alone + lost_settling + lost_beside;
    let at = |took: &Durations, part| micros_to_ms(took.percentile(part));
    let figure = |what: &str, value: f64, unit| Figure::new("settle", what, value, unit);
    let ratio = at(&beside, 0.99) / at(&alone, 0.99);
    Ok(Measured::of(vec![
        figure("at 20/s: p50", at(&alone, 0.5), "ms").at_most(10.0),
        figure("at 20/s: p99", at(&alone, 0.99), "ms").at_most(25.0),
        figure("beside a provider that hangs: p50", at(&beside, 0.5), "ms"),
        figure("beside a provider that hangs: p99", at(&beside, 0.99), "ms"),
        figure("beside a provider that hangs: ratio of p99", ratio, "×").at_most(1.5),
        figure("at 20/s: lost", number(lost), "").at_most(0.0),
    ]))
}
