//! How soon the service is ready, and what it takes then.

use std::time::Duration;

use super::Outcome;
use crate::bench::figures::Figure;
use crate::bench::ground::{Ground, StoreKind};
use crate::bench::service::Service;
use crate::commands::CommandFault;

/// From the start of the process to ready, and what it takes then.
pub(in crate::bench) async fn start(kind: StoreKind) -> Result<Outcome, CommandFault> {
    let ground = Ground::new(kind).await?;
    drop(ground.open().await?);
    let service = Service::start(&ground).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let figures = vec![
        Figure::new("start", "ready after", service.ready_after.as_secs_f64() * 1e3, "ms").at_most(150.0),
        Figure::new("start", "resident, idle", service.memory_mib().0, "MiB").at_most(40.0),
    ];
    Ok(Outcome { figures, arrivals: Vec::new() })
}
