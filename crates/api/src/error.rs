//! Why the API refuses a request, and the one match that turns the reason into HTTP.
//!
//! An error becomes a response without a body that carries an [`ErrorBody`]; the outermost layer
//! (`http/envelope.rs`) writes the body from it in the caller's language. So one place renders every error,
//! wherever it arises.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use settle_accounts::AccountError;
use settle_domain::error_code::{ErrorCode, FieldFault};
use settle_store::StoreError;

use crate::language::Wording;

/// How long a caller should wait before it tries an unavailable service again, in seconds.
const RETRY_AFTER_SECONDS: u32 = 2;

/// Why the API refuses a request.
#[derive(Debug)]
pub enum ApiError {
    /// The key is missing, malformed, unknown or revoked; the answer does not say which.
    InvalidCredentials,
    /// The caller has asked for too much at once.
    Locked(RateLimited),
    /// The source of the request has given too many wrong credentials.
    Guessed(RateLimited),
    /// The source of the request has too many under way.
    Crowded(RateLimited),
    /// The request names no host, or more than one.
    InvalidHost,
    /// It is no request that can be read: the HTTP library refused it with this status.
    Unreadable(StatusCode),
    /// There is no such thing, or it is another merchant's.
    NotFound,
    /// The router knows the path but not the method. It adds `Allow`.
    MethodNotAllowed,
    /// The body cannot be read.
    InvalidBody(BodyFault),
    /// Fields or query parameters are not valid.
    Validation(Vec<FieldFault>),
    /// There is no endpoint to send to.
    EndpointNotConfigured,
    /// The operator's token does not hold.
    AccessToken(TokenFault),
    /// The database cannot judge the operator's token at the moment. The text is for the log alone.
    AccessUnverifiable(String),
    /// An operator's request has values that are not valid; each detail names one.
    AdminValidation(Vec<String>),
    /// An operator sends settlements that are recorded with other content; each detail names one.
    Conflict(Vec<String>),
    /// What an operator wants to do with a payment is not allowed now: the code says why, the text in words.
    Illegal(ErrorCode, String),
    /// A fault of ours. The text is for the log alone.
    Internal(String),
    /// A fault of ours that may pass. The text is for the log alone.
    Unavailable(String),
}

/// An answer that cannot be written as JSON. A fault of ours.
#[derive(Debug, thiserror::Error)]
#[error("the answer cannot be written as JSON: {0}")]
pub struct Unserializable(#[from] serde_json::Error);

/// Why a body cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFault {
    /// Not JSON, not UTF-8, not an object, a field of the wrong type, or it did not arrive in time.
    Unreadable,
    /// Too long.
    TooLarge,
    /// Its `Content-Type` is not JSON.
    WrongType,
}

/// Why an operator's token does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenFault {
    /// There is none.
    Missing,
    /// It does not have the form of one.
    Malformed,
    /// It is unknown or revoked.
    Invalid,
}

/// What a caller learns who has asked for too much at once.
#[derive(Debug, Clone, Copy)]
pub struct RateLimited {
    /// The name of the limit.
    pub name: &'static str,
    /// How long until it is worth trying again.
    pub retry_after: Duration,
    /// How much is allowed.
    pub quota: Quota,
}

/// How much a limit allows.
#[derive(Debug, Clone, Copy)]
pub enum Quota {
    /// Requests in a time.
    Requests {
        /// How many at once.
        number: u32,
        /// Seconds until as many are allowed again.
        window_seconds: u32,
    },
    /// Requests under way at once.
    Concurrent(usize),
    /// Bytes of answers that the caller has not read yet.
    Bytes(usize),
}

impl RateLimited {
    /// Whole seconds, rounded up, so that a caller who waits that long is admitted.
    fn retry_after_seconds(&self) -> u64 {
        self.retry_after.as_secs() + u64::from(self.retry_after.subsec_nanos() > 0)
    }

    /// The value of `RateLimit-Policy`.
    fn policy(&self) -> String {
        let name = self.name;
        match self.quota {
            Quota::Requests { number, window_seconds } => format!("\"{name}\";q={number};w={window_seconds}"),
            Quota::Concurrent(number) => format!("\"{name}\";q={number};qu=\"concurrent-requests\""),
            Quota::Bytes(number) => format!("\"{name}\";q={number};qu=\"content-bytes\""),
        }
    }
}

