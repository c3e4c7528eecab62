//! A corridor: what was agreed for a merchant, an incoming currency and an outgoing asset.
//!
//! A change makes a new version; a payment keeps the version of its first quote. Our earnings in the corridor
//! are [`crate::pricing::CorridorPricing`]: a corridor cannot name them, so whatever shows one cannot either.

use std::time::Duration;

use serde::Serialize;

use crate::actor::Actor;
use crate::money::{Asset, Decimal};
use crate::provider::ProviderName;
use crate::time::Timestamp;

#[cfg(test)]
mod tests;

/// How long a payment may be blocked or in progress before operations are alerted, if nobody says otherwise.
pub const ALERT_AFTER: Duration = Duration::from_mins(15);

/// The longest time before an alert: who waits longer does not want one.
pub const ALERT_AFTER_MAX: Duration = Duration::from_hours(30 * 24);

/// The highest percentage fee, in hundredths of a percent.
const FEE_PERCENTAGE_MAX_BASIS_POINTS: u128 = 9_999;

/// A problem with one field of a corridor or its pricing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct CorridorFault {
    /// The field's name.
    pub field: &'static str,
    /// The reason, for people.
    pub problem: &'static str,
}

impl CorridorFault {
    /// A refused field.
    #[must_use]
    pub const fn new(field: &'static str, problem: &'static str) -> CorridorFault {
        CorridorFault { field, problem }
    }
}

/// What somebody wants to agree; [`Corridor::new`] judges it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorridorTerms {
    /// The currency that comes in.
    pub incoming: Asset,
    /// The asset that goes out.
    pub outgoing: Asset,
    /// The fee in percent of the gross outgoing amount.
    pub fee_percentage: Decimal,
    /// The fixed fee, in the outgoing asset.
    pub fee_fixed: Decimal,
    /// The smallest incoming amount.
    pub minimum: Option<Decimal>,
    /// The largest incoming amount.
    pub maximum: Option<Decimal>,
    /// The provider that quotes, converts, pays out and refunds: what one bought is not at another.
    pub provider: ProviderName,
    /// How long a payment may be blocked or in progress before operations are alerted.
    pub alert_after: Duration,
}

/// Terms that can be applied: amounts at the scale of their asset, the percentage without trailing zeros.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Corridor(CorridorTerms);

impl Corridor {
    /// Judges the terms, and finds every problem at once.
    pub fn new(terms: CorridorTerms) -> Result<Corridor, Vec<CorridorFault>> {
        let mut faults = Vec::new();
        let fee_percentage = terms.fee_percentage.normalized();
        if Decimal::new(FEE_PERCENTAGE_MAX_BASIS_POINTS, 2).is_none_or(|most| fee_percentage > most) {
            faults.push(CorridorFault::new("fee_percentage", "must be at most 99.99 percent"));
        }
        let mut scaled = |field, value: Option<Decimal>, asset: Asset| {
            let at_scale = value.map(|value| asset.amount(value));
            if at_scale == Some(None) {
                faults.push(CorridorFault::new(field, "has more decimals or digits than its asset"));
            }
            at_scale.flatten()
        };
        let fee_fixed = scaled("fee_fixed", Some(terms.fee_fixed), terms.outgoing);
        let minimum = scaled("minimum", terms.minimum, terms.incoming);
        let maximum = scaled("maximum", terms.maximum, terms.incoming);
        if minimum.zip(maximum).is_some_and(|(minimum, maximum)| minimum > maximum) {
            faults.push(CorridorFault::new("maximum", "must not be less than the minimum"));
        }
        if maximum.is_some_and(|maximum| maximum.is_zero()) {
            faults.push(CorridorFault::new("maximum", "must be more than zero"));
        }
        if terms.alert_after.is_zero() || terms.alert_after > ALERT_AFTER_MAX {
            faults.push(CorridorFault::new("alert_after", "must be more than zero and at most 30 days"));
        }
        match fee_fixed {
            Some(fee_fixed) if faults.is_empty() => {
                Ok(Corridor(CorridorTerms { fee_percentage, fee_fixed, minimum, maximum, ..terms }))
            }
            _ => Err(faults),
        }
    }

    /// The terms, each at its scale.
    #[must_use]
    pub const fn terms(&self) -> &CorridorTerms {
        &self.0
    }

    /// Whether an incoming amount lies within what was agreed.
    #[must_use]
    pub fn admits(&self, incoming_amount: Decimal) -> bool {
        self.0.minimum.is_none_or(|minimum| incoming_amount >= minimum)
            && self.0.maximum.is_none_or(|maximum| incoming_amount <= maximum)
    }

    /// Whether nothing has to be converted: what comes in is what goes out.
    #[must_use]
    pub fn skips_conversion(&self) -> bool {
        self.0.incoming == self.0.outgoing
    }
}

/// The number of a corridor's version: the first is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct CorridorVersion(pub u32);

impl CorridorVersion {
    /// The first version.
    pub const FIRST: CorridorVersion = CorridorVersion(1);

    /// The version after this one.
    #[must_use]
    pub const fn next(self) -> CorridorVersion {
        CorridorVersion(self.0.saturating_add(1))
    }
}

/// One version of a corridor, with who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionedCorridor {
    /// The version's number.
    pub version: CorridorVersion,
    /// What was agreed.
    pub corridor: Corridor,
    /// Who made the version.
    pub made_by: Actor,
    /// When.
    pub made_at: Timestamp,
}
