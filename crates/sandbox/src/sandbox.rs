//! A sandbox: opened on its file, served on a listener.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use settle_domain::seams::{Clock, Entropy, random_bytes};
use settle_provider::signing::ProviderSecret;
use tokio::net::TcpListener;
use uuid::Uuid;

#[cfg(feature = "testing")]
use crate::broken::Broken;
use crate::desk::Desk;
use crate::http;
use crate::journal::{Entry, Journal, JournalError};
use crate::ledger::Ledger;
use crate::server;

/// What a sandbox needs to know.
pub struct SandboxSettings {
    /// Its file; without one it forgets everything when it ends.
    pub data: Option<PathBuf>,
    /// What both sides sign with.
    pub secret: ProviderSecret,
}

/// Why a sandbox cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{}: {cause}", path.display())]
pub struct OpenError {
    path: PathBuf,
    #[source]
    cause: JournalError,
}

/// A provider of which nobody gets money.
pub struct Sandbox {
    desk: Arc<Desk>,
}

impl Sandbox {
    /// Opens the file, or makes it: then this is a new instance.
    pub fn open(
        settings: SandboxSettings,
        clock: Arc<dyn Clock>,
        entropy: &dyn Entropy,
    ) -> Result<Sandbox, OpenError> {
        let path = settings.data;
        let (journal, entries) = match &path {
            Some(path) => Journal::open(path).map_err(|cause| OpenError { path: path.clone(), cause })?,
            None => (Journal::in_memory(), Vec::new()),
        };
        let is_new = entries.is_empty();
        let mut ledger = Ledger::new(String::new());
        for entry in entries {
            ledger.apply(entry, 0);
        }
        if !is_new && ledger.instance.is_empty() {
            let fault = "it does not begin with an instance".to_owned();
            let cause = JournalError::Unreadable { line: 1, fault };
            return Err(OpenError { path: path.unwrap_or_default(), cause });
        }
        if is_new {
            let instance = Uuid::from_bytes(random_bytes(entropy)).to_string();
            ledger.record(Entry::Instance(instance), &journal);
        }
        let desk = Desk { ledger: Mutex::new(ledger), journal, secret: settings.secret, clock, broken: None };
        Ok(Sandbox { desk: Arc::new(desk) })
    }

    /// The same sandbox, with a fault.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn broken(mut self, broken: Broken) -> Sandbox {
        self.desk.with(|ledger, _, _| ledger.break_it(broken));
        // Nobody else has it before it serves.
        if let Some(desk) = Arc::get_mut(&mut self.desk) {
            desk.broken = Some(broken);
        }
        self
    }

    /// The same sandbox, which says that it is none.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn pretending_to_be_real(self) -> Sandbox {
        self.desk.with(|ledger, _, _| ledger.says_sandbox = false);
        self
    }

    /// Answers until `stop` ends, or until the file can no longer be written.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>) -> io::Result<()> {
        let router = http::router(self.desk.clone());
        tokio::select! {
            () = server::serve(listener, router, stop) => Ok(()),
            fault = self.desk.journal.failed() => Err(fault),
        }
    }
}
