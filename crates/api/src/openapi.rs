//! OpenAPI 3.1: what a document says beside its operations, and how it is served. Each listener has its own
//! document: merchants' is made here, operators' in `operator/document.rs`.

use std::sync::LazyLock;

use axum::http::HeaderMap;
use axum::response::Response;
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{Object, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{Components, InfoBuilder, LicenseBuilder, OpenApi, RefOr, Server};

use crate::error::{ApiError, Unserializable};
use crate::http::Asset;
use crate::operations::operations;
use crate::refusals::{MERCHANTS, Refusal, header, responses};

mod errors;
mod notification;

pub(crate) use errors::Explained;

/// What a document says beside its operations.
pub(crate) struct Surface {
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    /// The nouns, each in a sentence.
    pub(crate) tags: &'static [(&'static str, &'static str)],
    /// The name of the credential, its form, and what it is.
    pub(crate) credential: [&'static str; 3],
    /// Why every operation that asks for the credential can refuse a request.
    pub(crate) common: &'static [Refusal],
    pub(crate) explained: Explained,
}

const MERCHANT_API: Surface = Surface {
    title: "Settle",
    description: include_str!("docs/description.md"),
    tags: &[
        ("Settlements", "Completed settlements of the caller."),
        ("Webhook deliveries", "The log of notifications, and sending dead ones again."),
        ("Webhook configuration", "Where notifications are sent."),
        (notification::TAG, "What the service sends to the configured endpoint."),
    ],
    credential: [
        "api_key",
        "sk_ followed by lower-case hex",
        "The API key, as `Authorization: Bearer sk_…`.",
    ],
    common: &MERCHANTS,
    explained: Explained::Fields,
};

/// The merchants' document.
#[must_use]
pub fn document() -> OpenApi {
    let mut document = complete(operations().into_openapi(), &MERCHANT_API);
    notification::describe(&mut document);
    document
}

/// Adds to the operations what all documents have.
pub(crate) fn complete(mut document: OpenApi, surface: &Surface) -> OpenApi {
    document.info = InfoBuilder::new()
        .title(surface.title)
        .version("1")
        .description(Some(surface.description.trim()))
        .license(Some(
            LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build(),
        ))
        .build();
    // Whoever serves the document serves the API.
    document.servers = Some(vec![Server::new("/")]);
    let tag = |(name, description): &(&str, &str)| {
        TagBuilder::new().name(*name).description(Some(*description)).build()
    };
    document.tags = Some(surface.tags.iter().map(tag).collect());
    let components = document.components.get_or_insert_with(Components::new);
    for (name, schema) in errors::schemas(surface.explained) {
        components.schemas.insert(name.to_owned(), schema);
    }
    let [name, form, description] = surface.credential;
    let scheme = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .bearer_format(form)
        .description(Some(description))
        .build();
    components.add_security_scheme(name, SecurityScheme::Http(scheme));
    document.security = Some(vec![SecurityRequirement::new(name, Vec::<String>::new())]);
    for item in document.paths.paths.values_mut() {
        let methods = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch];
        methods.into_iter().flatten().for_each(|operation| complete_operation(operation, surface));
    }
    document
}

fn complete_operation(operation: &mut Operation, surface: &Surface) {
    let is_public = operation.security.is_some();
    if !is_public {
        operation.responses.responses.extend(responses(surface.common));
        operation.parameters.get_or_insert_default().push(RefOr::T(accept_language()));
    }
    for documented in operation.responses.responses.values_mut() {
        if let RefOr::T(documented) = documented {
            let id = header("Names this request in the service's log.");
            documented.headers.insert("X-Request-Id".to_owned(), RefOr::T(id));
        }
    }
}

/// The one header that every operation reads besides the credential.
fn accept_language() -> Parameter {
    ParameterBuilder::new()
        .name("Accept-Language")
        .parameter_in(ParameterIn::Header)
        .description(Some("The language of `error.message`: en (the default), pt-BR, es or de."))
        .schema(Some(Object::with_type(Type::String)))
        .build()
}

/// A document as the service serves it and the repository holds it: pretty-printed, with a newline at the
/// end.
pub(crate) struct Published {
    text: Result<String, Unserializable>,
    asset: Result<Asset, String>,
}

impl Published {
    pub(crate) fn new(document: &OpenApi) -> Published {
        let text = document.to_pretty_json().map(|text| text + "\n").map_err(Unserializable::from);
        let asset = text
            .as_ref()
            .map_err(ToString::to_string)
            .and_then(|text| Asset::new(text.clone(), "application/json").map_err(|fault| fault.to_string()));
        Published { text, asset }
    }

    pub(crate) fn text(&self) -> Result<&str, &Unserializable> {
        self.text.as_deref()
    }

    /// The answer to a request with these headers.
    pub(crate) fn answer(&self, headers: &HeaderMap) -> Result<Response, ApiError> {
        let asset =
            self.asset.as_ref().map_err(|cause| ApiError::Internal(format!("openapi.json: {cause}")))?;
        Ok(asset.answer(headers))
    }
}

static PUBLISHED: LazyLock<Published> = LazyLock::new(|| Published::new(&document()));

/// The merchants' document as text.
pub fn text() -> Result<&'static str, &'static Unserializable> {
    PUBLISHED.text()
}

/// `GET /openapi.json` of the merchant API.
pub(crate) async fn serve(headers: HeaderMap) -> Result<Response, ApiError> {
    PUBLISHED.answer(&headers)
}
