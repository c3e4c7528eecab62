//! The notification, as the webhook of the merchants' document.

use settle_domain::signature::{DELIVERY_ID_HEADER, EVENT_HEADER, SIGNATURE_HEADER, TIMESTAMP_HEADER};
use settle_notify::notification::TEST_HEADER;
use utoipa::openapi::path::{
    HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, PathsBuilder,
};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::{
    Components, ContentBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder, SecurityRequirement,
};

use crate::settlements::record_fields;

pub(super) const TAG: &str = "Notifications";
const SCHEMA: &str = "SettlementNotification";
const WEBHOOK: &str = "settlementCompleted";
const EVENT: &str = "settlement.completed";

const DESCRIPTION: &str = "Sent to the configured endpoint when a settlement completes, at least once: deduplicate by \
`service-delivery-id`. Verify the signature over the raw body before you read it, and refuse a timestamp that is older \
than a few minutes. A failed delivery is tried again after one minute, then after twice as long each time, up to an \
hour, 8 attempts in all.";

/// Adds the webhook and the schema of its body.
pub(super) fn describe(document: &mut OpenApi) {
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert(SCHEMA.to_owned(), RefOr::T(body()));
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name(SCHEMA))).build();
    let request = RequestBodyBuilder::new()
        .description(Some(
            "The settlement, as the list shows it, and the event. The bytes are the same on every attempt.",
        ))
        .content("application/json", content)
        .required(Some(Required::True));
    let response = |meaning: &str| ResponseBuilder::new().description(meaning).build();
    let operation = OperationBuilder::new()
        .operation_id(Some(WEBHOOK))
        .tag(TAG)
        .summary(Some("A settlement has completed"))
        .description(Some(DESCRIPTION))
        .parameters(Some(headers()))
        .request_body(Some(request.build()))
        .response("2XX", response("Delivered, if the answer is complete within 10 seconds."))
        .response(
            "default",
            response("A failed attempt, as is no answer in time. Redirects are not followed."),
        )
        // A receiver knows us by the signature alone.
        .securities(Some(Vec::<SecurityRequirement>::new()));
    let item = PathItem::new(HttpMethod::Post, operation.build());
    document.webhooks = Some(PathsBuilder::new().path(WEBHOOK, item).build());
}

fn headers() -> Vec<Parameter> {
    let text = || ObjectBuilder::new().schema_type(Type::String);
    let uuid = text().format(Some(SchemaFormat::KnownFormat(KnownFormat::Uuid)));
    let seconds = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
    let header = |name: &str, required: Required, description: &str, schema: ObjectBuilder| {
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Header)
            .required(required)
            .description(Some(description))
            .schema(Some(schema.build()))
            .build()
    };
    vec![
        header(
            SIGNATURE_HEADER,
            Required::True,
            "HMAC-SHA-256 of `{timestamp}.{body}` with the webhook secret, in hex. Compare it in constant time.",
            text().pattern(Some("^sha256=[0-9a-f]{64}$")),
        ),
        header(TIMESTAMP_HEADER, Required::True, "When this attempt was made, in Unix seconds.", seconds),
        header(
            EVENT_HEADER,
            Required::True,
            "The event. Others may come: expect any text.",
            text().examples([EVENT]),
        ),
        header(DELIVERY_ID_HEADER, Required::True, "The same on every attempt of a delivery.", uuid),
        header(
            TEST_HEADER,
            Required::False,
            "`true` on a test delivery, absent on any other.",
            text().examples(["true"]),
        ),
    ]
}

fn body() -> Schema {
    let event = ObjectBuilder::new()
        .schema_type(Type::String)
        .description(Some("What has happened. Others may come: expect any text."))
        .examples([EVENT]);
    let mut body = ObjectBuilder::new()
        .description(Some("The body of a notification: the event, and the settlement as the list shows it."))
        .property("event", event)
        .required("event");
    for field in record_fields() {
        body = body.property(field.name.clone(), field.schema).required(field.name);
    }
    body.into()
}
