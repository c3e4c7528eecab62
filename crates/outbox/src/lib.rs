//! Completing: a settlement and its notification in one transaction, and waking whoever must know.
//!
//! | module | what it does |
//! |---|---|
//! | [`work`] | a transaction whose commit wakes whoever must know of what it made due |
//! | [`recorder`] | completes settlements for many callers, who share a commit |
//! | [`imports`] | completes more settlements than one transaction can, all of them or none |
//! | [`wake`] | tells the dispatcher of this process at once that something is due |
//!
//! Whatever makes a delivery due commits through [`Work`]: the operator API, an import, a redelivery. There
//! is no second way to enqueue a notification, so nobody can forget to wake the dispatcher, or wake it before
//! the commit.

use std::sync::Arc;

use settle_domain::ids::MerchantId;
use settle_domain::seams::{Clock, Entropy};
use settle_store::{Store, StoreResult};

pub mod imports;
pub mod recorder;
pub mod wake;
pub mod work;

use wake::Wake;
use work::Work;

/// Begins transactions whose commit wakes whoever must know. Cheap to clone.
#[derive(Clone)]
pub struct Outbox {
    store: Arc<dyn Store>,
    wakes: Wakes,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    #[cfg(feature = "testing")]
    faults: Option<Arc<dyn Faults>>,
}

/// What a simulation does to transactions: each call may keep its step from happening, or hide that it has.
#[cfg(feature = "testing")]
pub trait Faults: Send + Sync {
    /// A transaction is about to begin. With an error it does not.
    fn begins(&self) -> StoreResult<()>;
    /// A transaction is about to be committed. With an error it is not.
    fn commits(&self) -> StoreResult<()>;
    /// A transaction was committed. An error is what its caller gets to see of it.
    fn committed(&self) -> StoreResult<()>;
}

/// Whom a commit wakes.
#[derive(Clone)]
enum Wakes {
    /// The dispatcher of this process, or the task that passes wake-ups on for a process that has none.
    ThisProcess(Wake),
    /// The dispatchers of other processes: a command has none, and ends soon.
    OtherProcesses,
}

impl Outbox {
    /// The outbox of a service.
    #[must_use]
    pub fn of_service(
        store: Arc<dyn Store>,
        wake: Wake,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Outbox {
        Outbox {
            store,
            wakes: Wakes::ThisProcess(wake),
            clock,
            entropy,
            #[cfg(feature = "testing")]
            faults: None,
        }
    }

    /// The same with faults: for a simulation.
    #[cfg(feature = "testing")]
    #[must_use]
    pub fn with_faults(self, faults: Arc<dyn Faults>) -> Outbox {
        Outbox { faults: Some(faults), ..self }
    }

    /// The outbox of a command, which wakes services that run elsewhere.
    #[must_use]
    pub fn of_command(store: Arc<dyn Store>, clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Outbox {
        Outbox {
            store,
            wakes: Wakes::OtherProcesses,
            clock,
            entropy,
            #[cfg(feature = "testing")]
            faults: None,
        }
    }

    /// Begins a transaction. Dropped without [`Work::commit`], it leaves no trace and wakes nobody.
    pub async fn begin(&self) -> StoreResult<Work> {
        #[cfg(feature = "testing")]
        self.faulty(|faults| faults.begins())?;
        Ok(Work::new(self.store.begin().await?, self.clone()))
    }

    /// Begins a step, whose commit need not wait for the disk: what a crash of the machine undoes must be
    /// done again by itself. It must enqueue no notifications: they could be sent and then be gone.
    pub(crate) async fn begin_step(&self) -> StoreResult<Work> {
        Ok(Work::new(self.store.begin_step().await?, self.clone()))
    }

    #[cfg(feature = "testing")]
    fn faulty(&self, step: impl FnOnce(&dyn Faults) -> StoreResult<()>) -> StoreResult<()> {
        self.faults.as_deref().map_or(Ok(()), step)
    }

    /// Tells the dispatchers of other processes that merchants have something due.
    async fn wake_others(&self, merchants: &[MerchantId]) {
        if !merchants.is_empty()
            && let Err(error) = self.store.wake_others(merchants).await
        {
            tracing::warn!(%error, "the service was not woken: it finds what is due when it looks next");
        }
    }
}
