//! Recovery: what a crash costs.

use std::sync::atomic::Ordering;

use super::{BATCH, BATCH_CALLERS, Measured, Plan, Setup};
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::Load;
use crate::plot::Arrived;
use crate::service::Service;

/// A `kill -9` in the middle of `deliver`, and a restart at once.
pub(crate) async fn recovery(plan: &Plan) -> Result<Measured, BenchError> {
    let mut setup = Setup::start(plan, plan.scale.merchants, plan.scale.notifications).await?;
    let load = Load::new(setup.shops.clone(), &setup.token, plan.scale.notifications, BATCH);
    let (moved, address) = setup.address();
    plan.progress.step("until the crash", plan.scale.notifications / 2);
    let posting = tokio::spawn({
        let load = load.clone();
        async move { load.post(BATCH_CALLERS, address).await }
    });
    setup.arrivals.wait_for(plan.scale.notifications / 2, plan.scale.patience).await;
    // No more calls: every accepted settlement must arrive.
    load.next.store(plan.scale.notifications, Ordering::Relaxed);
    plan.progress.step("after the crash", load.accepted());
    let before = setup.service.cpu_seconds();
    setup.service.kill()?;
    let restarted = setup.arrivals.now();
    setup.service = Service::start(&setup.scratch).await?;
    let _ = moved.send(setup.service.operator);
    let _ = posting.await;
    let accepted = load.accepted();
    setup.arrivals.wait_for(accepted, plan.scale.patience).await;
    let (unique, total) = setup.arrivals.counts();
    let last = setup.arrivals.last().saturating_sub(restarted);
    let ready = setup.service.ready_after.as_secs_f64();
    let figure = |what: &str, value, unit| Figure::new("recovery", what, value, unit);
    let mut figures = vec![
        figure("ready after", ready, "s").at_most(0.3),
        figure("last arrival after the restart", number(last) / 1e6, "s").at_most(5.0),
        figure("accepted", number(accepted), ""),
        figure("lost", number(accepted.saturating_sub(unique)), "").at_most(0.0),
        figure("duplicates", number(total - unique), ""),
    ];
    let used = before + setup.service.cpu_seconds();
    figures.extend(setup.usage.figures("recovery", "", &setup.scratch, used));
    let arrived = Arrived { name: "recovery", times: setup.arrivals.times() };
    Ok(Measured { arrived: vec![arrived], ..Measured::of(figures) })
}
