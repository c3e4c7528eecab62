//! The OpenAPI 3.1 document, generated from the handlers.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::response::Response;
use serde_json::{Value, json};
use settle_domain::error_code::{ErrorCode, Level};
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response as Documented, ResponseBuilder};
use utoipa::openapi::schema::{ArrayBuilder, Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Components, InfoBuilder, LicenseBuilder, OpenApi, Ref, RefOr};

use crate::http;
use crate::language::{Language, Messages};

const SECURITY_SCHEME: &str = "api_key";
const ERROR_SCHEMA: &str = "Error";

/// What an operation can be refused for, as the document tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    InvalidCredentials,
    Locked,
    NotFound,
    InvalidBody,
    Validation,
    EndpointNotConfigured,
    Internal,
    Unavailable,
}

/// What every operation can be refused for, whatever it does.
const COMMON: [Refusal; 4] =
    [Refusal::InvalidCredentials, Refusal::Locked, Refusal::Internal, Refusal::Unavailable];

impl Refusal {
    /// The statuses it has, with the code and what it means.
    fn answers(self) -> Vec<(u16, ErrorCode, &'static str)> {
        let own = |code: ErrorCode, meaning| vec![(code.status(), code, meaning)];
        match self {
            Self::InvalidCredentials => {
                own(ErrorCode::InvalidCredentials, "The API key is missing, malformed, unknown or revoked.")
            }
            Self::Locked => own(
                ErrorCode::Locked,
                "Too many requests with this key. `Retry-After` says when to come back.",
            ),
            Self::NotFound => own(
                ErrorCode::NotFound,
                "The delivery is unknown, belongs to another merchant, or is not dead.",
            ),
            Self::InvalidBody => vec![
                (
                    400,
                    ErrorCode::InvalidBody,
                    "The body is not a JSON object, or a field has the wrong type.",
                ),
                (413, ErrorCode::InvalidBody, "The body is longer than 64 KiB."),
                (415, ErrorCode::InvalidBody, "The `Content-Type` is not JSON."),
            ],
            Self::Validation => own(
                ErrorCode::ValidationFailed,
                "Fields or query parameters are not valid; `error.fields` lists them all.",
            ),
            Self::EndpointNotConfigured => {
                own(ErrorCode::WebhookEndpointNotConfigured, "No webhook endpoint is configured.")
            }
            Self::Internal => own(ErrorCode::InternalError, "A fault of the service."),
            Self::Unavailable => {
                vec![(
                    503,
                    ErrorCode::InternalError,
                    "The service is starting, stopping or overloaded. Try again.",
                )]
            }
        }
    }
}

/// Responses by status.
pub(crate) type Documentation = BTreeMap<String, RefOr<Documented>>;

/// The documented responses of the given refusals.
pub(crate) fn responses(refusals: &[Refusal]) -> Documentation {
    let answers = refusals.iter().flat_map(|refusal| refusal.answers());
    answers
        .map(|(status, code, meaning)| (status.to_string(), RefOr::T(response(status, code, meaning))))
        .collect()
}

fn response(status: u16, code: ErrorCode, meaning: &str) -> Documented {
    let schema = Ref::from_schema_name(ERROR_SCHEMA);
    let content = ContentBuilder::new().schema(Some(schema)).examples_from_iter([(
        code.as_str(),
        ExampleBuilder::new().summary(meaning).value(Some(example(code))).build(),
    )]);
    let mut response =
        ResponseBuilder::new().description(meaning).content("application/json", content.build());
    response = response.header("Content-Language", header("The language of `error.message`."));
    if status == 401 {
        response = response.header("WWW-Authenticate", header("`Bearer realm=\"settle\"`."));
    }
    if matches!(status, 429 | 503) {
        response = response.header("Retry-After", header("Seconds to wait before the next request."));
    }
    if status == 429 {
        response = response
            .header("RateLimit", header("How many requests remain, and until when."))
            .header("RateLimit-Policy", header("How many requests are admitted, and in which time."));
    }
    response.build()
}

fn header(description: &str) -> Header {
    HeaderBuilder::new().description(Some(description)).schema(Some(Object::with_type(Type::String))).build()
}

/// An error as a caller who reads English gets it.
fn example(code: ErrorCode) -> Value {
    let message = Messages::load().map(|messages| messages.text(Language::English, code).to_owned());
    let mut error = json!({ "code": code.as_str(), "message": message.unwrap_or_default() });
    if code == ErrorCode::ValidationFailed {
        error["fields"] = json!([{ "field": "webhook_url", "code": ErrorCode::UnsafeUrl.as_str() }]);
    }
    json!({ "error": error })
}

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

/// The one header that every operation looks at besides the key.
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
    let mut document = crate::router::operations().into_openapi();
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

static TEXT: LazyLock<String> = LazyLock::new(|| {
    // The document holds nothing that JSON cannot.
    let mut text = document().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
});

/// The document as it is served and committed: pretty-printed, with a newline at the end.
#[must_use]
pub fn text() -> &'static str {
    &TEXT
}

/// `GET /openapi.json`.
pub(crate) async fn serve() -> Response {
    http::json(text())
}
