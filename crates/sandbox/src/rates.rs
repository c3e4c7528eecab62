//! Prices, and quotes that need no memory.

use std::collections::HashMap;
use std::time::Duration;

use settle_domain::money::{Decimal, asset_decimals};
use settle_domain::quote::{self, FixedSide, QuoteInput};
use settle_domain::signature;
use settle_domain::time::Timestamp;
use settle_provider::wire::{ConversionRequest, Pair, Quote, QuoteRequest};

/// How long a quote holds.
const QUOTE_LIFETIME: Duration = Duration::from_mins(1);
/// The decimals of a rate between two assets that is made from the table.
const RATE_DECIMALS: u8 = 18;
/// The characters of a signature that a quote's id carries. It keeps nobody out: it shows mistakes.
const SEAL_CHARACTERS: usize = 16;

/// How many units of an asset a US dollar buys. Invented, of the right size.
const PER_DOLLAR: [(&str, &str); 16] = [
    ("BRL", "5.43"),
    ("BTC", "0.0000156"),
    ("CLP", "945"),
    ("DAI", "1"),
    ("ETH", "0.0003"),
    ("EUR", "0.92"),
    ("EURC", "0.92"),
    ("GBP", "0.79"),
    ("IDR", "15650"),
    ("JPY", "148.5"),
    ("KWD", "0.307"),
    ("MXN", "17.05"),
    ("SHIB", "41250"),
    ("USD", "1"),
    ("USDC", "1"),
    ("USDT", "1"),
];

/// Why there is no quote, or none that a conversion may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RateFault {
    #[error("pair_unsupported")]
    Pair,
    #[error("amount_invalid")]
    Amount,
    #[error("quote_unknown")]
    Unknown,
    #[error("quote_expired")]
    Expired,
}

/// The rates that were set, over those that are built in.
#[derive(Debug, Default)]
pub(crate) struct Rates(HashMap<(String, String), Decimal>);

impl Rates {
    pub(crate) fn set(&mut self, pair: (&str, &str), rate: Decimal) {
        self.0.insert((pair.0.to_owned(), pair.1.to_owned()), rate);
    }

    /// Sold units per bought unit.
    fn rate(&self, sold: &str, bought: &str) -> Option<Decimal> {
        self.0.get(&(sold.to_owned(), bought.to_owned())).copied().or_else(|| built_in(sold, bought))
    }

    /// A quote. Its id carries what it promises, sealed, so that a sandbox that was killed still knows it.
    pub(crate) fn quote(
        &self,
        request: &QuoteRequest,
        seal: &str,
        now: Timestamp,
    ) -> Result<Quote, RateFault> {
        let QuoteRequest { payin_reference, sell, sell_amount, buy } = request;
        let (Some(sell_decimals), Some(buy_decimals)) = (asset_decimals(sell), asset_decimals(buy)) else {
            return Err(RateFault::Pair);
        };
        let rate = self.rate(sell, buy).ok_or(RateFault::Pair)?;
        let sell_amount = sell_amount.at_scale(sell_decimals).ok_or(RateFault::Amount)?;
        let priced = quote::quote(&QuoteInput {
            fixed_side: FixedSide::Incoming,
            amount: sell_amount,
            incoming_decimals: sell_decimals,
            outgoing_decimals: buy_decimals,
            conversion_rate: rate,
            fee_percentage: Decimal::ZERO,
            fee_fixed: Decimal::ZERO,
        });
        let buy_amount = priced.map_err(|_| RateFault::Amount)?.gross;
        let seconds = now.plus(QUOTE_LIFETIME).as_seconds();
        let terms = terms(payin_reference, sell, sell_amount, buy, buy_amount);
        Ok(Quote {
            quote_id: format!("q-{seconds}-{buy_amount}-{}", sealed(seal, seconds, &terms)),
            sell_amount,
            buy_amount,
            rate: Some(rate.normalized()),
            expires_at: at(seconds),
            payin_reference: Some(payin_reference.clone()),
            sell: Some(sell.clone()),
            buy: Some(buy.clone()),
        })
    }
}

/// What a conversion buys under its quote.
pub(crate) fn redeem(request: &ConversionRequest, seal: &str, now: Timestamp) -> Result<Decimal, RateFault> {
    let ConversionRequest { payin_reference, quote_id, sell, sell_amount, buy, .. } = request;
    let mut parts = quote_id.strip_prefix("q-").unwrap_or_default().split('-');
    let (Some(seconds), Some(buy_amount), Some(found), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(RateFault::Unknown);
    };
    let seconds: i64 = seconds.parse().map_err(|_| RateFault::Unknown)?;
    let buy_amount: Decimal = buy_amount.parse().map_err(|_| RateFault::Unknown)?;
    let decimals = asset_decimals(sell).ok_or(RateFault::Pair)?;
    let sell_amount = sell_amount.at_scale(decimals).ok_or(RateFault::Amount)?;
    let terms = terms(payin_reference, sell, sell_amount, buy, buy_amount);
    if found != sealed(seal, seconds, &terms) {
        return Err(RateFault::Unknown);
    }
    if now >= at(seconds) { Err(RateFault::Expired) } else { Ok(buy_amount) }
}

fn terms(payin: &str, sell: &str, sell_amount: Decimal, buy: &str, buy_amount: Decimal) -> String {
    format!("{sell}/{sell_amount}/{buy}/{buy_amount}/{payin}")
}

