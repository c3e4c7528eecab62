//! Generates the OpenAPI 3.1 document from the operations.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use settle_domain::error_code::{ErrorCode, Level};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ArrayBuilder, Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, LicenseBuilder, OpenApi, RefOr};

use crate::error::{ApiError, Unserializable};
use crate::http::Asset;
use crate::operations::operations;
use crate::refusals::{COMMON, ERROR_SCHEMA, header, responses};

const SECURITY_SCHEME: &str = "api_key";

fn codes(wanted: impl Fn(Level) -> bool) -> Schema {
    let codes = ErrorCode::ALL.iter().filter(|code| wanted(code.level())).map(|code| code.as_str());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(codes)).into()
}

fn error_schema() -> Schema {
    let text =
        |description: &str| ObjectBuilder::new().schema_type(Type::String).description(Some(description));
    let field = ObjectBuilder::new()
        .property("field", text("The request field concerned."))
        .required("field")
        .property("code", codes(|level| level != Level::Top))
        .required("code");
    let fields = ArrayBuilder::new()
        .schema_type(SchemaType::from_iter([Type::Array, Type::Null]))
        .description(Some("Present only when `code` is `validation_failed`."))
        .items(field);
    let error = ObjectBuilder::new()
        .property("code", codes(|level| level != Level::Field))
        .required("code")
        .property(
            "message",
            text("For people, in the language of `Accept-Language`. Clients match on `code`."),
        )
        .required("message")
        .property("fields", fields);
    ObjectBuilder::new()
        .description(Some("Every 4xx and 5xx response has this body."))
        .property("error", error)
        .required("error")
        .into()
}

/// The one header that every operation reads besides the key.
fn accept_language() -> Parameter {
    ParameterBuilder::new()
        .name("Accept-Language")
        .parameter_in(ParameterIn::Header)
        .description(Some("The language of `error.message`: en (the default), pt-BR, es or de."))
        .schema(Some(Object::with_type(Type::String)))
        .build()
}

/// The document.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = operations().into_openapi();
    document.info = InfoBuilder::new()
        .title("Settle")
        .version("1")
        .description(Some(include_str!("docs/description.md").trim()))
        .license(Some(
            LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build(),
        ))
        .build();
    let components = document.components.get_or_insert_with(Components::new);
    components.schemas.insert(ERROR_SCHEMA.to_owned(), RefOr::T(error_schema()));
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format("sk_ followed by lower-case hex")
        .description(Some("The API key, as `Authorization: Bearer sk_…`."))
        .build();
    components.add_security_scheme(SECURITY_SCHEME, SecurityScheme::Http(scheme));
    document.security = Some(vec![SecurityRequirement::new(SECURITY_SCHEME, Vec::<String>::new())]);
    for item in document.paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        for operation in methods.into_iter().flatten() {
            operation.responses.responses.extend(responses(&COMMON));
            operation.parameters.get_or_insert_default().push(RefOr::T(accept_language()));
            for documented in operation.responses.responses.values_mut() {
                if let RefOr::T(documented) = documented {
                    let id = header("Names this request in the service's log.");
                    documented.headers.insert("X-Request-Id".to_owned(), RefOr::T(id));
                }
            }
        }
    }
    document
}

static TEXT: LazyLock<Result<String, Unserializable>> = LazyLock::new(|| {
    let mut text = document().to_pretty_json()?;
    text.push('\n');
    Ok(text)
});

/// The document as the service serves it and the repository holds it: pretty-printed, with a newline at the
/// end.
pub fn text() -> Result<&'static str, &'static Unserializable> {
    TEXT.as_deref()
}

static ASSET: LazyLock<Result<Asset, String>> = LazyLock::new(|| {
    let text = text().map_err(ToString::to_string)?;
    Asset::new(text, "application/json").map_err(|fault| fault.to_string())
});

/// `GET /openapi.json`.
pub(crate) async fn serve(headers: HeaderMap) -> Result<Response, ApiError> {
    let asset = ASSET.as_ref().map_err(|cause| ApiError::Internal(format!("openapi.json: {cause}")))?;
    Ok(asset.answer(&headers))
}
