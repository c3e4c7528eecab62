//! What the house earns on a settlement. Kept apart in type and table: no merchant-facing type can name it.

use serde::{Deserialize, Serialize};

use crate::money::Decimal;

/// The internal pricing of one settlement. Never part of a merchant's record, notification or log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InternalPricing {
    /// The rate the provider gave: incoming units per outgoing unit.
    pub provider_rate: Decimal,
    /// What the spread between the provider's and the merchant's rate earned, in the outgoing asset.
    pub spread_revenue: Decimal,
    /// What a partner earned on it, in the outgoing asset.
    pub partner_commission: Decimal,
}
