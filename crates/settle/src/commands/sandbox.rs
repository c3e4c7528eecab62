//! `settle sandbox`: a provider for development and tests. It needs no database and no settings.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use secrecy::{ExposeSecret, SecretString};
use settle_domain::webhook_secret::SECRET_BYTES_MAX;
use settle_provider::signing::ProviderSecret;
use settle_sandbox::{Sandbox, SandboxSettings};
use settle_wiring::config::SANDBOX_SECRET_VARIABLE;
use settle_wiring::system::{SystemClock, SystemEntropy};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::CommandError;
use crate::output;

/// The folder of the file, if none is given: the service's own.
const FOLDER: &str = "data";

#[derive(Debug, Args)]
pub(super) struct SandboxCommand {
    /// The address to listen on; port 0 picks a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4100")]
    listen: SocketAddr,
    /// The file that remembers what was executed
    ///
    /// [default: data/sandbox-PORT.jsonl; with port 0 nothing is remembered]
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// The secret that both sides sign with
    #[arg(long, env = SANDBOX_SECRET_VARIABLE, hide_env_values = true, default_value = "sandbox")]
    secret: SecretString,
}

impl SandboxCommand {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let secret = parse_secret(&self.secret)?;
        let (mut terminate, mut interrupt) =
            (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let listener = TcpListener::bind(self.listen).await.map_err(|fault| {
            CommandError::Refused(format!("--listen: cannot listen on {}: {fault}", self.listen))
        })?;
        let address = listener.local_addr()?;
        let data = self.data.or_else(|| default_data(self.listen.port()));
        if let Some(folder) = data.as_deref().and_then(Path::parent) {
            std::fs::create_dir_all(folder)
                .map_err(|fault| CommandError::Refused(format!("--data: {}: {fault}", folder.display())))?;
        }
        let note = hint(address, data.as_deref());
        let sandbox = Sandbox::open(SandboxSettings { data, secret }, Arc::new(SystemClock), &SystemEntropy);
        let sandbox = sandbox.map_err(|fault| CommandError::Refused(format!("--data: {fault}")))?;
        output::print_note(&note)?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        Ok(sandbox.serve(listener, stop).await?)
    }
}

/// A secret from the command line or the environment; a fault does not repeat it.
pub(super) fn parse_secret(secret: &SecretString) -> Result<ProviderSecret, CommandError> {
    ProviderSecret::parse(secret.expose_secret().to_owned()).map_err(|_| {
        CommandError::Refused(format!(
            "--secret: the secret of a provider is 1 to {SECRET_BYTES_MAX} bytes, without control characters"
        ))
    })
}

/// The same address gets the same file again, and two sandboxes do not share one.
fn default_data(port: u16) -> Option<PathBuf> {
    (port != 0).then(|| Path::new(FOLDER).join(format!("sandbox-{port}.jsonl")))
}

fn hint(address: SocketAddr, data: Option<&Path>) -> String {
    let memory = match data {
        Some(path) => format!("What it executes stays in {}.", path.display()),
        None => "It forgets everything when it ends.".to_owned(),
    };
    format!(
        "Listening on http://{address}, a provider of which nobody gets money. Ctrl-C ends it.\n{memory}\n\
         Let a Settle on this machine use it, with the same secret:\n  \
         SETTLE_PROVIDERS__SANDBOX__URL=http://{address} SETTLE_PROVIDERS__SANDBOX__SECRET=… settle serve"
    )
}
