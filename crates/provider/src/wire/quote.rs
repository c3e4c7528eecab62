//! A price for a conversion, and the question for one.

use serde::{Deserialize, Serialize};
use settle_domain::money::Decimal;
use settle_domain::time::Timestamp;
use utoipa::ToSchema;

use super::{Body, WireFault, optional_text, text};

/// `POST /quotes`: how much a provider gives for what came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct QuoteRequest {
    /// The pay-in that is to be converted.
    pub payin_reference: String,
    /// The asset that is sold.
    pub sell: String,
    /// How much of it.
    #[schema(value_type = String, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("1000.00"))]
    pub sell_amount: Decimal,
    /// The asset that is bought.
    pub buy: String,
}

impl Body for QuoteRequest {
    fn check(&self) -> Result<(), WireFault> {
        text("payin_reference", &self.payin_reference)?;
        text("sell", &self.sell)?;
        text("buy", &self.buy)
    }
}

/// A quote. It binds the provider until it expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Quote {
    /// Names the quote in the conversion.
    pub quote_id: String,
    /// What is sold.
    #[schema(value_type = String, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("1000.00"))]
    pub sell_amount: Decimal,
    /// What is bought for it.
    #[schema(value_type = String, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("1000.00"))]
    pub buy_amount: Decimal,
    /// Sold units per bought unit; a provider need not give it.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("5.43"))]
    pub rate: Option<Decimal>,
    /// Until when the provider is bound.
    #[schema(value_type = String, format = DateTime, examples("2026-01-31T09:31:00Z"))]
    pub expires_at: Timestamp,
    /// The pay-in that was asked for. A provider that repeats question and assets binds the signature of the
    /// answer to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payin_reference: Option<String>,
    /// The asset that was asked to be sold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sell: Option<String>,
    /// The asset that was asked to be bought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buy: Option<String>,
}

impl Quote {
    /// Whether it answers this question, as far as it says.
    #[must_use]
    pub fn answers(&self, request: &QuoteRequest) -> bool {
        let same = |said: &Option<String>, asked: &str| said.as_deref().is_none_or(|said| said == asked);
        same(&self.payin_reference, &request.payin_reference)
            && same(&self.sell, &request.sell)
            && same(&self.buy, &request.buy)
    }
}

impl Body for Quote {
    fn check(&self) -> Result<(), WireFault> {
        text("quote_id", &self.quote_id)?;
        if self.rate.is_some_and(|rate| rate.is_zero()) {
            return Err(WireFault::new("rate", "is zero"));
        }
        optional_text("payin_reference", self.payin_reference.as_deref())?;
        optional_text("sell", self.sell.as_deref())?;
        optional_text("buy", self.buy.as_deref())
    }
}
