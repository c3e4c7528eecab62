//! Lists: how many pages per second the merchant API serves.

use std::time::{Duration, Instant};

use super::{BATCH, CALLERS, Measured, Plan, Setup, micros_to_ms, per_second};
use crate::client::Client;
use crate::durations::Durations;
use crate::error::BenchError;
use crate::figures::Figure;
use crate::load::Load;
use crate::scratch::StoreKind;
use crate::service::MemoryPage;

/// The pages, by name and path.
const PAGES: [(&str, &str); 3] = [
    ("settlements", "/v1/settlements?limit=50"),
    ("deliveries", "/v1/webhook/deliveries?limit=50"),
    ("deliveries delivered", "/v1/webhook/deliveries?limit=50&status=delivered"),
];

/// Settlements of the merchant whose pages are read.
const ROWS: usize = 2_000;
/// Rows of a page, and a text that each row contains once.
const PAGE_ROWS: usize = 50;
const MARK: &[u8] = b"\"settlement_id\":";

/// Pages of 50 under 32 connections.
pub(crate) async fn lists(plan: &Plan) -> Result<Measured, BenchError> {
    let setup = Setup::start(plan, 1, ROWS).await?;
    let load = Load::new(setup.shops.clone(), &setup.token, ROWS, BATCH);
    let (_kept, address) = setup.address();
    load.post(1, address).await;
    let arrived = setup.arrivals.wait_for(ROWS, plan.scale.patience).await;
    if arrived != ROWS || setup.wrong_states(ROWS).await? > 0.0 {
        return Err(BenchError::Failed(format!("{arrived} of {ROWS} notifications have arrived")));
    }
    let target = if plan.store == StoreKind::Sqlite { 8_000.0 } else { 5_000.0 };
    let key = setup.shops[0].api_key.as_str();
    let mut figures = Vec::new();
    for (name, path) in PAGES {
        plan.progress.step(name, 0);
        let (rate, p99) = hammer(setup.service.api, path, key, 200, plan.scale.flood).await?;
        plan.progress.step(&format!("{name} from memory"), 0);
        // Measured right afterwards, so that the machine is in the same condition.
        let page = Client::connect(setup.service.api).await?.page(path, key).await?;
        let rows = page.windows(MARK.len()).filter(|window| *window == MARK).count();
        if rows != PAGE_ROWS {
            return Err(BenchError::Failed(format!("{path} has {rows} rows")));
        }
        let memory = MemoryPage::start(&setup.scratch, &page).await?;
        let (most, _) = hammer(memory.api, path, key, 200, plan.scale.flood).await?;
        let figure = |what: &str, value, unit| Figure::new("lists", format!("{name}: {what}"), value, unit);
        figures.extend([
            figure("pages", rate, "/s").at_least(target),
            figure("p99", micros_to_ms(p99), "ms"),
            figure("of the page from memory", rate / most, "×").at_least(0.4),
            Figure::new("limits", format!("{name}: the page from memory"), most, "/s"),
        ]);
    }
    let (rate, p99) = hammer(setup.service.api, "/v1/nothing", key, 404, plan.scale.flood).await?;
    figures.push(Figure::new("lists", "not found, the floor of HTTP", rate, "/s"));
    figures.push(Figure::new("lists", "not found: p99", micros_to_ms(p99), "ms"));
    figures.extend(setup.used("lists", ""));
    Ok(Measured::of(figures))
}

/// Reads the same page over all connections for a while: requests per second, and the 99th percentile.
async fn hammer(
    address: std::net::SocketAddr,
    path: &str,
    key: &str,
    expected: u16,
    time: Duration,
) -> Result<(f64, f64), BenchError> {
    let started = Instant::now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (path, key) = (path.to_owned(), key.to_owned());
            tokio::spawn(async move {
                let mut client = Client::connect(address).await?;
                let mut took = Durations::new();
                while started.elapsed() < time {
                    let asked = Instant::now();
                    let (status, _) = client.get(&path, &key).await?;
                    if status != expected {
                        return Err(std::io::Error::other(format!("{path} was answered with {status}")));
                    }
                    took.record(u64::try_from(asked.elapsed().as_micros()).unwrap_or(u64::MAX));
                }
                Ok(took)
            })
        })
        .collect();
    let mut took = Durations::new();
    for caller in callers {
        took += &caller.await.map_err(std::io::Error::other)??;
    }
    let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok((per_second(took.count(), micros), took.percentile(0.99)))
}
