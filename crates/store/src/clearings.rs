//! Clearings: endpoints that were cleared while more deliveries waited than one transaction ends.
//!
//! [`endpoint_clear`](crate::EndpointWrites::endpoint_clear) raises the merchant's epoch, so that nothing
//! that waited is ever sent, and ends a bounded number of deliveries in its own transaction: with few of
//! them, which is the rule, it ends all. Otherwise it leaves a clearing behind, and a task ends the others in
//! steps, each a short transaction under the merchant's lock. Until its step a delivery shows as pending, in
//! lists and in counts alike, and a redelivery refuses it as it refuses every pending one.
//!
//! Nothing but these steps changes a pending delivery of an earlier epoch: no claim finds it and no outcome
//! is recorded. So a clearing only ever gets smaller, and goes on where it was after a crash between two
//! steps.

use async_trait::async_trait;
use settle_domain::ids::MerchantId;

use crate::{MerchantLock, StoreResult};

/// The most deliveries that one transaction ends: ten milliseconds' work or so.
pub const ENDED_AT_ONCE_MAX: u32 = 500;

/// What one step of a clearing did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClearingStep {
    /// Deliveries that it ended.
    pub ended: u64,
    /// Deliveries that the clearing has left.
    pub left: u64,
}

/// What clearings have left, over all merchants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClearingsLeft {
    /// Merchants that have a clearing, in the order of their ids, as many as were asked for.
    pub merchants: Vec<MerchantId>,
    /// Deliveries of all merchants.
    pub deliveries: u64,
}

/// Questions about clearings.
#[async_trait]
pub trait ClearingReads {
    /// What clearings have left, and at most so many of their merchants.
    async fn clearing_left(&self, merchants_max: u32) -> StoreResult<ClearingsLeft>;
}

/// The steps of clearings.
#[async_trait]
pub trait ClearingWrites {
    /// Ends deliveries of the merchant's oldest clearing, at most `ended_max`, first due first, as of the
    /// time at which the endpoint was cleared. The clearing ends with its last delivery.
    async fn clearing_step(
        &mut self,
        lock: &MerchantLock,
        merchant: MerchantId,
        ended_max: u32,
    ) -> StoreResult<ClearingStep>;
}
