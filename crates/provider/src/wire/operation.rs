//! One thing that was asked of a provider, as the provider sees it.

use serde::{Deserialize, Serialize};
use settle_domain::money::Decimal;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Body, WireFault, optional_text, text};

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// What came in is sold for what goes out.
    Conversion,
    /// The merchant is paid.
    Payout,
    /// The payer gets back what came in.
    Refund,
}

impl OperationKind {
    /// Every kind.
    pub const ALL: [OperationKind; 3] =
        [OperationKind::Conversion, OperationKind::Payout, OperationKind::Refund];

    /// The name in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationKind::Conversion => "conversion",
            OperationKind::Payout => "payout",
            OperationKind::Refund => "refund",
        }
    }

    /// The path that a request of this kind is posted to.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            OperationKind::Conversion => "/conversions",
            OperationKind::Payout => "/payouts",
            OperationKind::Refund => "/refunds",
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationStatus {
    /// Accepted, and not yet final.
    Pending,
    /// Done, as finally as the rail can say.
    Succeeded,
    /// Not done, and never will be.
    Refused,
    /// Done, and the money came back later.
    Returned,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Operation {
    /// The idempotency key that it was asked for with.
    pub operation_id: Uuid,
    /// The memory that this is told from.
    pub instance: String,
    /// What was asked. A provider does not know it of an operation that was voided before its request came.
    #[serde(default)]
    pub kind: Option<OperationKind>,
    /// How far it is.
    pub status: OperationStatus,
    /// The provider's own name for it.
    #[serde(default)]
    pub provider_reference: Option<String>,
    /// The asset that was sold, paid or sent back. May be absent of what was refused.
    #[serde(default)]
    pub asset: Option<String>,
    /// How much of it.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("181.149631"))]
    pub amount: Option<Decimal>,
    /// What a conversion bought.
    #[serde(default)]
    pub bought_asset: Option<String>,
    /// How much of it.
    #[serde(default)]
    #[schema(value_type = Option<String>, pattern = "^(0|[1-9][0-9]*)(\\.[0-9]+)?$", examples("181.149631"))]
    pub bought_amount: Option<Decimal>,
    /// Where a payout went.
    #[serde(default)]
    pub destination_reference: Option<String>,
    /// Why it was refused, for programs.
    #[serde(default)]
    pub code: Option<String>,
    /// Why it was refused, for people.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Body for Operation {
    /// What is not refused says what it moves or will move, and a conversion that is done what it bought.
    fn check(&self) -> Result<(), WireFault> {
        text("instance", &self.instance)?;
        for (field, value) in [
            ("provider_reference", &self.provider_reference),
            ("asset", &self.asset),
            ("bought_asset", &self.bought_asset),
            ("destination_reference", &self.destination_reference),
            ("code", &self.code),
            ("reason", &self.reason),
        ] {
            optional_text(field, value.as_deref())?;
        }
        if self.status == OperationStatus::Refused {
            return Ok(());
        }
        let is_conversion = self.kind == Some(OperationKind::Conversion);
        let has_bought = is_conversion && self.status != OperationStatus::Pending;
        for (field, is_needed, is_there) in [
            ("kind", true, self.kind.is_some()),
            ("asset", true, self.asset.is_some()),
            ("amount", true, self.amount.is_some()),
            ("bought_asset", has_bought, self.bought_asset.is_some()),
            ("bought_amount", has_bought, self.bought_amount.is_some()),
        ] {
            if is_needed && !is_there {
                return Err(WireFault::missing(field));
            }
        }
        Ok(())
    }
}