/// Why a credential could not be looked up.
#[derive(Debug)]
pub enum LookupError {
    /// The store failed.
    Store(StoreError),
    /// The source of the request has given too many wrong ones.
    Guessed(RateLimited),
}

impl From<StoreError> for LookupError {
    fn from(fault: StoreError) -> LookupError {
        LookupError::Store(fault)
    }
}

/// What the outermost layer writes the envelope from.
#[derive(Debug, Clone)]
pub struct ErrorBody {
    /// What it says, which includes its code.
    pub wording: Wording,
    /// The refused fields; `None` leaves the key out.
    pub fields: Option<Vec<FieldFault>>,
    /// What is wrong in words, for operators alone; none leaves the key out.
    pub details: Vec<String>,
    /// What the log says, under the request id.
    pub cause: Option<String>,
    /// What the log says of the request.
    pub log_line: LogLine,
}

/// The line of the log that a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLine {
    /// One of its own.
    Own,
    /// One for many: a stranger can cause it at will, by a credential that does not hold.
    Shared,
    /// None but at debug: it was no request, or its listener counts it.
    None,
}

impl ApiError {
    /// The status and the code of each error.
    #[must_use]
    pub fn status_and_code(&self) -> (StatusCode, ErrorCode) {
        let plain = |code: ErrorCode| {
            // Every status of the table is valid; a test checks all of them.
            (StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), code)
        };
        match self {
            Self::InvalidCredentials => plain(ErrorCode::InvalidCredentials),
            Self::Locked(_) | Self::Guessed(_) | Self::Crowded(_) => plain(ErrorCode::Locked),
            Self::NotFound => plain(ErrorCode::NotFound),
            Self::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, ErrorCode::NotFound),
            Self::InvalidHost | Self::InvalidBody(BodyFault::Unreadable) => plain(ErrorCode::InvalidBody),
            Self::Unreadable(status) => (*status, ErrorCode::InvalidBody),
            Self::InvalidBody(BodyFault::TooLarge) => (StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::InvalidBody),
            Self::InvalidBody(BodyFault::WrongType) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, ErrorCode::InvalidBody)
            }
            Self::Validation(_) => plain(ErrorCode::ValidationFailed),
            Self::EndpointNotConfigured => plain(ErrorCode::WebhookEndpointNotConfigured),
            Self::AccessToken(TokenFault::Missing) => plain(ErrorCode::AccessTokenMissing),
            Self::AccessToken(TokenFault::Malformed) => plain(ErrorCode::AccessTokenMalformed),
            Self::AccessToken(TokenFault::Invalid) => plain(ErrorCode::AccessTokenInvalid),
            Self::AccessUnverifiable(_) => plain(ErrorCode::AccessVerificationUnavailable),
            Self::AdminValidation(_) => plain(ErrorCode::AdminValidationFailed),
            Self::Conflict(_) => plain(ErrorCode::Conflict),
            Self::Illegal(code, _) => {
                let is_forbidden = *code == ErrorCode::Forbidden;
                (if is_forbidden { StatusCode::FORBIDDEN } else { StatusCode::CONFLICT }, *code)
            }
            Self::Internal(_) => plain(ErrorCode::InternalError),
            Self::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, ErrorCode::InternalError),
        }
    }

    fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        match self {
            Self::InvalidCredentials => {
                vec![(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"settle\""))]
            }
            Self::AccessToken(_) => {
                vec![(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"operator\""))]
            }
            Self::Locked(limited) | Self::Guessed(limited) | Self::Crowded(limited) => {
                let (name, seconds) = (limited.name, limited.retry_after_seconds());
                let text =
                    |value: String| HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static(""));
                vec![
                    (header::RETRY_AFTER, HeaderValue::from(seconds)),
                    (HeaderName::from_static("ratelimit"), text(format!("\"{name}\";r=0;t={seconds}"))),
                    (HeaderName::from_static("ratelimit-policy"), text(limited.policy())),
                ]
            }
            Self::Unavailable(_) | Self::AccessUnverifiable(_) => {
                vec![(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS))]
            }
            Self::NotFound
            | Self::MethodNotAllowed
            | Self::InvalidHost
            | Self::Unreadable(_)
            | Self::InvalidBody(_)
            | Self::Validation(_)
            | Self::EndpointNotConfigured
            | Self::AdminValidation(_)
            | Self::Conflict(_)
            | Self::Illegal(..)
            | Self::Internal(_) => Vec::new(),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, code) = self.status_and_code();
        let mut response = Response::default();
        *response.status_mut() = status;
        response.headers_mut().extend(self.headers());
        let log_line = match self {
            Self::InvalidCredentials | Self::AccessToken(_) | Self::Guessed(_) => LogLine::Shared,
            Self::Unreadable(_) | Self::Crowded(_) => LogLine::None,
            _ => LogLine::Own,
        };
        let wording = match &self {
            Self::InvalidHost => Wording::Host,
            Self::Unreadable(StatusCode::BAD_REQUEST) => Wording::Unreadable,
            Self::Unreadable(_) => Wording::HeadTooLarge,
            Self::InvalidBody(BodyFault::TooLarge) => Wording::TooLarge,
            Self::InvalidBody(BodyFault::WrongType) => Wording::ContentType,
            _ => Wording::Of(code),
        };
        let mut body = ErrorBody { wording, fields: None, details: Vec::new(), cause: None, log_line };
        match self {
            Self::Validation(fields) => body.fields = Some(fields),
            Self::AdminValidation(details) | Self::Conflict(details) => body.details = details,
            Self::Illegal(_, detail) => body.details = vec![detail],
            Self::Internal(cause) | Self::Unavailable(cause) | Self::AccessUnverifiable(cause) => {
                body.cause = Some(cause);
            }
            Self::InvalidCredentials
            | Self::Locked(_)
            | Self::Guessed(_)
            | Self::Crowded(_)
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::InvalidHost
            | Self::Unreadable(_)
            | Self::InvalidBody(_)
            | Self::EndpointNotConfigured
            | Self::AccessToken(_) => {}
        }
        response.extensions_mut().insert(body);
        response
    }
}

