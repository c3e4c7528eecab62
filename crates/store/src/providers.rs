//! Providers that operators have paused. The settings say which providers there are; a pause is the one thing
//! about them that all processes share.

use async_trait::async_trait;
use settle_domain::actor::Actor;
use settle_domain::provider::ProviderName;
use settle_domain::time::Timestamp;

use crate::StoreResult;

/// A provider to which nothing is sent. Look-ups go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderPause {
    /// Which provider.
    pub provider: ProviderName,
    /// Who paused it.
    pub paused_by: Actor,
    /// When.
    pub paused_at: Timestamp,
}

/// A provider that is paused, and what this version can read of its pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedProvider {
    /// Which provider.
    pub provider: ProviderName,
    /// Who paused it.
    pub paused_by: Option<Actor>,
    /// When.
    pub paused_at: Option<Timestamp>,
}

/// Questions about providers.
#[async_trait]
pub trait ProviderReads {
    /// The providers that are paused, by name. A pause holds although this version cannot read who made it or
    /// when; one whose provider it cannot name is left out, because the settings cannot name that one either.
    async fn provider_pauses(&self) -> StoreResult<Vec<PausedProvider>>;
}

/// Changes to providers.
#[async_trait]
pub trait ProviderWrites {
    /// Pauses a provider. One that is paused already stays as it is.
    async fn provider_pause(&mut self, pause: &ProviderPause) -> StoreResult<()>;

    /// Lets a provider go on.
    async fn provider_resume(&mut self, provider: &ProviderName) -> StoreResult<()>;
}
