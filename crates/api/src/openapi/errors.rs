//! The schemas of the error envelope. The set of codes is open: a client that was generated today survives a
//! code of tomorrow.

use settle_domain::error_code::ErrorCode;
use utoipa::openapi::schema::{AnyOfBuilder, ArrayBuilder, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::{Object, Ref, RefOr};

use crate::refusals::ERROR_SCHEMA;

const BODY: &str = "ErrorBody";
const FIELD: &str = "FieldError";
const CODE: &str = "ErrorCode";
const KNOWN_CODE: &str = "KnownErrorCode";

/// Where the envelope says more than its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explained {
    /// In `fields`, for machines.
    Fields,
    /// In `details`, for people.
    Details,
}

/// The schemas, each with its name.
pub(super) fn schemas(explained: Explained) -> Vec<(&'static str, RefOr<Schema>)> {
    let body = ObjectBuilder::new()
        .description(Some("What went wrong."))
        .property("code", Ref::from_schema_name(CODE))
        .required("code")
        .property(
            "message",
            text("For people, in the language of `Accept-Language`. Clients match on `code`."),
        )
        .required("message");
    let envelope = ObjectBuilder::new()
        .description(Some("Every 4xx and 5xx response has this body."))
        .property("error", Ref::from_schema_name(BODY))
        .required("error");
    let mut schemas = vec![(CODE, code()), (KNOWN_CODE, known_code()), (ERROR_SCHEMA, object(envelope))];
    match explained {
        Explained::Fields => {
            schemas.push((BODY, object(body.property("fields", fields()))));
            schemas.push((FIELD, object(field())));
        }
        Explained::Details => schemas.push((BODY, object(body.property("details", details())))),
    }
    schemas
}

fn object(object: ObjectBuilder) -> RefOr<Schema> {
    RefOr::T(object.into())
}

fn text(description: &str) -> Object {
    ObjectBuilder::new().schema_type(Type::String).description(Some(description)).build()
}

fn code() -> RefOr<Schema> {
    let code = AnyOfBuilder::new()
        .description(Some("Machine-stable, the same in every language. More may come: expect any text."))
        .item(Ref::from_schema_name(KNOWN_CODE))
        .item(Object::with_type(Type::String));
    RefOr::T(code.into())
}

fn known_code() -> RefOr<Schema> {
    let codes = ErrorCode::ALL.iter().map(|code| code.as_str());
    object(
        ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("The codes of this version."))
            .enum_values(Some(codes)),
    )
}

fn field() -> ObjectBuilder {
    ObjectBuilder::new()
        .description(Some("A request field that is not valid."))
        .property("field", text("The request field concerned."))
        .required("field")
        .property("code", Ref::from_schema_name(CODE))
        .required("code")
}

fn fields() -> ArrayBuilder {
    ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .description(Some("Present only when `code` is `validation_failed`."))
        .items(Ref::from_schema_name(FIELD))
}

fn details() -> ArrayBuilder {
    ArrayBuilder::new()
        .description(Some(
            "What is wrong, a sentence each, in English. Present only when `code` is `admin_validation_failed` \
             or `conflict`.",
        ))
        .items(Object::with_type(Type::String))
}
