//! The assets that the service knows, and the number of decimals that each can transfer.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::Decimal;

/// A currency or token that the service knows. What the engine moves is always one of these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asset {
    code: &'static str,
    decimals: u8,
}

impl Asset {
    /// Every asset, with the number of decimals that it can transfer.
    pub const ALL: [Asset; 16] = [
        Asset::new("BRL", 2),
        Asset::new("BTC", 8),
        Asset::new("CLP", 0),
        Asset::new("DAI", 18),
        Asset::new("ETH", 18),
        Asset::new("EUR", 2),
        Asset::new("EURC", 6),
        Asset::new("GBP", 2),
        Asset::new("IDR", 2),
        Asset::new("JPY", 0),
        Asset::new("KWD", 3),
        Asset::new("MXN", 2),
        Asset::new("SHIB", 18),
        Asset::new("USD", 2),
        Asset::new("USDC", 6),
        Asset::new("USDT", 6),
    ];

    /// The most digits of what one payment moves, in the smallest unit of its asset. A balance has
    /// [`Decimal::SIGNIFICANT_DIGITS_MAX`]: a hundred million payments of the largest size fit, so that
    /// no amount that we take can fill the books of a merchant or of the house.
    const PAYMENT_DIGITS_MAX: u32 = 30;

    const fn new(code: &'static str, decimals: u8) -> Asset {
        Asset { code, decimals }
    }

    /// The code, in upper case.
    #[must_use]
    pub const fn code(self) -> &'static str {
        self.code
    }

    /// How many decimals the asset can transfer.
    #[must_use]
    pub const fn decimals(self) -> u8 {
        self.decimals
    }

    /// The most that one payment may move.
    #[must_use]
    pub const fn largest_payment(self) -> Decimal {
        Decimal { coefficient: 10_u128.pow(Self::PAYMENT_DIGITS_MAX) - 1, scale: self.decimals }
    }

    /// The value at the scale of the asset. `None` if the asset cannot transfer it, or it has too many
    /// digits.
    #[must_use]
    pub fn amount(self, value: Decimal) -> Option<Decimal> {
        value.at_scale(self.decimals)
    }
}

/// A code that the service does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an asset that the service knows, such as BRL or USDC")]
pub struct AssetFault;

impl FromStr for Asset {
    type Err = AssetFault;

    fn from_str(code: &str) -> Result<Asset, AssetFault> {
        Asset::ALL.into_iter().find(|asset| asset.code == code).ok_or(AssetFault)
    }
}

impl fmt::Display for Asset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.code)
    }
}

impl fmt::Debug for Asset {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for Asset {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code)
    }
}

impl<'de> Deserialize<'de> for Asset {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Asset, D::Error> {
        let code = <Cow<'de, str>>::deserialize(deserializer)?;
        code.parse().map_err(D::Error::custom)
    }
}

/// How many decimals an asset can transfer, or `None` for an unknown code. Codes are upper case.
#[must_use]
pub fn asset_decimals(code: &str) -> Option<u8> {
    code.parse().ok().map(Asset::decimals)
}
