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

/// Questions about providers.
#[async_trait]
pub trait ProviderReads {
    /// The providers that are paused, by name.
    async fn provider_pauses(&self) -> StoreResult<Vec<ProviderPause>>;
}

/// Changes to providers.
#[async_trait]
pub trait ProviderWrites {
    /// Pauses a provider. One that is paused already stays as it is.
    async fn provider_pause(&mut self, pause: &ProviderPause) -> StoreResult<()>;

    /// Lets a provider go on.
    async fn provider_resume(&mut self, provider: &ProviderName) -> StoreResult<()>;
}
