//! Exact decimals: the type of every amount, rate, percentage and fee of the service.
//!
//! This module does no arithmetic and no rounding, only exact changes of scale. [`crate::quote`] is the one
//! place that divides and rounds money.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

mod asset;
#[cfg(test)]
mod tests;
mod text;

pub use asset::{Asset, AssetFault, asset_decimals};
pub use text::DecimalFault;

/// A non-negative exact decimal of at most 38 significant digits: `coefficient / 10^scale`.
///
/// Decimals compare and hash by value (`1.0 == 1.00`), but remember their scale for printing (`1.00` prints
/// as `1.00`).
///
/// Leading zeros are not significant, trailing zeros are: we store and print them, because they show the
/// scale of the asset. So `1.00` has three significant digits, `0.01` has one and zero has none.
#[derive(Clone, Copy)]
pub struct Decimal {
    coefficient: u128,
    scale: u8,
}

impl Decimal {
    /// The most digits after leading zeros, wherever the decimal point is.
    pub const SIGNIFICANT_DIGITS_MAX: u32 = 38;

    /// The most digits after the decimal point. It equals the most significant digits, so every power of ten
    /// that a scale needs fits in 128 bits.
    pub const SCALE_MAX: u8 = 38;

    /// Longer texts are refused unread: `0.` and [`Self::SCALE_MAX`] digits. Anything longer breaks one of
    /// the other two limits.
    pub const TEXT_BYTES_MAX: usize = 40;

    /// The number 0.
    pub const ZERO: Self = Self { coefficient: 0, scale: 0 };

    /// The number 1.
    pub const ONE: Self = Self { coefficient: 1, scale: 0 };

    /// The number 100: the whole of a percentage.
    pub const HUNDRED: Self = Self { coefficient: 100, scale: 0 };

    const COEFFICIENT_MAX: u128 = 10_u128.pow(Self::SIGNIFICANT_DIGITS_MAX) - 1;

    /// The decimal `coefficient / 10^scale`, or `None` beyond the limits on digits and scale.
    #[must_use]
    pub const fn new(coefficient: u128, scale: u8) -> Option<Self> {
        if coefficient > Self::COEFFICIENT_MAX || scale > Self::SCALE_MAX {
            return None;
        }
        Some(Self { coefficient, scale })
    }

    /// The value in units of the last place.
    #[must_use]
    pub const fn coefficient(&self) -> u128 {
        self.coefficient
    }

    /// The number of digits after the decimal point, trailing zeros included.
    #[must_use]
    pub const fn scale(&self) -> u8 {
        self.scale
    }

    /// Whether the value is 0, at any scale.
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.coefficient == 0
    }

    /// The same value without trailing zeros after the decimal point: the form of rates and percentages.
    #[must_use]
    pub const fn normalized(self) -> Self {
        let Self { mut coefficient, mut scale } = self;
        while scale > 0 && coefficient.is_multiple_of(10) {
            coefficient /= 10;
            scale -= 1;
        }
        Self { coefficient, scale }
    }

    /// The same value with exactly `decimals` digits after the decimal point: the form of amounts.
    ///
    /// `None` when a digit other than zero would be lost, or when the padded value has too many digits.
    #[must_use]
    pub fn at_scale(self, decimals: u8) -> Option<Self> {
        if decimals > Self::SCALE_MAX {
            return None;
        }
        if decimals >= self.scale {
            let coefficient = self.coefficient.checked_mul(power_of_ten(decimals - self.scale))?;
            return Self::new(coefficient, decimals);
        }
        let dropped = power_of_ten(self.scale - decimals);
        if !self.coefficient.is_multiple_of(dropped) {
            return None;
        }
        Self::new(self.coefficient / dropped, decimals)
    }

    /// The whole part, and the fraction in units of `10^-SCALE_MAX`: two values compare as these pairs do.
    ///
    /// Both halves stay below `10^38`. Bringing two coefficients to one scale instead could overflow.
    fn value_key(&self) -> (u128, u128) {
        let one = power_of_ten(self.scale);
        let fraction_factor = power_of_ten(Self::SCALE_MAX - self.scale);
        (self.coefficient / one, self.coefficient % one * fraction_factor)
    }
}

/// `10^exponent`, which fits: no caller asks for more than [`Decimal::SCALE_MAX`].
fn power_of_ten(exponent: u8) -> u128 {
    10_u128.pow(u32::from(exponent))
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.value_key() == other.value_key()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value_key().cmp(&other.value_key())
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value_key().hash(state);
    }
}
