//! Our earnings: what a corridor is to bring, and what a settlement brought. They have their own types and
//! tables: no type that a merchant sees can name them.

use serde::{Deserialize, Serialize};

use crate::corridor::CorridorFault;
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

/// The longest name of a partner, in bytes.
const PARTNER_BYTES_MAX: usize = 128;

/// What a corridor earns besides its fees. It has the version of its corridor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorridorPricing {
    spread: Decimal,
    partner: Option<Partner>,
}

/// Who gets a part of the spread, and how much.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partner {
    /// The partner's name.
    pub name: String,
    /// The partner's part of the spread, in percent: 0 to 100.
    pub commission: Decimal,
}

impl CorridorPricing {
    /// A corridor that earns its fees alone.
    pub const NONE: CorridorPricing = CorridorPricing { spread: Decimal::ZERO, partner: None };

    /// Judges a pricing. A partner and its commission belong together.
    pub fn new(
        spread: Decimal,
        partner: Option<String>,
        commission: Option<Decimal>,
    ) -> Result<CorridorPricing, Vec<CorridorFault>> {
        let mut faults = Vec::new();
        let is_name = |name: &String| {
            !name.is_empty() && name.len() <= PARTNER_BYTES_MAX && !name.chars().any(char::is_control)
        };
        if partner.as_ref().is_some_and(|name| !is_name(name)) {
            faults.push(CorridorFault::new("partner", "must be a name of up to 128 bytes"));
        }
        if commission.is_some_and(|percent| percent > Decimal::HUNDRED) {
            faults.push(CorridorFault::new("commission", "must be at most 100 percent of the spread"));
        }
        match (&partner, commission) {
            (Some(_), None) => faults.push(CorridorFault::new("commission", "is required with a partner")),
            (None, Some(_)) => faults.push(CorridorFault::new("partner", "is required with a commission")),
            (Some(_), Some(_)) | (None, None) => {}
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let partner = partner.zip(commission);
        let partner = partner.map(|(name, percent)| Partner { name, commission: percent.normalized() });
        Ok(CorridorPricing { spread: spread.normalized(), partner })
    }

    /// The spread in percent of the provider's rate.
    #[must_use]
    pub const fn spread(&self) -> Decimal {
        self.spread
    }

    /// Who gets a part of the spread.
    #[must_use]
    pub const fn partner(&self) -> Option<&Partner> {
        self.partner.as_ref()
    }

    /// The partner's part of the spread, in percent: 0 without a partner.
    #[must_use]
    pub fn commission(&self) -> Decimal {
        self.partner.as_ref().map_or(Decimal::ZERO, |partner| partner.commission)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        text.parse().unwrap()
    }

    fn fields(partner: Option<&str>, commission: Option<&str>) -> Vec<&'static str> {
        CorridorPricing::new(decimal("0.5"), partner.map(str::to_owned), commission.map(decimal))
            .map_or_else(|faults| faults.iter().map(|fault| fault.field).collect(), |_| Vec::new())
    }

    #[test]
    fn a_partner_and_its_commission_belong_together() {
        assert_eq!(fields(None, None), [""; 0]);
        assert_eq!(fields(Some("acme"), Some("0")), [""; 0]);
        assert_eq!(fields(Some("acme"), Some("100.0")), [""; 0]);
        assert_eq!(fields(Some("acme"), Some("100.1")), ["commission"]);
        assert_eq!(fields(Some("acme"), None), ["commission"]);
        assert_eq!(fields(None, Some("10")), ["partner"]);
        assert_eq!(fields(Some(""), Some("10")), ["partner"]);
        assert_eq!(fields(Some(&"a".repeat(PARTNER_BYTES_MAX + 1)), Some("101")), ["partner", "commission"]);
    }

    #[test]
    fn percentages_lose_their_trailing_zeros() {
        let pricing =
            CorridorPricing::new(decimal("0.50"), Some("acme".to_owned()), Some(decimal("25.0"))).unwrap();
        assert_eq!(pricing.spread().to_string(), "0.5");
        assert_eq!(pricing.commission().to_string(), "25");
        assert_eq!(pricing.partner().unwrap().name, "acme");
        assert_eq!(CorridorPricing::NONE.commission(), Decimal::ZERO);
    }
}
