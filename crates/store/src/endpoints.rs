//! The webhook endpoint of a merchant: at most one, never without a secret.

use async_trait::async_trait;
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;

use crate::{ClearingStep, MerchantLock, StoreResult};

/// Questions about endpoints.
#[async_trait]
pub trait EndpointReads {
    /// A merchant's endpoint, if it has one.
    async fn endpoint_find(&self, merchant: MerchantId) -> StoreResult<Option<Endpoint>>;
}

/// Changes to endpoints.
#[async_trait]
pub trait EndpointWrites {
    /// The endpoints of the given merchants, as this transaction sees them. Nobody else can change them until
    /// it ends.
    async fn endpoint_find_locked(
        &mut self,
        lock: &MerchantLock,
        merchants: &[MerchantId],
    ) -> StoreResult<Vec<(MerchantId, Endpoint)>>;

    /// Stores a merchant's endpoint, in place of the one it had.
    async fn endpoint_put(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        endpoint: &Endpoint,
    ) -> StoreResult<()>;

    /// Removes a merchant's endpoint and secret, and ends its pending deliveries: they become dead and
    /// `last_error` says why. Of more than `ended_max` it ends the first due, and leaves a clearing for the
    /// others, which [`clearing_step`](crate::ClearingWrites::clearing_step) ends. No claim finds them any
    /// more.
    async fn endpoint_clear(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        at: Timestamp,
        ended_max: u32,
    ) -> StoreResult<ClearingStep>;
}
