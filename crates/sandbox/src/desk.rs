//! Ledger and journal together: whatever is told is on the disk first.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use settle_domain::seams::Clock;
use settle_domain::time::Timestamp;
use settle_provider::signing::ProviderSecret;

use crate::broken::Broken;
use crate::journal::Journal;
use crate::ledger::{Held, Ledger};

/// What the handlers share.
pub(crate) struct Desk {
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) journal: Journal,
    pub(crate) secret: ProviderSecret,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) broken: Option<Broken>,
}

impl Desk {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn is(&self, broken: Broken) -> bool {
        self.broken == Some(broken)
    }

    /// Does something with the ledger, at the present time.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Ledger, Timestamp, &Journal) -> T) -> T {
        // Nothing panics while it is locked, so there is no half-changed ledger to fear.
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut ledger, self.now(), &self.journal)
    }

    /// Does something with the ledger, and gives what came of it when it is on the disk.
    pub(crate) async fn held<T>(
        &self,
        act: impl FnOnce(&mut Ledger, Timestamp, &Journal) -> Held<T>,
    ) -> io::Result<T> {
        let (told, line) = self.with(act);
        self.journal.written(line).await?;
        Ok(told)
    }
}
