//! The providers of payments: the real sandbox, in a process of its own, and one that never answers.

use std::collections::HashSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use settle_domain::actor::Actor;
use settle_domain::corridor::{ALERT_AFTER, Corridor, CorridorTerms};
use settle_domain::pricing::CorridorPricing;
use settle_domain::seams::Clock;
use settle_store::NewCorridor;
use settle_wiring::Context;
use settle_wiring::system::SystemClock;
use tokio::net::TcpListener;

use crate::client::Client;
use crate::error::BenchError;
use crate::ports::free_address;
use crate::process::Process;
use crate::scratch::{Scratch, Shop};

/// What the service and its providers sign with.
const SECRET: &str = "benchmark";
/// How long the sandbox may take to start, and how often the benchmark looks.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const START_POLL: Duration = Duration::from_millis(5);

/// A running sandbox, killed when dropped.
pub(crate) struct Sandbox {
    process: Process,
    address: SocketAddr,
}

/// What the sandbox says that it has executed.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Executed {
    pub(crate) payouts: usize,
    /// Payouts and conversions that were executed more than once, or a second one for the same payment.
    pub(crate) twice: usize,
}

#[derive(Deserialize)]
struct Page {
    executions: Vec<Execution>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Execution {
    kind: String,
    reference: String,
    times: u64,
}

impl Sandbox {
    /// Starts a sandbox that keeps its file beside the scratch store, and adds it to the settings.
    pub(crate) async fn start(scratch: &mut Scratch, name: &str) -> Result<Sandbox, BenchError> {
        let address = free_address()?;
        let child = Command::new(std::env::current_exe()?)
            .args(["sandbox", "--secret", SECRET, "--listen", &address.to_string()])
            .arg("--data")
            .arg(scratch.folder().join(format!("{name}.jsonl")))
            .env_clear()
            .current_dir(scratch.folder())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut sandbox = Sandbox { process: Process::new(child), address };
        let started = Instant::now();
        while Client::connect(address).await.is_err() {
            if started.elapsed() > START_TIMEOUT || sandbox.process.has_ended()? {
                return Err(BenchError::Failed("the sandbox does not start".to_owned()));
            }
            tokio::time::sleep(START_POLL).await;
        }
        scratch.provider(name, address, SECRET);
        Ok(sandbox)
    }

    /// Processor seconds it has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.process.cpu_seconds()
    }

    /// What it has executed.
    pub(crate) async fn executed(&self) -> Result<Executed, BenchError> {
        let mut client = Client::connect(self.address).await?;
        let (mut executed, mut seen) = (Executed::default(), HashSet::new());
        let mut after = "0".to_owned();
        loop {
            let page = client.page(&format!("/sandbox/executions?after={after}"), "").await?;
            let page: Page = serde_json::from_slice(&page).map_err(std::io::Error::other)?;
            for execution in page.executions {
                executed.payouts += usize::from(execution.kind == "payout");
                let is_repeated = execution.times != 1 || !seen.insert((execution.kind, execution.reference));
                executed.twice += usize::from(is_repeated);
            }
            match page.next {
                Some(next) => after = next,
                None => return Ok(executed),
            }
        }
    }
}

/// Adds a provider that takes every connection and never answers, until the runtime ends.
pub(crate) async fn silent(scratch: &mut Scratch, name: &str) -> Result<(), BenchError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    scratch.provider(name, listener.local_addr()?, SECRET);
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            taken.push(stream);
        }
    });
    Ok(())
}

/// Lets these merchants settle BRL as USDC through the provider.
pub(crate) async fn agree(context: &Context, shops: &[Shop], provider: &str) -> Result<(), BenchError> {
    let unusable = |fault: &dyn std::fmt::Debug| BenchError::Failed(format!("a corridor: {fault:?}"));
    let decimal = |text: &str| text.parse().map_err(|fault| unusable(&fault));
    let asset = |code: &str| code.parse().map_err(|fault| unusable(&fault));
    let terms = CorridorTerms {
        incoming: asset("BRL")?,
        outgoing: asset("USDC")?,
        fee_percentage: decimal("1.5")?,
        fee_fixed: decimal("0.25")?,
        minimum: None,
        maximum: None,
        provider: provider.parse().map_err(|fault| unusable(&fault))?,
        alert_after: ALERT_AFTER,
    };
    let corridor = Corridor::new(terms).map_err(|faults| unusable(&faults))?;
    let pricing = CorridorPricing::new(decimal("0.8")?, None, None).map_err(|faults| unusable(&faults))?;
    for shop in shops {
        let mut tx = context.store.begin().await?;
        let lock = tx.merchant_lock(&[shop.merchant_id]).await?;
        let new = NewCorridor {
            merchant_id: shop.merchant_id,
            corridor: corridor.clone(),
            pricing: pricing.clone(),
            made_by: Actor::Command,
            made_at: SystemClock.now(),
        };
        tx.corridor_put(&lock, &new).await?;
        tx.commit().await?;
    }
    Ok(())
}
