//! Pages, as many as can be had.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{BATCH, CALLERS, Outcome, PATIENCE, Scale, Stage, micros_to_ms, per_second};
use crate::bench::client::Client;
use crate::bench::figures::{Figure, percentile};
use crate::bench::ground::StoreKind;
use crate::bench::load::Load;
use crate::commands::CommandFault;

/// Pages of 50 under 32 connections.
pub(in crate::bench) async fn lists(kind: StoreKind, scale: Scale) -> Result<Outcome, CommandFault> {
    let stage = Stage::set(kind, 1, 2_000).await?;
    let load = Load::new(stage.shops.clone(), &stage.token, 2_000, BATCH);
    let (_kept, address) = stage.address();
    load.post(1, address).await;
    stage.arrivals.wait_for(2_000, PATIENCE).await;
    let target = if kind == StoreKind::Sqlite { 8_000.0 } else { 5_000.0 };
    let mut figures = Vec::new();
    for (name, path) in [
        ("settlements", "/v1/settlements?limit=50"),
        ("deliveries", "/v1/webhook/deliveries?limit=50"),
        ("deliveries delivered", "/v1/webhook/deliveries?limit=50&status=delivered"),
        ("not found, the floor of HTTP", "/v1/nothing"),
    ] {
        let (rate, p99) = hammer(stage.service.api, path, &stage.shops[0].api_key, scale.steady).await;
        let rate = Figure::new("lists", format!("{name}: pages"), rate, "/s");
        figures.push(if name.starts_with("not") { rate } else { rate.at_least(target) });
        figures.push(Figure::new("lists", format!("{name}: p99"), micros_to_ms(p99), "ms"));
    }
    Ok(Outcome { figures, arrivals: Vec::new() })
}

/// Asks for the same page over all connections for a while: requests a second, and the 99th percentile.
async fn hammer(address: std::net::SocketAddr, path: &str, key: &str, time: Duration) -> (f64, f64) {
    let over = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (over, path, key) = (over.clone(), path.to_owned(), key.to_owned());
            tokio::spawn(async move {
                let mut took = Vec::new();
                let Ok(mut client) = Client::connect(address).await else { return took };
                while !over.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    if client.get(&path, &key).await.is_err() {
                        break;
                    }
                    took.push(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
                }
                took
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    over.store(true, Ordering::Relaxed);
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await.unwrap_or_default());
    }
    took.sort_unstable();
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    (per_second(took.len(), micros), percentile(&took, 0.99))
}