fn sealed(seal: &str, seconds: i64, terms: &str) -> String {
    let signature = signature::sign(seal.as_bytes(), at(seconds), terms.as_bytes());
    signature.chars().rev().take(SEAL_CHARACTERS).collect()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds.saturating_mul(1_000_000))
}

fn built_in(sell: &str, buy: &str) -> Option<Decimal> {
    if sell == buy {
        return None;
    }
    let of = |asset: &str| PER_DOLLAR.iter().find(|(known, _)| *known == asset)?.1.parse::<Decimal>().ok();
    let (sold, bought) = (of(sell)?, of(buy)?);
    if bought == Decimal::ONE {
        return Some(sold);
    }
    let divided = quote::quote(&QuoteInput {
        fixed_side: FixedSide::Incoming,
        amount: sold,
        incoming_decimals: sold.scale(),
        outgoing_decimals: RATE_DECIMALS,
        conversion_rate: bought,
        fee_percentage: Decimal::ZERO,
        fee_fixed: Decimal::ZERO,
    });
    divided.ok().map(|divided| divided.gross.normalized())
}

/// Every asset.
pub(crate) fn assets() -> Vec<String> {
    PER_DOLLAR.iter().map(|(asset, _)| (*asset).to_owned()).collect()
}

/// Every pair of two assets.
pub(crate) fn pairs() -> Vec<Pair> {
    let assets = assets();
    let with = |sell: &String| {
        let others: Vec<Pair> = assets
            .iter()
            .filter(|buy| *buy != sell)
            .map(|buy| Pair { sell: sell.clone(), buy: buy.clone() })
            .collect();
        others
    };
    assets.iter().flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);

    fn request(sell: &str, amount: &str, buy: &str) -> QuoteRequest {
        let sell_amount = amount.parse().expect("a decimal");
        QuoteRequest {
            payin_reference: "p-1".to_owned(),
            sell: sell.to_owned(),
            sell_amount,
            buy: buy.to_owned(),
        }
    }

    fn conversion(quote: &Quote, amount: &str) -> ConversionRequest {
        ConversionRequest {
            operation_id: uuid::Uuid::nil(),
            payin_reference: "p-1".to_owned(),
            quote_id: quote.quote_id.clone(),
            sell: "BRL".to_owned(),
            sell_amount: amount.parse().expect("a decimal"),
            buy: "USDC".to_owned(),
        }
    }

    #[test]
    fn a_quote_rounds_down_at_the_assets_scale() {
        let quote = Rates::default().quote(&request("BRL", "1000.00", "USDC"), "one", NOW).expect("a quote");
        assert_eq!(quote.buy_amount.to_string(), "184.162062");
        assert_eq!(quote.rate.map(|rate| rate.to_string()).as_deref(), Some("5.43"));
        assert_eq!(quote.expires_at, NOW.plus(QUOTE_LIFETIME));
    }

    #[test]
    fn a_conversion_redeems_its_own_quote_until_it_expires() {
        let quote = Rates::default().quote(&request("BRL", "1000.00", "USDC"), "one", NOW).expect("a quote");
        let good = conversion(&quote, "1000");
        assert_eq!(redeem(&good, "one", NOW).map(|bought| bought == quote.buy_amount), Ok(true));
        assert_eq!(redeem(&good, "one", quote.expires_at), Err(RateFault::Expired));
        assert_eq!(redeem(&good, "two", NOW), Err(RateFault::Unknown));
        assert_eq!(redeem(&conversion(&quote, "1000.01"), "one", NOW), Err(RateFault::Unknown));
        let mut forged = good.clone();
        forged.quote_id = forged.quote_id.replace("184.1", "194.1");
        assert_eq!(redeem(&forged, "one", NOW), Err(RateFault::Unknown));
        forged.quote_id = "q-1-2".to_owned();
        assert_eq!(redeem(&forged, "one", NOW), Err(RateFault::Unknown));
    }

    #[test]
    fn every_asset_of_the_money_has_a_rate_against_every_other() {
        for Pair { sell, buy } in pairs() {
            assert!(asset_decimals(&sell).is_some() && asset_decimals(&buy).is_some());
            assert!(built_in(&sell, &buy).is_some_and(|rate| !rate.is_zero()), "{sell}/{buy}");
        }
        assert_eq!(
            built_in("EUR", "BRL").map(|rate| rate.to_string()).as_deref(),
            Some("0.169429097605893186")
        );
    }

    #[test]
    fn a_rate_that_was_set_comes_first_and_unknown_pairs_have_none() {
        let mut rates = Rates::default();
        rates.set(("BRL", "USDC"), "5".parse().expect("a decimal"));
        let quote = rates.quote(&request("BRL", "1000.00", "USDC"), "one", NOW).expect("a quote");
        assert_eq!(quote.buy_amount.to_string(), "200.000000");
        for (sell, amount, buy, fault) in [
            ("BRL", "1", "BRL", RateFault::Pair),
            ("ZZZ", "1", "BRL", RateFault::Pair),
            ("BRL", "1.001", "USDC", RateFault::Amount),
            ("BRL", "0", "USDC", RateFault::Amount),
        ] {
            assert_eq!(
                rates.quote(&request(sell, amount, buy), "one", NOW),
                Err(fault),
                "{sell} {amount} {buy}"
            );
        }
    }
}
