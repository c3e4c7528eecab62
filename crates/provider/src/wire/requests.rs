//! What is asked of a provider. The operation id is the idempotency key, and stands in every body, so that
//! the signature covers it.

use serde::{Deserialize, Serialize};
use settle_domain::money::Decimal;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Body, WireFault, text};

/// `POST /conversions`: sell what came in, at the price of a quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConversionRequest {
    /// The idempotency key.
    pub operation_id: Uuid,
    /// The pay-in that is converted.
    pub payin_reference: String,
    /// The quote whose price holds.
    pub quote_id: String,
    /// The asset that is sold.
    pub sell: String,
    /// How much of it.
    #[schema(value_type = String, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("1000.00"))]
    pub sell_amount: Decimal,
    /// The asset that is bought.
    pub buy: String,
}

impl Body for ConversionRequest {
    fn check(&self) -> Result<(), WireFault> {
        text("payin_reference", &self.payin_reference)?;
        text("quote_id", &self.quote_id)?;
        text("sell", &self.sell)?;
        text("buy", &self.buy)
    }
}

/// `POST /payouts`: pay to the merchant's destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PayoutRequest {
    /// The idempotency key.
    pub operation_id: Uuid,
    /// The asset that is paid.
    pub asset: String,
    /// How much of it.
    #[schema(value_type = String, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("1000.00"))]
    pub amount: Decimal,
    /// Where it goes.
    pub destination_reference: String,
}

impl Body for PayoutRequest {
    fn check(&self) -> Result<(), WireFault> {
        text("asset", &self.asset)?;
        text("destination_reference", &self.destination_reference)
    }
}

/// `POST /refunds`: send back what came in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RefundRequest {
    /// The idempotency key.
    pub operation_id: Uuid,
    /// The asset that is sent back.
    pub asset: String,
    /// How much of it.
    #[schema(value_type = String, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("1000.00"))]
    pub amount: Decimal,
    /// The pay-in whose payer gets it.
    pub payin_reference: String,
}

impl Body for RefundRequest {
    fn check(&self) -> Result<(), WireFault> {
        text("asset", &self.asset)?;
        text("payin_reference", &self.payin_reference)
    }
}

/// `POST /operations/{operation_id}/void`: what was not begun shall never be.
///
/// The body repeats the id of the path: a path is not signed, and an empty body would be signed for all
/// operations alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VoidRequest {
    /// The operation.
    pub operation_id: Uuid,
}

impl Body for VoidRequest {
    fn check(&self) -> Result<(), WireFault> {
        Ok(())
    }
}
