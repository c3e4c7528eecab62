//! The payments of the proof. Everything about one follows from its number.

use serde_json::{Value, json};
use settle_testing::chance::Chance;

/// The pairs that every merchant has a corridor for, with the unit of an incoming amount. The last needs no
/// conversion.
pub const PAIRS: [(&str, &str, &str); 4] =
    [("BRL", "USDC", "00"), ("JPY", "BTC", ""), ("EUR", "EURC", "07"), ("USDT", "USDT", "000001")];

/// What the sandbox does with some of the conversions and payouts; it behaves with all others.
const STUMBLES: [&str; 8] = [
    "sandbox:ghost",
    "sandbox:lost",
    "sandbox:flaky",
    "sandbox:garbage",
    "sandbox:late:1s",
    "sandbox:pending:1s",
    "sandbox:timeout",
    REFUSED,
];
const REFUSED: &str = "sandbox:refuse";
/// One in so many conversions stumbles, and one in so many payouts.
const CONVERSIONS: u64 = 8;
const PAYOUTS: u64 = 4;

/// A payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The position of its merchant.
    pub merchant: usize,
    pub incoming: &'static str,
    pub incoming_amount: String,
    pub outgoing: &'static str,
    pub payin: String,
    pub destination: String,
}

impl Order {
    /// The payment with this number.
    pub fn of(number: u64, merchants: usize) -> Order {
        let chance = Chance::new(number);
        let (incoming, outgoing, cents) = *chance.pick(&PAIRS);
        let whole = 5_000 + chance.below(2_000_000);
        let point = if cents.is_empty() { "" } else { "." };
        let reference = |usual: &str, once_in: u64| {
            let begins = if chance.once_in(once_in) { *chance.pick(&STUMBLES) } else { usual };
            format!("{begins}-{number}")
        };
        Order {
            merchant: usize::try_from(number).expect("not that many") % merchants,
            incoming,
            incoming_amount: format!("{whole}{point}{cents}"),
            outgoing,
            payin: reference("payin", CONVERSIONS),
            destination: reference("wallet", PAYOUTS),
        }
    }

    /// Whether the provider refuses to convert it or to pay it out; everything else it does in the end.
    pub fn is_refused(&self) -> bool {
        self.needs_conversion() && self.payin.starts_with(REFUSED) || self.destination.starts_with(REFUSED)
    }

    /// Whether something must be converted.
    pub fn needs_conversion(&self) -> bool {
        self.incoming != self.outgoing
    }

    /// As the operator posts it.
    pub fn posted(&self, merchants: &[String]) -> Value {
        json!({
            "merchant_id": merchants[self.merchant],
            "payin_reference": self.payin,
            "incoming_currency": self.incoming,
            "incoming_amount": self.incoming_amount,
            "outgoing_currency": self.outgoing,
            "destination_reference": self.destination,
            "occurred_at": "2026-01-31T12:30:55.000000+00:00",
        })
    }
}

/// The number of the payment with this pay-in or destination.
pub fn number_of(reference: &str) -> u64 {
    let number = reference.rsplit('-').next().and_then(|digits| digits.parse().ok());
    number.unwrap_or_else(|| panic!("{reference} has no number"))
}
