//! Limits: the most this machine can do. The same client without store and signing, and the database without
//! Settle.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use settle_domain::ids::MerchantId;
use settle_domain::seams::Clock;
use settle_wiring::system::{SystemClock, SystemEntropy};

use super::{BATCH, BATCH_CALLERS, CALLERS, Measured, Plan};
use crate::arrivals::{Arrivals, receive};
use crate::bare_file::BareFile;
use crate::error::BenchError;
use crate::figures::{Figure, number};
use crate::load::completed;
use crate::process::{cpu_seconds, run};
use crate::scratch::{Scratch, Shop};

/// Posts of a merchant under way at once. The best number depends on the machine, so the best result counts.
const WINDOWS: [usize; 3] = [1, 3, 10];
/// How long the bare client may take to post everything: a hundred times what it takes.
const POSTS_TIMEOUT: Duration = Duration::from_mins(15);

/// The limits, each measured the way the service works.
pub(crate) async fn limits(plan: &Plan) -> Result<Measured, BenchError> {
    let scratch = Scratch::new(plan.store).await?;
    let (mut best, mut lost) = (Posts::default(), 0);
    for window in WINDOWS {
        plan.progress.step("bare POSTs", plan.scale.notifications);
        let posts = bare_posts(&scratch, plan, window).await?;
        lost += posts.lost;
        if posts.per_second > best.per_second {
            best = posts;
        }
    }
    plan.progress.step("bare commits", 0);
    let (batched, single) = bare_commits(&scratch, plan.scale.flood).await?;
    let figure = |name: &str, value, unit| Figure::new("limits", name, value, unit);
    let figures = vec![
        figure("bare POSTs of the same client", best.per_second, "/s"),
        figure("bare POSTs: lost", number(lost), "").at_most(0.0),
        figure("bare POSTs: processor, client", best.client_seconds, "s"),
        figure("bare POSTs: processor, receiver", best.receiver_seconds, "s"),
        figure("bare rows, 1,000 a commit", batched * number(BATCH), "/s"),
        figure("bare commits of one row, 32 callers", single, "/s"),
    ];
    Ok(Measured::of(figures))
}

/// The result of posting.
#[derive(Default)]
struct Posts {
    per_second: f64,
    lost: usize,
    client_seconds: f64,
    receiver_seconds: f64,
}

/// The same client posts the same notification from a process of its own, without store and signing.
async fn bare_posts(scratch: &Scratch, plan: &Plan, window: usize) -> Result<Posts, BenchError> {
    let scale = plan.scale;
    let arrivals = Arrivals::of(scale.notifications, &plan.progress);
    let endpoints = receive(arrivals.clone()).await?;
    let endpoints: Vec<String> = endpoints.iter().map(ToString::to_string).collect();
    let own = cpu_seconds(std::process::id());
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["bench", "post", "--endpoints", &endpoints.join(",")])
        .args(["--merchants", &scale.merchants.to_string(), "--window", &window.to_string()])
        .args(["--number", &scale.notifications.to_string()])
        .env_clear()
        .envs(scratch.settings().iter().map(|(name, value)| (name, value)))
        .current_dir(scratch.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let output = tokio::task::spawn_blocking(move || run(&mut command, POSTS_TIMEOUT));
    let output = output.await.map_err(std::io::Error::other)??;
    if !output.status.success() {
        return Err(BenchError::Failed("the bare client failed".to_owned()));
    }
    let times = arrivals.times();
    // From the first arrival on, so that the start of the process does not count.
    let micros = times.first().zip(times.last()).map_or(0, |(first, last)| last - first);
    Ok(Posts {
        per_second: super::per_second(times.len(), micros),
        lost: scale.notifications - times.len(),
        client_seconds: String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(f64::NAN),
        receiver_seconds: cpu_seconds(std::process::id()) - own,
    })
}

/// Transactions per second of the bare database: with 1,000 rows each, and with one row each from many
/// callers.
async fn bare_commits(scratch: &Scratch, time: Duration) -> Result<(f64, f64), BenchError> {
    let merchant_id = MerchantId::new(SystemClock.now(), &SystemEntropy);
    let shop = Shop { merchant_id, api_key: String::new() };
    let record = completed(&shop, 0)?.settlement.record().into_string();
    if let Some(postgres) = scratch.postgres() {
        postgres.bare_table()?;
        let batched = postgres.bare_commits(scratch.folder(), record.len(), BATCH, BATCH_CALLERS, time)?;
        let single = postgres.bare_commits(scratch.folder(), record.len(), 1, CALLERS, time)?;
        return Ok((batched, single));
    }
    let file = Arc::new(BareFile::create(&scratch.folder().join("bare.db"))?);
    let batched =
        sqlite_commits(&file, &record, i64::try_from(BATCH).unwrap_or(1), BATCH_CALLERS, time).await?;
    let single = sqlite_commits(&file, &record, 1, CALLERS, time).await?;
    Ok((batched, single))
}

async fn sqlite_commits(
    file: &Arc<BareFile>,
    record: &str,
    rows: i64,
    callers: usize,
    time: Duration,
) -> Result<f64, BenchError> {
    let started = Instant::now();
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let (file, record) = (file.clone(), record.to_owned());
            tokio::spawn(async move {
                let mut commits = 0;
                while started.elapsed() < time {
                    file.commit(rows, &record).await?;
                    commits += 1;
                }
                Ok::<usize, BenchError>(commits)
            })
        })
        .collect();
    let mut commits = 0;
    for caller in callers {
        commits += caller.await.map_err(std::io::Error::other)??;
    }
    Ok(number(commits) / started.elapsed().as_secs_f64())
}
