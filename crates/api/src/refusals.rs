//! Why an operation can refuse a request: the error its handler returns, and how the document describes it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use settle_domain::error_code::ErrorCode;
use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::{Header, HeaderBuilder};
use utoipa::openapi::response::{Response as Documented, ResponseBuilder};
use utoipa::openapi::schema::{Object, Type};
use utoipa::openapi::{Ref, RefOr};

use crate::language::{Language, Messages, Wording};

/// The name of the schema that every refusal has for its body.
pub(crate) const ERROR_SCHEMA: &str = "Error";

/// Why an operation can refuse a request, as the document describes it.
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
    /// Those of operators' operations.
    AccessToken,
    Guessed,
    AccessUnverifiable,
    UnknownMerchant,
    UnknownKey,
    InvalidSettlements,
    AdminValidation,
    Conflict,
    InvalidPayments,
    PayInConflict,
    UnknownPayment,
    IllegalAct,
    UnknownProvider,
    UnknownReport,
    UnknownProposal,
}

/// Why every operation of the merchant API can refuse a request, whatever it does.
pub(crate) const MERCHANTS: [Refusal; 4] =
    [Refusal::InvalidCredentials, Refusal::Locked, Refusal::Internal, Refusal::Unavailable];
/// The same of the operator API.
pub(crate) const OPERATORS: [Refusal; 5] = [
    Refusal::AccessToken,
    Refusal::Guessed,
    Refusal::Internal,
    Refusal::Unavailable,
    Refusal::AccessUnverifiable,
];

impl Refusal {
    /// The statuses of the refusal, each with its code and its meaning.
    fn answers(self) -> Vec<(u16, ErrorCode, &'static str)> {
        let own = |code: ErrorCode, meaning| vec![(code.status(), code, meaning)];
        match self {
            Self::InvalidCredentials => {
                own(ErrorCode::InvalidCredentials, "The API key is missing, malformed, unknown or revoked.")
            }
            Self::Locked => own(
                ErrorCode::Locked,
                "Too much at once: requests of this merchant, its test deliveries under way, pages that it has not \
                 read, or wrong keys from this address. `Retry-After` says when to come back.",
            ),
            Self::NotFound => own(
                ErrorCode::NotFound,
                "The delivery is unknown, belongs to another merchant, or is not dead.",
            ),
            Self::InvalidBody => invalid_body(
                "The body is not a JSON object, or a field has the wrong type.",
                "The body is longer than 64 KiB.",
            ),
            Self::InvalidSettlements | Self::InvalidPayments => invalid_body(
                "The body is neither a JSON object nor a list of them, or a key stands there twice.",
                "The body is longer than 4 MiB.",
            ),
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
            Self::AccessToken => vec![
                (401, ErrorCode::AccessTokenMissing, "There is no token."),
                (401, ErrorCode::AccessTokenMalformed, "The token does not have the form of one."),
                (401, ErrorCode::AccessTokenInvalid, "The token is unknown or revoked."),
            ],
            Self::Guessed => own(ErrorCode::Locked, "Too many wrong tokens from this address."),
            Self::AccessUnverifiable => {
                own(ErrorCode::AccessVerificationUnavailable, "The token cannot be judged at the moment.")
            }
            Self::UnknownMerchant => own(ErrorCode::NotFound, "The merchant is unknown."),
            Self::UnknownKey => own(ErrorCode::NotFound, "The merchant or its key is unknown."),
            Self::AdminValidation => own(
                ErrorCode::AdminValidationFailed,
                "Values are not valid; `error.details` says which, and why. Nothing was done.",
            ),
            Self::Conflict => own(
                ErrorCode::Conflict,
                "Settlements are recorded with other content; `error.details` names them. Nothing was done.",
            ),
            Self::PayInConflict => own(
                ErrorCode::Conflict,
                "Pay-ins are there already with other content or for another merchant; `error.details` names \
                 them. Nothing was done.",
            ),
            Self::UnknownPayment => own(ErrorCode::NotFound, "The merchant or its payment is unknown."),
            Self::UnknownProposal => own(ErrorCode::NotFound, "The proposal is unknown."),
            Self::UnknownProvider => own(ErrorCode::NotFound, "The settings have no such provider."),
            Self::UnknownReport => own(ErrorCode::NotFound, "There is no such report."),
            Self::IllegalAct => illegal_act(),
        }
    }
}

fn illegal_act() -> Vec<(u16, ErrorCode, &'static str)> {
    vec![
        (409, ErrorCode::Conflict, "The payment has changed since, or its state does not allow it."),
        (409, ErrorCode::PayoutOutcomeUnknown, "A payout or refund may still have been made."),
        (409, ErrorCode::ConversionOutcomeUnknown, "A conversion may still have been made."),
        (409, ErrorCode::ProviderStillProcessing, "The provider is still at it."),
        (403, ErrorCode::Forbidden, "It needs two people."),
    ]
}

