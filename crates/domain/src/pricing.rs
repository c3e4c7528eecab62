//! Our earnings on a settlement. They have their own type and table: no type that a merchant sees can name
//! them.

use serde::{Deserialize, Serialize};

use crate::money::Decimal;

/// The internal pricing of one settlement. Never part of a merchant's record, notification or log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InternalPricing {
    /// The provider's rate: incoming units per outgoing unit.
    pub provider_rate: Decimal,
    /// Our revenue from the spread between the provider's and the merchant's rate, in the outgoing asset.
    pub spread_revenue: Decimal,
    /// The partner's commission, in the outgoing asset.
    pub partner_commission: Decimal,
}
