//! Decimals as text: the one notation we accept, how we print it, and its form in JSON.

use std::fmt;
use std::str::FromStr;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use super::Decimal;

/// Why a text is not a [`Decimal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecimalFault {
    /// Not digits with at most one decimal point inside: a sign, an exponent, grouping, white space, a
    /// superfluous leading zero, a point without digits on both sides, or nothing at all.
    #[error("not a decimal in plain notation")]
    NotPlain,
    /// Longer than [`Decimal::TEXT_BYTES_MAX`]; nobody read the text.
    #[error("longer than {} bytes", Decimal::TEXT_BYTES_MAX)]
    TooLong,
    /// More significant digits than [`Decimal::SIGNIFICANT_DIGITS_MAX`].
    #[error("more than {} significant digits", Decimal::SIGNIFICANT_DIGITS_MAX)]
    TooManyDigits,
}

impl FromStr for Decimal {
    type Err = DecimalFault;

    /// Accepts `^(0|[1-9][0-9]*)(\.[0-9]+)?$` and keeps the scale as typed.
    fn from_str(text: &str) -> Result<Self, DecimalFault> {
        if text.len() > Self::TEXT_BYTES_MAX {
            return Err(DecimalFault::TooLong);
        }
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if is_digits(fraction) => (whole, fraction),
            Some(_) => return Err(DecimalFault::NotPlain),
            None => (text, ""),
        };
        if !is_digits(whole) || (whole.len() > 1 && whole.starts_with('0')) {
            return Err(DecimalFault::NotPlain);
        }
        let coefficient = whole
            .bytes()
            .chain(fraction.bytes())
            .try_fold(0_u128, |value, digit| value.checked_mul(10)?.checked_add(u128::from(digit - b'0')));
        let scale = u8::try_from(fraction.len()).ok();
        coefficient
            .zip(scale)
            .and_then(|(coefficient, scale)| Self::new(coefficient, scale))
            .ok_or(DecimalFault::TooManyDigits)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Plain notation at the decimal's own scale. It ignores width, precision and sign flags: a precision that
/// cuts digits off would print another amount.
impl fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::from(self.scale);
        // One digit more than the scale, so that there is always one before the decimal point.
        let digits = format!("{:0>width$}", self.coefficient, width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        formatter.write_str(whole)?;
        if !fraction.is_empty() {
            formatter.write_str(".")?;
            formatter.write_str(fraction)?;
        }
        Ok(())
    }
}

/// The same text as `Display`: logs and failed assertions show the amount, not its representation.
impl fmt::Debug for Decimal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for Decimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Decimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(DecimalVisitor)
    }
}

/// Accepts only strings: a JSON number may have passed through a float on its way.
struct DecimalVisitor;

impl Visitor<'_> for DecimalVisitor {
    type Value = Decimal;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a decimal in a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Decimal, E> {
        text.parse().map_err(E::custom)
    }
}
