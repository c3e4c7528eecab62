//! What a crash costs.

use std::sync::atomic::Ordering;

use super::{BATCH, BATCH_CALLERS, Outcome, PATIENCE, Scale, Stage};
use crate::bench::figures::{Figure, number};
use crate::bench::ground::StoreKind;
use crate::bench::load::Load;
use crate::bench::service::Service;
use crate::commands::CommandFault;

/// A `kill -9` in the middle of `deliver`, and a restart at once.
pub(in crate::bench) async fn recovery(kind: StoreKind, scale: Scale) -> Result<Outcome, CommandFault> {
    let mut stage = Stage::set(kind, scale.merchants, scale.notifications).await?;
    let load = Load::new(stage.shops.clone(), &stage.token, scale.notifications, BATCH);
    let (moved, address) = stage.address();
    let posting = tokio::spawn({
        let load = load.clone();
        async move { load.post(BATCH_CALLERS, address).await }
    });
    stage.arrivals.wait_for(scale.notifications / 2, PATIENCE).await;
    // No more calls: what was accepted until now must arrive.
    load.next.store(scale.notifications, Ordering::Relaxed);
    stage.service.kill()?;
    let restarted = stage.arrivals.now();
    stage.service = Service::start(&stage.ground).await?;
    let _ = moved.send(stage.service.operator);
    let _ = posting.await;
    let accepted = load.accepted();
    stage.arrivals.wait_for(accepted, PATIENCE).await;
    let (unique, total) = stage.arrivals.counts();
    let last = stage.arrivals.last().saturating_sub(restarted);
    let ready = stage.service.ready_after.as_secs_f64();
    let figure = |what: &str, value, unit| Figure::new("recovery", what, value, unit);
    let figures = vec![
        figure("ready after", ready, "s").at_most(0.3),
        figure("last arrival after the restart", number(last) / 1e6, "s").at_most(5.0),
        figure("accepted before", number(accepted), ""),
        figure("lost", number(accepted.saturating_sub(unique)), "").at_most(0.0),
        figure("duplicates", number(total - unique), ""),
    ];
    Ok(Outcome { figures, arrivals: stage.arrivals.times() })
}
