//! Providers that operators have paused.

use settle_domain::actor::Actor;

use super::fixtures::{at, unique_uuid};
use crate::{PausedProvider, ProviderPause, Store};

/// A pause holds until somebody ends it, and names who made it first.
pub async fn a_pause_holds_until_it_is_ended(store: &dyn Store) {
    let name = format!("bank-{}", unique_uuid().simple());
    let provider: settle_domain::provider::ProviderName = name[..30].parse().unwrap();
    let first = ProviderPause { provider: provider.clone(), paused_by: Actor::Command, paused_at: at(1) };
    let second = ProviderPause { paused_by: Actor::Engine, paused_at: at(2), ..first.clone() };
    for pause in [&first, &second] {
        let mut tx = store.begin().await.unwrap();
        tx.provider_pause(pause).await.unwrap();
        tx.commit().await.unwrap();
    }
    let of_provider = |pauses: Vec<PausedProvider>| {
        pauses.into_iter().filter(|pause| pause.provider == provider).collect::<Vec<_>>()
    };
    let paused = PausedProvider {
        provider: provider.clone(),
        paused_by: Some(first.paused_by),
        paused_at: Some(first.paused_at),
    };
    assert_eq!(of_provider(store.provider_pauses().await.unwrap()), [paused]);
    for _ in 0..2 {
        let mut tx = store.begin().await.unwrap();
        tx.provider_resume(&provider).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(of_provider(store.provider_pauses().await.unwrap()), []);
}
