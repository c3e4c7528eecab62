//! What is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use settle_domain::delivery::DeliveryStatus;
use settle_domain::endpoint::WebhookSecret;
use settle_domain::ids::DeliveryId;
use settle_domain::page::PageRequest;
use settle_domain::seams::Clock;
use settle_webhooks::notification::Notification;
use settle_webhooks::sender::Transport;
use tokio::sync::watch;

use super::arrivals::{Arrivals, HANGING_PATH, receive};
use super::client::Client;
use super::figures::{Figure, number, percentile};
use super::ground::{Ground, Shop, StoreKind};
use super::load::{Load, at_rate, settlement};
use super::service::{Service, cpu_seconds};
use crate::commands::{CommandFault, Context};
use crate::system::{SystemClock, SystemEntropy};
use crate::wiring;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// Notifications of `deliver`, `recovery` and `isolation`.
    pub(super) notifications: usize,
    pub(super) merchants: usize,
    /// How long a steady rate is held.
    pub(super) steady: Duration,
}

/// Settlements in one call of the batched scenarios.
const BATCH: usize = 1_000;
/// Calls under way in the batched scenarios.
const BATCH_CALLERS: usize = 2;
/// Calls under way where each records one settlement, and connections of `lists`.
const CALLERS: usize = 32;
/// How long the last arrival may take.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a scenario gave: its figures, and when what arrived, for the plot.
pub(super) struct Outcome {
    pub(super) figures: Vec<Figure>,
    pub(super) arrivals: Vec<u64>,
}

fn micros_to_ms(micros: f64) -> f64 {
    micros / 1_000.0
}

fn per_second(count: usize, micros: u64) -> f64 {
    number(count) * 1e6 / number(micros.max(1))
}

/// A running service with merchants, and who takes their notifications.
struct Stage {
    ground: Ground,
    context: Context,
    service: Service,
    arrivals: Arc<Arrivals>,
    shops: Arc<Vec<Shop>>,
    token: String,
}

impl Stage {
    async fn set(kind: StoreKind, merchants: usize, notifications: usize) -> Result<Stage, CommandFault> {
        let ground = Ground::new(kind).await?;
        let arrivals = Arrivals::of(notifications);
        let endpoints = receive(arrivals.clone()).await?;
        let context = ground.open().await?;
        let shops = Arc::new(ground.shops(&context, merchants, &endpoints, "/hook").await?);
        let token = ground.operator(&context).await?;
        let service = Service::start(ground.settings(), ground.folder()).await?;
        Ok(Stage { ground, context, service, arrivals, shops, token })
    }

    fn address(&self) -> (watch::Sender<std::net::SocketAddr>, watch::Receiver<std::net::SocketAddr>) {
        watch::channel(self.service.operator)
    }

