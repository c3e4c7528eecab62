//! A payment and its operations in the store: what stands in no column of its own, as JSON.

use serde::{Deserialize, Serialize};
use settle_domain::ledger::Held;
use settle_domain::money::{Asset, Decimal};
use settle_domain::operation::{OperationKind, Promise, Refusal, RefusalCode};
use settle_domain::quote::{FixedSide, Quote};
use settle_domain::quoting::{FrozenQuote, ProviderQuote, Split};
use settle_domain::time::Timestamp;

use super::errand::Errand;

/// What came in, in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredOrder {
    pub(super) incoming_currency: Asset,
    pub(super) incoming_amount: Decimal,
    pub(super) outgoing_currency: Asset,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) outgoing_amount: Option<Decimal>,
    pub(super) destination_reference: String,
    pub(super) occurred_at: Timestamp,
}

/// What the engine remembers of a payment, in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredProgress {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) unknown: Option<OperationKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) held: Option<Held>,
    #[serde(default)]
    pub(super) is_returned: bool,
    #[serde(default)]
    pub(super) expired_quotes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) late: Option<StoredLate>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) corridor_version: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) quote: Option<StoredQuote>,
    /// Where to, also after a retry with another destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) destination_reference: Option<String>,
    pub(super) steps: u32,
    #[serde(default)]
    pub(super) tries: u32,
    /// Not there in payments that were last changed before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) news_version: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredLate {
    pub(super) kind: OperationKind,
    pub(super) moved: bool,
}

/// The frozen amounts, in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredQuote {
    pub(super) fixed_side: FixedSide,
    pub(super) conversion_rate: Decimal,
    pub(super) fee_percentage: Decimal,
    pub(super) incoming_amount: Decimal,
    pub(super) gross: Decimal,
    pub(super) fee_percentage_amount: Decimal,
    pub(super) fee_fixed: Decimal,
    pub(super) outgoing_amount: Decimal,
}

impl StoredQuote {
    pub(super) fn of(frozen: FrozenQuote) -> StoredQuote {
        let FrozenQuote { fixed_side, conversion_rate, fee_percentage, quote } = frozen;
        let Quote { incoming_amount, gross, fee_percentage_amount, fee_fixed, outgoing_amount } = quote;
        StoredQuote {
            fixed_side,
            conversion_rate,
            fee_percentage,
            incoming_amount,
            gross,
            fee_percentage_amount,
            fee_fixed,
            outgoing_amount,
        }
    }

    pub(super) fn into_domain(self) -> FrozenQuote {
        let StoredQuote { fixed_side, conversion_rate, fee_percentage, .. } = self;
        let StoredQuote { incoming_amount, gross, fee_percentage_amount, fee_fixed, outgoing_amount, .. } =
            self;
        let quote = Quote { incoming_amount, gross, fee_percentage_amount, fee_fixed, outgoing_amount };
        FrozenQuote { fixed_side, conversion_rate, fee_percentage, quote }
    }
}

/// The provider's offer, and how what was bought is divided, in the store.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredPricing {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) offer: Option<StoredOffer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) split: Option<StoredSplit>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredOffer {
    pub(super) quote_id: String,
    pub(super) sell_amount: Decimal,
    pub(super) buy_amount: Decimal,
    pub(super) rate: Option<Decimal>,
    pub(super) expires_at: Timestamp,
}

impl StoredOffer {
    pub(super) fn of(offer: &ProviderQuote) -> StoredOffer {
        let ProviderQuote { quote_id, sell_amount, buy_amount, rate, expires_at } = offer.clone();
        StoredOffer { quote_id, sell_amount, buy_amount, rate, expires_at }
    }

    pub(super) fn into_domain(self) -> ProviderQuote {
        let StoredOffer { quote_id, sell_amount, buy_amount, rate, expires_at } = self;
        ProviderQuote { quote_id, sell_amount, buy_amount, rate, expires_at }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredSplit {
    pub(super) bought: Decimal,
    pub(super) shortfall: Decimal,
    pub(super) payable: Decimal,
    pub(super) fees: Decimal,
    pub(super) spread: Decimal,
    pub(super) commission: Decimal,
}

impl StoredSplit {
    pub(super) fn of(split: Split) -> StoredSplit {
        let Split { bought, shortfall, payable, fees, spread, commission } = split;
        StoredSplit { bought, shortfall, payable, fees, spread, commission }
    }

    pub(super) fn into_domain(self) -> Split {
        let StoredSplit { bought, shortfall, payable, fees, spread, commission } = self;
        Split { bought, shortfall, payable, fees, spread, commission }
    }
}

/// What was learnt of an operation, in the store.
#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "as in the domain")]
pub(super) struct StoredMemory {
    #[serde(default)]
    pub(super) was_unknown: bool,
    #[serde(default)]
    pub(super) was_accepted: bool,
    #[serde(default)]
    pub(super) was_voided: bool,
    #[serde(default)]
    pub(super) is_late: bool,
    pub(super) errand: Errand,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) instance: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) provider_reference: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bought_amount: Option<Decimal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deviation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) promise: Option<StoredPromise>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) refusal: Option<StoredRefusal>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) given_up_after_seconds: Option<u64>,
}

/// Why a provider refused, in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredRefusal {
    pub(super) code: RefusalCode,
    #[serde(default)]
    pub(super) quote_expired: bool,
}

impl StoredRefusal {
    pub(super) fn of(Refusal { code, quote_expired }: Refusal) -> StoredRefusal {
        StoredRefusal { code, quote_expired }
    }

    pub(super) fn into_domain(self) -> Refusal {
        let StoredRefusal { code, quote_expired } = self;
        Refusal { code, quote_expired }
    }
}

/// What the quote of a conversion promised, in the store.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StoredPromise {
    pub(super) gross: Decimal,
    pub(super) buy_amount: Decimal,
}

impl StoredPromise {
    pub(super) fn of(Promise { gross, buy_amount }: Promise) -> StoredPromise {
        StoredPromise { gross, buy_amount }
    }

    pub(super) fn into_domain(self) -> Promise {
        let StoredPromise { gross, buy_amount } = self;
        Promise { gross, buy_amount }
    }
}
