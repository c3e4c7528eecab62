//! Corridors: what was agreed for a merchant and a pair of assets, in versions that never change.
//!
//! Terms and internal pricing stand in tables of their own, as the domain keeps them in types of their own.

use async_trait::async_trait;
use settle_domain::actor::Actor;
use settle_domain::corridor::{Corridor, CorridorVersion, VersionedCorridor};
use settle_domain::ids::MerchantId;
use settle_domain::money::Asset;
use settle_domain::pricing::CorridorPricing;
use settle_domain::time::Timestamp;

use crate::{MerchantLock, StoreResult};

/// Which corridor: whose, from what, to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CorridorKey {
    /// The merchant.
    pub merchant_id: MerchantId,
    /// The currency that comes in.
    pub incoming: Asset,
    /// The asset that goes out.
    pub outgoing: Asset,
}

/// One version of a merchant's corridor, with what the operator earns on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCorridor {
    /// The merchant.
    pub merchant_id: MerchantId,
    /// The version.
    pub versioned: VersionedCorridor,
    /// What the operator earns.
    pub pricing: CorridorPricing,
}

impl StoredCorridor {
    /// Which corridor it is a version of.
    #[must_use]
    pub fn key(&self) -> CorridorKey {
        let terms = self.versioned.corridor.terms();
        CorridorKey { merchant_id: self.merchant_id, incoming: terms.incoming, outgoing: terms.outgoing }
    }
}

/// A version to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCorridor {
    /// The merchant.
    pub merchant_id: MerchantId,
    /// What was agreed.
    pub corridor: Corridor,
    /// What the operator earns.
    pub pricing: CorridorPricing,
    /// Who makes it.
    pub made_by: Actor,
    /// When.
    pub made_at: Timestamp,
}

/// Questions about corridors.
#[async_trait]
pub trait CorridorReads {
    /// All versions of a merchant's corridors, by assets, the newest version first.
    async fn corridor_list(&self, merchant: MerchantId) -> StoreResult<Vec<StoredCorridor>>;

    /// The newest version of each of the given corridors that exists.
    async fn corridor_find_many(&self, keys: &[CorridorKey]) -> StoreResult<Vec<StoredCorridor>>;

    /// One version of a corridor.
    async fn corridor_version(
        &self,
        key: CorridorKey,
        version: CorridorVersion,
    ) -> StoreResult<Option<StoredCorridor>>;
}

/// Changes to corridors.
#[async_trait]
pub trait CorridorWrites {
    /// Adds a version, and gives its number.
    async fn corridor_put(&mut self, lock: &MerchantLock, new: &NewCorridor) -> StoreResult<CorridorVersion>;
}
