//! The real service, in a process of its own.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::error::BenchError;
use crate::ports::free_address;
use crate::process::Process;
use crate::scratch::Scratch;

/// How long a start may take before the benchmark gives up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the benchmark asks a starting service whether it is ready.
const READY_POLL: Duration = Duration::from_millis(2);

/// A running service, killed when dropped.
pub(crate) struct Service {
    process: Process,
    pub(crate) api: SocketAddr,
    pub(crate) operator: SocketAddr,
    /// The time from the start of the process until it was ready.
    pub(crate) ready_after: Duration,
}

impl Service {
    /// Starts the whole service on the given store, and waits until it is ready.
    pub(crate) async fn start(scratch: &Scratch) -> Result<Service, BenchError> {
        Service::start_with(scratch, &[]).await
    }

    /// The same without the dispatcher: deliveries stay pending.
    pub(crate) async fn start_without_dispatcher(scratch: &Scratch) -> Result<Service, BenchError> {
        Service::start_with(scratch, &["--role", "api,operator"]).await
    }

    async fn start_with(scratch: &Scratch, arguments: &[&str]) -> Result<Service, BenchError> {
        let folder = scratch.folder();
        let (api, operator) = (free_address()?, free_address()?);
        let log = std::fs::File::options().create(true).append(true).open(folder.join("serve.log"))?;
        let started = Instant::now();
        let child = Command::new(std::env::current_exe()?)
            .arg("serve")
            .args(arguments)
            .env_clear()
            .envs(scratch.settings().iter().map(|(name, value)| (name, value)))
            .env("SETTLE_API__LISTEN", api.to_string())
            .env("SETTLE_OPERATOR__LISTEN", operator.to_string())
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        let process = Process::new(child);
        let mut service = Service { process, api, operator, ready_after: Duration::ZERO };
        while !service.is_ready().await {
            if started.elapsed() > START_TIMEOUT || service.process.has_ended()? {
                let log = std::fs::read_to_string(folder.join("serve.log")).unwrap_or_default();
                return Err(BenchError::Failed(format!("the service does not start: {log}")));
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

    /// Kills it, as a crash would.
    pub(crate) fn kill(self) -> Result<(), BenchError> {
        Ok(self.process.kill()?)
    }

    /// Processor seconds it has used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.process.cpu_seconds()
    }

    /// Resident memory now and at most, in MiB.
    pub(crate) fn memory_mib(&self) -> (f64, f64) {
        self.process.memory_mib()
    }
}

/// A page of the merchant API, served from memory by a process of its own.
pub(crate) struct MemoryPage {
    pub(crate) process: Process,
    pub(crate) api: SocketAddr,
}

impl MemoryPage {
    /// Serves these bytes as every page.
    pub(crate) async fn start(scratch: &Scratch, page: &[u8]) -> Result<MemoryPage, BenchError> {
        let (file, api) = (scratch.folder().join("page.json"), free_address()?);
        std::fs::write(&file, page)?;
        let child = Command::new(std::env::current_exe()?)
            .args(["bench", "page", "--listen", &api.to_string()])
            .arg(file)
            .env_clear()
            .current_dir(scratch.folder())
            // The child ends when this pipe closes.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        let mut page = MemoryPage { process: Process::new(child), api };
        let started = Instant::now();
        while Client::connect(api).await.is_err() {
            if started.elapsed() > START_TIMEOUT || page.process.has_ended()? {
                return Err(BenchError::Failed("the page from memory is not served".to_owned()));
            }
            tokio::time::sleep(READY_POLL).await;
        }
        Ok(page)
    }
}
