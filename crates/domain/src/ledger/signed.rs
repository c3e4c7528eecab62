//! An amount with a sign, for postings and balances alone.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::money::{Asset, Decimal};

/// A posting or a balance: plain notation with a leading `-` below zero, at the scale of its asset. At most
/// 38 digits, as every amount.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SignedAmount {
    units: i128,
    scale: u8,
}

impl SignedAmount {
    /// No amount of an asset.
    #[must_use]
    pub const fn zero(asset: Asset) -> SignedAmount {
        SignedAmount { units: 0, scale: asset.decimals() }
    }

    /// The amount, above zero or zero.
    #[must_use]
    pub fn of(amount: Decimal) -> Option<SignedAmount> {
        Some(SignedAmount { units: i128::try_from(amount.coefficient()).ok()?, scale: amount.scale() })
    }

    /// The same amount with the other sign.
    #[must_use]
    pub const fn negated(self) -> SignedAmount {
        // Bounded by 38 digits on both sides, so it cannot overflow.
        SignedAmount { units: -self.units, scale: self.scale }
    }

    /// The sum of two amounts of one asset. `None` if their scales differ or the sum has too many digits.
    #[must_use]
    pub fn plus(self, other: SignedAmount) -> Option<SignedAmount> {
        if self.scale != other.scale {
            return None;
        }
        let units = self.units.checked_add(other.units)?;
        Decimal::new(units.unsigned_abs(), self.scale)?;
        Some(SignedAmount { units, scale: self.scale })
    }

    /// The same value at the scale of the asset, if the asset can transfer it.
    #[must_use]
    pub fn at_scale(self, asset: Asset) -> Option<SignedAmount> {
        let magnitude = asset.amount(self.magnitude()?)?;
        let amount = SignedAmount::of(magnitude)?;
        Some(if self.is_negative() { amount.negated() } else { amount })
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.units == 0
    }

    /// Whether it is below zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.units < 0
    }

    fn magnitude(self) -> Option<Decimal> {
        Decimal::new(self.units.unsigned_abs(), self.scale)
    }
}

impl fmt::Display for SignedAmount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_negative() {
            formatter.write_str("-")?;
        }
        match self.magnitude() {
            Some(magnitude) => fmt::Display::fmt(&magnitude, formatter),
            None => Err(fmt::Error),
        }
    }
}

impl fmt::Debug for SignedAmount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Text that is not a signed amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal in plain notation, with - in front below zero")]
pub struct SignedAmountFault;

impl FromStr for SignedAmount {
    type Err = SignedAmountFault;

    fn from_str(text: &str) -> Result<SignedAmount, SignedAmountFault> {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let amount = digits.parse().ok().and_then(SignedAmount::of).ok_or(SignedAmountFault)?;
        match (is_negative, amount.is_zero()) {
            (true, true) => Err(SignedAmountFault),
            (true, false) => Ok(amount.negated()),
            (false, _) => Ok(amount),
        }
    }
}

impl Serialize for SignedAmount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SignedAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SignedAmount, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_back_from_their_text() {
        for text in ["0", "0.00", "12.50", "-12.50", "-0.000001"] {
            let amount: SignedAmount = text.parse().unwrap();
            assert_eq!(amount.to_string(), text);
        }
        for text in ["", "-", "-0.00", "--1", "+1", "1e3", "- 1"] {
            assert_eq!(text.parse::<SignedAmount>(), Err(SignedAmountFault), "{text}");
        }
    }

    #[test]
    fn sums_keep_the_sign_and_the_limit_of_digits() {
        let amount = |text: &str| text.parse::<SignedAmount>().unwrap();
        assert_eq!(amount("1.00").plus(amount("-1.00")), Some(amount("0.00")));
        assert_eq!(amount("1.00").plus(amount("-1.01")), Some(amount("-0.01")));
        assert_eq!(amount("1.00").plus(amount("1.0")), None);
        let most = amount(&"9".repeat(38));
        assert_eq!(most.plus(amount("1")), None);
        assert_eq!(most.negated().plus(amount("-1")), None);
        assert_eq!(most.negated().plus(amount("1")).unwrap().to_string(), format!("-{}8", "9".repeat(37)));
    }
}
