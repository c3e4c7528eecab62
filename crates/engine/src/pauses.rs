//! Keeps the pauses that operators make known to the providers of this process.
//!
//! A pause stands in the database, so that it holds in every process and after a restart. Nothing is sent
//! before the pauses have been read once.

use std::collections::BTreeSet;
use std::time::Duration;

use settle_domain::provider::ProviderName;
use settle_store::{CALL_TIMEOUT, Store, StoreResult, within};
use tokio::time::sleep;

use crate::providers::Providers;

/// How often the pauses are read, and so how soon one holds in every process.
pub const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Reads the pauses now.
pub async fn look(providers: &Providers, store: &dyn Store) -> StoreResult<()> {
    let paused = within(CALL_TIMEOUT, store.provider_pauses()).await?;
    let paused: BTreeSet<ProviderName> = paused.into_iter().map(|pause| pause.provider).collect();
    for station in providers.all() {
        station.pause(paused.contains(station.name()));
    }
    Ok(())
}

/// Reads the pauses until told to stop; calls `known` once they are known. What was known last holds while
/// the database does not answer.
pub async fn follow(
    providers: Providers,
    store: std::sync::Arc<dyn Store>,
    known: impl FnOnce() + Send,
    stop: impl Future<Output = ()> + Send,
) {
    let mut known = Some(known);
    let following = async {
        loop {
            match look(&providers, &*store).await {
                Ok(()) => {
                    if let Some(known) = known.take() {
                        known();
                    }
                }
                Err(error) => tracing::warn!(%error, "the pauses of providers are not known"),
            }
            sleep(LOOK_INTERVAL).await;
        }
    };
    tokio::select! {
        () = following => {}
        () = stop => {}
    }
}