fn invalid_body(unreadable: &'static str, too_large: &'static str) -> Vec<(u16, ErrorCode, &'static str)> {
    vec![
        (400, ErrorCode::InvalidBody, unreadable),
        (413, ErrorCode::InvalidBody, too_large),
        (415, ErrorCode::InvalidBody, "The `Content-Type` is not JSON."),
    ]
}

/// Responses by status.
pub(crate) type Documentation = BTreeMap<String, RefOr<Documented>>;

/// The documented responses of the given refusals.
pub(crate) fn responses(refusals: &[Refusal]) -> Documentation {
    let mut by_status: BTreeMap<u16, Vec<(ErrorCode, &str)>> = BTreeMap::new();
    for (status, code, meaning) in refusals.iter().flat_map(|refusal| refusal.answers()) {
        by_status.entry(status).or_default().push((code, meaning));
    }
    let answers = by_status.into_iter();
    answers.map(|(status, codes)| (status.to_string(), RefOr::T(response(status, &codes)))).collect()
}

/// The response with this status, which has one of these codes.
fn response(status: u16, codes: &[(ErrorCode, &str)]) -> Documented {
    let schema = Ref::from_schema_name(ERROR_SCHEMA);
    let examples = codes.iter().map(|(code, meaning)| {
        (code.as_str(), ExampleBuilder::new().summary(*meaning).value(Some(example(*code))).build())
    });
    let content = ContentBuilder::new().schema(Some(schema)).examples_from_iter(examples);
    let meanings: Vec<&str> = codes.iter().map(|(_, meaning)| *meaning).collect();
    let mut response =
        ResponseBuilder::new().description(meanings.join(" ")).content("application/json", content.build());
    response = response.header("Content-Language", header("The language of `error.message`."));
    if status == 401 {
        let is_merchants = codes.iter().any(|(code, _)| *code == ErrorCode::InvalidCredentials);
        let realm = if is_merchants { "settle" } else { "operator" };
        response = response.header("WWW-Authenticate", header(&format!("`Bearer realm=\"{realm}\"`.")));
    }
    if matches!(status, 429 | 503) {
        response = response.header("Retry-After", header("Seconds to wait before the next request."));
    }
    if status == 429 {
        response = response
            .header("RateLimit", header("The limit that was met, and when to come back."))
            .header("RateLimit-Policy", header("How much the limit allows."));
    }
    response.build()
}

/// A documented header.
pub(crate) fn header(description: &str) -> Header {
    HeaderBuilder::new().description(Some(description)).schema(Some(Object::with_type(Type::String))).build()
}

/// The error as an English reader gets it.
fn example(code: ErrorCode) -> Value {
    let message =
        Messages::built_in().map(|messages| messages.text(Language::English, Wording::Of(code)).to_owned());
    let mut error = json!({ "code": code.as_str(), "message": message.unwrap_or_default() });
    if code == ErrorCode::ValidationFailed {
        error["fields"] = json!([{ "field": "webhook_url", "code": ErrorCode::UnsafeUrl.as_str() }]);
    }
    if let Some(detail) = detail(code) {
        error["details"] = json!([detail]);
    }
    json!({ "error": error })
}

fn detail(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::AdminValidationFailed => Some("name: is empty"),
        ErrorCode::Conflict => Some(
            "settlement_id: settlement 0190d3c4-7c00-7000-8000-000000000002 of merchant \
             0190d3c4-7c00-7000-8000-000000000001 is there with other content",
        ),
        _ => None,
    }
}

/// Declares why one operation can refuse a request, besides the reasons that every operation has (a bad key,
/// too many requests, a fault of ours). The handler returns the type and OpenAPI lists it, so neither can say
/// more than the other.
macro_rules! operation_errors {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $(($payload:ident: $type:ty))?),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {
            $(#[doc = concat!("See [`ApiError::", stringify!($variant), "`](crate::error::ApiError).")]
            $variant $(($type))?,)*
            /// The store failed.
            Store(settle_store::StoreError),
            /// The answer cannot be written.
            Unserializable($crate::error::Unserializable),
        }

        impl From<settle_store::StoreError> for $name {
            fn from(fault: settle_store::StoreError) -> $name {
                $name::Store(fault)
            }
        }

        impl From<$crate::error::Unserializable> for $name {
            fn from(fault: $crate::error::Unserializable) -> $name {
                $name::Unserializable(fault)
            }
        }

        $($(impl From<$type> for $name {
            fn from($payload: $type) -> $name {
                $name::$variant($payload)
            }
        })?)*

        impl axum::response::IntoResponse for $name {
            fn into_response(self) -> axum::response::Response {
                match self {
                    $($name::$variant $(($payload))? => {
                        $crate::error::ApiError::$variant $(($payload))?.into_response()
                    })*
                    $name::Store(fault) => $crate::error::ApiError::from(fault).into_response(),
                    $name::Unserializable(fault) => $crate::error::ApiError::from(fault).into_response(),
                }
            }
        }

        impl utoipa::IntoResponses for $name {
            fn responses() -> $crate::refusals::Documentation {
                $crate::refusals::responses(&[$($crate::refusals::Refusal::$variant),*])
            }
        }
    };
}

pub(crate) use operation_errors;
