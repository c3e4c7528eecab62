//! The provider protocol as an OpenAPI document, made from the sandbox's own routes.

use settle_provider::client::IDEMPOTENCY_KEY_HEADER;
use settle_provider::wire::Problem;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation as Documented, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::openapi::{ContentBuilder, InfoBuilder, LicenseBuilder, Ref, RefOr, Required};
use utoipa::{OpenApi, ToSchema};

use crate::http::protocol;

#[derive(OpenApi)]
#[openapi(
    paths(
        protocol::capabilities,
        protocol::quote,
        protocol::convert,
        protocol::pay_out,
        protocol::refund,
        protocol::look_up,
        protocol::void,
        protocol::list_operations,
    ),
    components(schemas(Problem))
)]
struct Document;

const DESCRIPTION: &str = "\
What a provider answers to Settle: it quotes, converts, pays out and refunds. `docs/providers.md` is the contract in words.

Both sides sign every request and every answer: `service-signature` is `sha256=` and the HMAC-SHA256, in lower-case hex, of \
`service-timestamp`, a dot and the very bytes of the body, under the shared secret. What is more than 300 seconds old or ahead \
is turned away.";

/// The document: pretty-printed, with a newline at the end.
pub fn text() -> Result<String, serde_json::Error> {
    let mut document = Document::openapi();
    document.info = InfoBuilder::new()
        .title("Settle: the provider protocol")
        .version("1")
        .description(Some(DESCRIPTION))
        .license(Some(
            LicenseBuilder::new().name("MIT OR Apache-2.0").identifier(Some("MIT OR Apache-2.0")).build(),
        ))
        .build();
    for item in document.paths.paths.values_mut() {
        for (operation, is_post) in [(&mut item.get, false), (&mut item.post, true)] {
            if let Some(operation) = operation {
                complete(operation, is_post);
            }
        }
    }
    let mut text = document.to_pretty_json()?;
    text.push('\n');
    Ok(text)
}

/// Adds what holds for every operation: signatures both ways, and what happens without one.
fn complete(operation: &mut Documented, is_post: bool) {
    operation.tags = None;
    let parameters = operation.parameters.get_or_insert_default();
    parameters.extend(signature_headers().map(|(name, description)| RefOr::T(parameter(name, description))));
    let creates =
        operation.operation_id.as_deref().is_some_and(|id| id.starts_with("create") && id != "createQuote");
    if is_post && creates {
        let text = "The operation id again, for providers that keep their keys at the door.";
        let header =
            ParameterBuilder::from(parameter(IDEMPOTENCY_KEY_HEADER, text)).required(Required::False);
        parameters.push(RefOr::T(header.build()));
    }
    let responses = &mut operation.responses.responses;
    for (status, description) in [
        ("400", "The body or a parameter is not the protocol's: `invalid_body`."),
        ("401", "A header of the signature is missing or malformed, or its time is too far off."),
        ("403", "The signature is not of this secret, time and body."),
    ] {
        responses.insert(status.to_owned(), RefOr::T(problem(description)));
    }
    for response in responses.values_mut() {
        if let RefOr::T(response) = response {
            for (name, description) in signature_headers() {
                let header =
                    HeaderBuilder::new().schema(Some(string())).description(Some(description)).build();
                response.headers.insert(name.to_owned(), RefOr::T(header));
            }
        }
    }
}

fn signature_headers() -> [(&'static str, &'static str); 2] {
    [
        (settle_domain::signature::TIMESTAMP_HEADER, "The time of signing, in seconds since 1970."),
        (settle_domain::signature::SIGNATURE_HEADER, "`sha256=` and the signature."),
    ]
}

fn parameter(name: &str, description: &str) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::True)
        .description(Some(description))
        .schema(Some(string()))
        .build()
}

fn string() -> Object {
    ObjectBuilder::new().schema_type(Type::String).build()
}

fn problem(description: &str) -> Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
    ResponseBuilder::new().description(description).content("application/json", body).build()
}
