//! What a crash costs.

use std::sync::atomic::Ordering;

use super::{BATCH, BATCH_CALLERS, Outcome, Plan, Stage};
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::Load;
use crate::plot::Arrived;
use crate::service::Service;

/// A `kill -9` in the middle of `deliver`, and a restart at once.
pub(crate) async fn recovery(plan: &Plan) -> Result<Outcome, BenchError> {
    let mut stage = Stage::set(plan, plan.scale.merchants, plan.scale.notifications).await?;
    let load = Load::new(stage.shops.clone(), &stage.token, plan.scale.notifications, BATCH);
    let (moved, address) = stage.address();
    plan.progress.step("until the crash", plan.scale.notifications / 2);
    let posting = tokio::spawn({
        let load = load.clone();
        async move { load.post(BATCH_CALLERS, address).await }
    });
    stage.arrivals.wait_for(plan.scale.notifications / 2, plan.scale.patience).await;
    // No more calls: what was accepted until now must arrive.
    load.next.store(plan.scale.notifications, Ordering::Relaxed);
    plan.progress.step("after the crash", load.accepted());
    let before = stage.service.cpu_seconds();
    stage.service.kill()?;
    let restarted = stage.arrivals.now();
    stage.service = Service::start(&stage.ground).await?;
    let _ = moved.send(stage.service.operator);
    let _ = posting.await;
    let accepted = load.accepted();
    stage.arrivals.wait_for(accepted, plan.scale.patience).await;
    let (unique, total) = stage.arrivals.counts();
    let last = stage.arrivals.last().saturating_sub(restarted);
    let ready = stage.service.ready_after.as_secs_f64();
    let figure = |what: &str, value, unit| Figure::new("recovery", what, value, unit);
    let mut figures = vec![
        figure("ready after", ready, "s").at_most(0.3),
        figure("last arrival after the restart", number(last) / 1e6, "s").at_most(5.0),
        figure("accepted", number(accepted), ""),
        figure("lost", number(accepted.saturating_sub(unique)), "").at_most(0.0),
        figure("duplicates", number(total - unique), ""),
    ];
    let used = before + stage.service.cpu_seconds();
    figures.extend(stage.usage.figures("recovery", "", &stage.ground, used));
    let arrived = Arrived { name: "recovery", times: stage.arrivals.times() };
    Ok(Outcome { arrived: vec![arrived], ..Outcome::of(figures) })
}