impl From<LookupError> for ApiError {
    fn from(fault: LookupError) -> ApiError {
        match fault {
            LookupError::Store(fault) => ApiError::from(fault),
            LookupError::Guessed(limited) => ApiError::Guessed(limited),
        }
    }
}

impl From<Unserializable> for ApiError {
    fn from(fault: Unserializable) -> ApiError {
        ApiError::from(&fault)
    }
}

impl From<&Unserializable> for ApiError {
    fn from(fault: &Unserializable) -> ApiError {
        ApiError::Internal(fault.to_string())
    }
}

impl From<StoreError> for ApiError {
    fn from(fault: StoreError) -> ApiError {
        ApiError::from(&fault)
    }
}

/// What an operator asked of accounts, in the operator's words.
impl From<AccountError> for ApiError {
    fn from(fault: AccountError) -> ApiError {
        match fault {
            AccountError::Name(fault) => ApiError::AdminValidation(vec![format!("name: {fault}")]),
            AccountError::Label(fault) => ApiError::AdminValidation(vec![format!("label: {fault}")]),
            AccountError::NameTaken(name) => {
                ApiError::AdminValidation(vec![format!("name: {name} is taken")])
            }
            AccountError::Store(StoreError::UnknownMerchant(_)) => ApiError::NotFound,
            AccountError::Store(fault) => ApiError::from(fault),
        }
    }
}

impl From<&StoreError> for ApiError {
    fn from(fault: &StoreError) -> ApiError {
        let mut cause = fault.to_string();
        let mut source = std::error::Error::source(fault);
        while let Some(fault) = source {
            cause = format!("{cause}: {fault}");
            source = fault.source();
        }
        match fault {
            // Nobody helps by asking again: it needs an administrator.
            StoreError::Unavailable(_) if fault.is_grant_missing() => ApiError::Internal(cause),
            StoreError::Unavailable(_) => ApiError::Unavailable(cause),
            StoreError::Unexpected(_)
            | StoreError::UnknownMerchant(_)
            | StoreError::NameTaken
            | StoreError::LaterVersion => ApiError::Internal(cause),
        }
    }
}
