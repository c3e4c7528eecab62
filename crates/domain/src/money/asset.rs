//! The assets that the service knows, and the number of decimals that each can transfer.

/// How many decimals an asset can transfer, or `None` for an unknown code. Codes are upper case.
#[must_use]
pub fn asset_decimals(code: &str) -> Option<u8> {
    match code {
        "CLP" | "JPY" => Some(0),
        "BRL" | "EUR" | "GBP" | "IDR" | "MXN" | "USD" => Some(2),
        "KWD" => Some(3),
        "EURC" | "USDC" | "USDT" => Some(6),
        "BTC" => Some(8),
        "DAI" | "ETH" | "SHIB" => Some(18),
        _ => None,
    }
}
