//! Deliver: notifications of settlements recorded in batches, and one a call.

use super::{BATCH, BATCH_CALLERS, CALLERS, Measured, Plan, Setup, per_second};
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::Load;
use crate::plot::Arrived;

/// Records settlements through the operator API, and measures from the first call to the last arrival.
pub(crate) async fn deliver(plan: &Plan, batched: bool) -> Result<Measured, BenchError> {
    let setup = Setup::start(plan, plan.scale.merchants, plan.scale.notifications).await?;
    let (batch, callers) = if batched { (BATCH, BATCH_CALLERS) } else { (1, CALLERS) };
    let name = if batched { "batched" } else { "one a call" };
    let load = Load::new(setup.shops.clone(), &setup.token, plan.scale.notifications, batch);
    let (_kept, address) = setup.address();
    let started = setup.arrivals.now();
    plan.progress.step(name, plan.scale.notifications);
    load.post(callers, address).await;
    let accepted_at = setup.arrivals.now();
    setup.arrivals.wait_for(plan.scale.notifications, plan.scale.patience).await;
    let (unique, total) = setup.arrivals.counts();
    let rate = per_second(unique, setup.arrivals.last().saturating_sub(started));
    let recorded = per_second(plan.scale.notifications, accepted_at - started);
    let wrong = setup.wrong_states(plan.scale.notifications).await?;
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
    figures.extend(setup.used("deliver", &format!("{name}: ")));
    let arrived = Arrived { name, times: setup.arrivals.times() };
    Ok(Measured { arrived: vec![arrived], ..Measured::of(figures) })
}