    /// How many deliveries stand in the wrong place: everything must be delivered, once the last outcome is
    /// recorded.
    async fn wrong_states(&self, expected: usize) -> Result<f64, CommandFault> {
        let deadline = Instant::now() + Duration::from_secs(15);
        loop {
            let mut delivered = 0;
            for shop in self.shops.iter() {
                let page =
                    PageRequest::new(1, 0).ok_or_else(|| CommandFault::Refused("a page".to_owned()))?;
                let status = Some(DeliveryStatus::Delivered);
                delivered += self.context.store.delivery_page(shop.merchant_id, status, page).await?.total;
            }
            let delivered = usize::try_from(delivered).unwrap_or(0);
            if delivered == expected || Instant::now() > deadline {
                return Ok(number(expected.abs_diff(delivered)));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Notifications recorded through the operator API, from the first call to the last arrival.
pub(super) async fn deliver(kind: StoreKind, scale: Scale, batched: bool) -> Result<Outcome, CommandFault> {
    let stage = Stage::set(kind, scale.merchants, scale.notifications).await?;
    let (batch, callers) = if batched { (BATCH, BATCH_CALLERS) } else { (1, CALLERS) };
    let name = if batched { "batched" } else { "one a call" };
    let load = Load::new(stage.shops.clone(), &stage.token, scale.notifications, batch);
    let (_kept, address) = stage.address();
    let (own, started) = (cpu_seconds(std::process::id()), stage.arrivals.now());
    load.post(callers, address).await;
    let accepted_at = stage.arrivals.now();
    stage.arrivals.wait_for(scale.notifications, PATIENCE).await;
    let (unique, total) = stage.arrivals.counts();
    let rate = per_second(unique, stage.arrivals.last().saturating_sub(started));
    let recorded = per_second(scale.notifications, accepted_at - started);
    let (idle, most) = stage.service.memory_mib();
    let wrong = stage.wrong_states(scale.notifications).await?;
    let target = if batched { 9_000.0 } else { 5_000.0 };
    let figure =
        |what: &str, value: f64, unit| Figure::new("deliver", format!("{name}: {what}"), value, unit);
    let mut figures = vec![
        figure("deliveries", rate, "/s").at_least(target),
        figure("recorded", recorded, "/s"),
        figure("lost", number(scale.notifications - unique), "").at_most(0.0),
        figure("wrong state", wrong, "").at_most(0.0),
        figure("duplicates", number(total - unique), ""),
        figure("resident at most", most.max(idle), "MiB").at_most(200.0),
        figure("processor, service", stage.service.cpu_seconds(), "s"),
        figure("processor, receiver and caller", cpu_seconds(std::process::id()) - own, "s"),
    ];
    if let Some(seconds) = stage.ground.database_cpu_seconds() {
        figures.push(figure("processor, database", seconds, "s"));
    }
    Ok(Outcome { figures, arrivals: stage.arrivals.times() })
}

/// From a call to the arrival, at steady rates.
pub(super) async fn latency(kind: StoreKind, scale: Scale) -> Result<Outcome, CommandFault> {
    let mut figures = Vec::new();
    for (rate, p50_max, p99_max) in [(50, Some(2.0), 4.0), (500, None, 10.0)] {
        let count = usize::try_from(u64::from(rate) * scale.steady.as_secs().max(1)).unwrap_or(0);
        // The first second warms up connections and plans.
        let warm_up = usize::try_from(rate).unwrap_or(0);
        let stage = Stage::set(kind, scale.merchants, warm_up + count).await?;
        let (shops, token, operator) = (&stage.shops, stage.token.as_str(), stage.service.operator);
        at_rate(shops, token, operator, &stage.arrivals, 0..warm_up, rate).await;
        let took = at_rate(shops, token, operator, &stage.arrivals, warm_up..warm_up + count, rate).await;
        let lost = took.iter().filter(|latency| latency.is_none()).count();
        let mut sorted: Vec<u64> = took.into_iter().flatten().collect();
        sorted.sort_unstable();
        let at = |part| micros_to_ms(percentile(&sorted, part));
        let figure = |what: &str, value| Figure::new("latency", format!("{rate}/s: {what}"), value, "ms");
        let p50 = figure("p50", at(0.5));
        figures.push(p50_max.map_or(p50.clone(), |most| p50.at_most(most)));
        figures.push(figure("p99", at(0.99)).at_most(p99_max));
        figures.push(figure("p99.9", at(0.999)));
        figures.push(Figure::new("latency", format!("{rate}/s: lost"), number(lost), "").at_most(0.0));
    }
    Ok(Outcome { figures, arrivals: Vec::new() })
}

/// A `kill -9` in the middle of `deliver`, and a restart at once.
pub(super) async fn recovery(kind: StoreKind, scale: Scale) -> Result<Outcome, CommandFault> {
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
    stage.service = Service::start(stage.ground.settings(), stage.ground.folder()).await?;
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

/// Others' latency while one merchant's endpoint hangs on everything that is due.
pub(super) async fn isolation(kind: StoreKind, scale: Scale) -> Result<Outcome, CommandFault> {
    const RATE: u32 = 100;
    let count = usize::try_from(u64::from(RATE) * scale.steady.as_secs().max(1)).unwrap_or(0);
    let stage = Stage::set(kind, scale.merchants, 3 * count + scale.notifications).await?;
    let (shops, token, operator) = (&stage.shops, stage.token.as_str(), stage.service.operator);
    let arrivals = &stage.arrivals;
    let measure = async |numbers: std::ops::Range<usize>| {
        let took = at_rate(shops, token, operator, arrivals, numbers, RATE).await;
        let mut sorted: Vec<u64> = took.into_iter().flatten().collect();
        sorted.sort_unstable();
        micros_to_ms(percentile(&sorted, 0.99))
    };
    measure(0..count).await;
    let alone = measure(count..2 * count).await;
    let endpoints = receive(arrivals.clone()).await?;
    let hanging = Arc::new(stage.ground.shops(&stage.context, 1, &endpoints, HANGING_PATH).await?);
    let load = Load::new(hanging, token, scale.notifications, BATCH);
    let (_kept, address) = stage.address();
    load.post(BATCH_CALLERS, address).await;
    let beside = measure(2 * count..3 * count).await;
    let figures = vec![
        Figure::new("isolation", "p99 alone", alone, "ms"),
        Figure::new("isolation", "p99 beside a hanging merchant", beside, "ms").at_most(15.0),
        Figure::new("isolation", "ratio", beside / alone, "×").at_most(2.0),
    ];
    Ok(Outcome { figures, arrivals: Vec::new() })
}

/// Pages of 50 under 32 connections.
pub(super) async fn lists(kind: StoreKind, scale: Scale) -> Result<Outcome, CommandFault> {
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

/// From the start of the process to ready, and what it takes then.
pub(super) async fn start(kind: StoreKind) -> Result<Outcome, CommandFault> {
    let ground = Ground::new(kind).await?;
    drop(ground.open().await?);
    let service = Service::start(ground.settings(), ground.folder()).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let figures = vec![
        Figure::new("start", "ready after", service.ready_after.as_secs_f64() * 1e3, "ms").at_most(150.0),
        Figure::new("start", "resident, idle", service.memory_mib().0, "MiB").at_most(40.0),
    ];
    Ok(Outcome { figures, arrivals: Vec::new() })
}

/// The same notification by the same client, without store and signing: what the machine can do at most.
pub(super) async fn limits(scale: Scale) -> Result<Outcome, CommandFault> {
    let arrivals = Arrivals::of(scale.notifications);
    let endpoints = receive(arrivals.clone()).await?;
    let ground = Ground::new(StoreKind::Sqlite).await?;
    let context = ground.open().await?;
    let shops = ground.shops(&context, 1, &endpoints, "/hook").await?;
    let guard = wiring::guard(&context.config)?;
    let sender: Arc<dyn Transport> = Arc::new(wiring::sender(&context.config, guard)?);
    let secret = WebhookSecret::parse("benchmark".to_owned());
    let secret = secret.map_err(|_| CommandFault::Refused("no secret".to_owned()))?;
    let now = SystemClock.now();
    let delivery = DeliveryId::new(now, &SystemEntropy);
    let next = Arc::new(AtomicUsize::new(0));
    let started = arrivals.now();
    let senders: Vec<_> = (0..2 * CALLERS)
        .map(|position| {
            let url = format!("http://{}/hook", endpoints[position % endpoints.len()]);
            let signed = Notification::sign(&secret, delivery, Vec::new(), now);
            let body = settlement(&shops[0], 0);
            let (sender, next) = (sender.clone(), next.clone());
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= scale.notifications {
                        return;
                    }
                    let body = body.replacen("\"B0\"", &format!("\"B{number}\""), 1).into_bytes();
                    let notification = Notification { headers: signed.headers.clone(), body };
                    sender.attempt(&url, notification).await;
                }
            })
        })
        .collect();
    for task in senders {
        let _ = task.await;
    }
    let rate = per_second(arrivals.counts().0, arrivals.last().saturating_sub(started));
    let figures = vec![Figure::new("limits", "bare POSTs of the same client", rate, "/s")];
    Ok(Outcome { figures, arrivals: Vec::new() })
}
