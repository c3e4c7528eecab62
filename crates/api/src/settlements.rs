//! Completed settlements.

pub mod list;

use utoipa::openapi::schema::{SchemaType, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

/// A completed settlement as the owning merchant sees it. All amounts, rates and fees are decimal strings.
#[derive(ToSchema)]
#[schema(as = Settlement)]
#[expect(
    dead_code,
    reason = "only its schema is used: records are passed on as the bytes they were rendered to"
)]
pub struct SettlementSchema {
    /// Which settlement; also in its notification.
    settlement_id: Uuid,
    /// When the payout was complete.
    #[schema(required, format = DateTime, examples("2026-01-31T09:31:00.000000+00:00"))]
    completed_at: Option<String>,
    /// When the event took place.
    #[schema(format = DateTime, examples("2026-01-31T09:30:00.000000+00:00"))]
    occurred_at: String,
    /// The reference of the incoming payment.
    #[schema(examples("E18236120202601311230s0a1b2c3d4e"))]
    payin_reference: String,
    /// The reference of the payout.
    #[schema(required, examples("0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"))]
    payout_reference: Option<String>,
    /// The reference of the destination it was paid to.
    #[schema(examples("wallet-main"))]
    destination_reference: String,
    /// The currency that came in.
    #[schema(examples("BRL"))]
    incoming_currency: String,
    /// How much came in.
    #[schema(pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("1000.00"))]
    incoming_amount: String,
    /// The asset that went out.
    #[schema(examples("USDC"))]
    outgoing_currency: String,
    /// Carries only the decimals the destination asset can transfer (six for USDC). Never rounded up.
    #[schema(required, pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("181.149631"))]
    outgoing_amount: Option<String>,
    /// Incoming units per outgoing unit. Dividing `incoming_amount` by it gives the amount before fees.
    #[schema(pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("5.43"))]
    conversion_rate: String,
    fixed_side: FixedSideSchema,
    /// The fee agreed for the merchant's corridor, in percent.
    #[schema(pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("1.5"))]
    fee_percentage: String,
    /// What the percentage came to, in the outgoing asset.
    #[schema(required, pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("2.762431"))]
    fee_percentage_amount: Option<String>,
    /// The fixed fee agreed for the merchant's corridor, in the outgoing asset.
    #[schema(pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("0.250000"))]
    fee_fixed: String,
}

/// Which side of a settlement was fixed.
#[derive(ToSchema)]
#[schema(as = FixedSide, rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used")]
pub enum FixedSideSchema {
    /// The incoming amount was given, the outgoing one follows.
    Incoming,
    /// The outgoing amount was given, the incoming one follows.
    Outgoing,
}

/// A field of the record, for objects that have more fields than it.
pub(crate) struct RecordField {
    pub(crate) name: String,
    pub(crate) schema: RefOr<Schema>,
    /// Whether it can be null.
    pub(crate) is_nullable: bool,
}

/// The fields of the record, in its order. Each object that has them names them all: generators make one
/// plain type of it, which not all of them do of `allOf`.
pub(crate) fn record_fields() -> Vec<RecordField> {
    let RefOr::T(Schema::Object(record)) = SettlementSchema::schema() else { return Vec::new() };
    let field = |(name, schema): (String, RefOr<Schema>)| {
        let is_nullable =
            matches!(&schema, RefOr::T(Schema::Object(object)) if is_nullable(&object.schema_type));
        RecordField { name, schema, is_nullable }
    };
    record.properties.into_iter().map(field).collect()
}

fn is_nullable(kind: &SchemaType) -> bool {
    matches!(kind, SchemaType::Array(types) if types.contains(&Type::Null))
}
