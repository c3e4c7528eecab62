//! The real service, in a process of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::client::Client;
use super::ground::Ground;
use crate::commands::CommandFault;

/// How long a start may take before the benchmark gives up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a service that starts is asked whether it is ready.
const READY_POLL: Duration = Duration::from_millis(2);
/// The kernel's clock ticks, in which it counts processor time.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running service. It is killed when it is dropped.
pub(super) struct Service {
    child: Child,
    pub(super) api: SocketAddr,
    pub(super) operator: SocketAddr,
    /// How long it took from the start of the process until it was ready.
    pub(super) ready_after: Duration,
}

impl Service {
    /// Starts all of the service on the given ground, and waits until it is ready.
    pub(super) async fn start(ground: &Ground) -> Result<Service, CommandFault> {
        Service::start_with(ground, &[]).await
    }

    /// The same without what sends: whatever is recorded stays pending.
    pub(super) async fn start_without_dispatcher(ground: &Ground) -> Result<Service, CommandFault> {
        Service::start_with(ground, &["--role", "api,operator"]).await
    }

    async fn start_with(ground: &Ground, arguments: &[&str]) -> Result<Service, CommandFault> {
        let folder = ground.folder();
        let (api, operator) = (free_address()?, free_address()?);
        let log = std::fs::File::options().create(true).append(true).open(folder.join("serve.log"))?;
        let started = Instant::now();
        let child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .args(arguments)
            .env_clear()
            .envs(ground.settings().iter().map(|(name, value)| (name, value)))
            .env("SETTLE_API__LISTEN", api.to_string())
            .env("SETTLE_OPERATOR__LISTEN", operator.to_string())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let mut service = Service { child, api, operator, ready_after: Duration::ZERO };
        while !service.is_ready().await {
            if started.elapsed() > START_TIMEOUT || service.child.try_wait()?.is_some() {
                let log = std::fs::read_to_string(folder.join("serve.log")).unwrap_or_default();
                return Err(CommandFault::Refused(format!("the service does not start: {log}")));
            }
            tokio::time::sleep(READY_POLL).await;
        }
        service.ready_after = started.elapsed();
        Ok(service)
    }

    async fn is_ready(&self) -> bool {
        let Ok(mut client) = Client::connect(self.operator).await else { return false };
        client.get("/readyz", "").await.is_ok_and(|(status, _)| status == 200)
    }

    /// Ends it as a crash does.
    pub(super) fn kill(mut self) -> Result<(), CommandFault> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Processor seconds it has used.
    pub(super) fn cpu_seconds(&self) -> f64 {
        cpu_seconds(self.child.id())
    }

    /// Resident memory now and at most, in MiB.
    pub(super) fn memory_mib(&self) -> (f64, f64) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let read = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib: f64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
            kib / 1_024.0
        };
        (read("VmRSS:"), read("VmHWM:"))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already; then there is nobody to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor seconds that a process has used, in its own code and in the kernel.
pub(super) fn cpu_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything; what follows is numbers.
    let numbers = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = numbers.skip(11).take(2).filter_map(|text| text.parse::<f64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}

fn free_address() -> Result<SocketAddr, CommandFault> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}
