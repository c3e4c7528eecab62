//! The body of a request that records settlements, as the document describes it.

use std::borrow::Cow;

use settle_domain::settlement::UNCHECKED;
use settle_store::BATCH_MAX;
use utoipa::openapi::schema::{
    ArrayBuilder, KnownFormat, ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use crate::settlements::{SettlementSchema, record_fields};

const BATCH: &str = "CompletedSettlements";
const COMPLETED: &str = "CompletedSettlement";
const PRICING: &str = "Pricing";

/// One settlement, or a list of them.
pub(super) struct BatchSchema;

impl PartialSchema for BatchSchema {
    fn schema() -> RefOr<Schema> {
        let one = || Ref::from_schema_name(COMPLETED);
        let list = ArrayBuilder::new().items(one()).min_items(Some(1)).max_items(Some(BATCH_MAX));
        let either = OneOfBuilder::new()
            .description(Some("One settlement, or a list of them."))
            .item(one())
            .item(list.build());
        RefOr::T(either.into())
    }
}

impl ToSchema for BatchSchema {
    fn name() -> Cow<'static, str> {
        BATCH.into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((COMPLETED.to_owned(), completed()));
        schemas.push((PricingSchema::name().into_owned(), PricingSchema::schema()));
        SettlementSchema::schemas(schemas);
    }
}

/// The fields of the record, of which those that can be null can be absent too; whose it is; our pricing; and
/// whether its outgoing amount is let pass.
fn completed() -> RefOr<Schema> {
    let merchant = ObjectBuilder::new()
        .schema_type(Type::String)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)))
        .description(Some("Whose settlement."));
    let mut object = ObjectBuilder::new()
        .description(Some("A completed settlement. A field that is not named here is refused."))
        .property("merchant_id", merchant)
        .required("merchant_id");
    for field in record_fields() {
        object = object.property(field.name.clone(), field.schema);
        if !field.is_nullable {
            object = object.required(field.name);
        }
    }
    let passes = "Records an `outgoing_amount` that is more than `incoming_amount`, `conversion_rate` and the fees \
                  allow: for records from elsewhere that round otherwise. Merchants do not see it.";
    // No default: a generated client would have to send what it does not need.
    let unchecked = ObjectBuilder::new().schema_type(Type::Boolean).description(Some(passes));
    let object = object.property("pricing", Ref::from_schema_name(PRICING)).property(UNCHECKED, unchecked);
    RefOr::T(object.into())
}

/// Our earnings on a settlement. Merchants never see them.
#[derive(ToSchema)]
#[schema(as = Pricing)]
#[expect(dead_code, reason = "only its schema is used: the domain reads them")]
struct PricingSchema {
    /// The provider's rate: incoming units per outgoing unit.
    #[schema(pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("5.38"))]
    provider_rate: String,
    /// Our revenue from the spread, in the outgoing asset.
    #[schema(pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("1.711429"))]
    spread_revenue: String,
    /// The partner's commission, in the outgoing asset.
    #[schema(pattern = r"^(0|[1-9][0-9]*)(\.[0-9]+)?$", examples("0"))]
    partner_commission: String,
}
