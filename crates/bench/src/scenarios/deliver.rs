//! Notifications recorded in batches, and one a call.

use super::{BATCH, BATCH_CALLERS, CALLERS, Outcome, Plan, Stage, per_second};
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::Load;
use crate::plot::Arrived;

/// Notifications recorded through the operator API, from the first call to the last arrival.
pub(crate) async fn deliver(plan: &Plan, batched: bool) -> Result<Outcome, BenchError> {
    let stage = Stage::set(plan, plan.scale.merchants, plan.scale.notifications).await?;
    let (batch, callers) = if batched { (BATCH, BATCH_CALLERS) } else { (1, CALLERS) };
    let name = if batched { "batched" } else { "one a call" };
    let load = Load::new(stage.shops.clone(), &stage.token, plan.scale.notifications, batch);
    let (_kept, address) = stage.address();
    let started = stage.arrivals.now();
    plan.progress.step(name, plan.scale.notifications);
    load.post(callers, address).await;
    let accepted_at = stage.arrivals.now();
    stage.arrivals.wait_for(plan.scale.notifications, plan.scale.patience).await;
    let (unique, total) = stage.arrivals.counts();
    let rate = per_second(unique, stage.arrivals.last().saturating_sub(started));
    let recorded = per_second(plan.scale.notifications, accepted_at - started);
    let wrong = stage.wrong_states(plan.scale.notifications).await?;
    let target = if batched { 9_000.0 } else { 5_000.0 };
    let figure =
        |what: &str, value: f64, unit| Figure::new("deliver", format!("{name}: {what}"), value, unit);
    let mut figures = vec![
        figure("deliveries", rate, "/s").at_least(target),
        figure("recorded", recorded, "/s"),
        figure("lost", number(plan.scale.notifications - unique), "").at_most(0.0),
        figure("wrong state", wrong, "").at_most(0.0),
        figure("duplicates", number(total - unique), ""),
    ];
    figures.extend(stage.used("deliver", &format!("{name}: ")));
    let arrived = Arrived { name, times: stage.arrivals.times() };
    Ok(Outcome { arrived: vec![arrived], ..Outcome::of(figures) })
}
