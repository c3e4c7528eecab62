//! Every error code that a client can match on, with its HTTP status and its place in the error envelope.
//!
//! Each code has one status here. The HTTP layer also sends `not_found` with 405, `invalid_body` with 413 and
//! 415, and `internal_error` with 503, because the envelope needs some code there; one match in that layer
//! decides it.

use std::fmt;

/// Where in the envelope a code may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Only as `error.code`.
    Top,
    /// Only as `error.fields[].code`.
    Field,
    /// As either.
    Both,
}

macro_rules! error_codes {
    ($($variant:ident = $text:literal, $status:literal, $level:ident;)+) => {
        /// A machine-stable identifier, the same in every language.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $text, "`, status ", stringify!($status), ".")] $variant,)+
        }

        impl ErrorCode {
            /// Every code, in the order of the contract.
            pub const ALL: &[ErrorCode] = &[$(ErrorCode::$variant),+];

            /// The identifier as clients see it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(ErrorCode::$variant => $text),+ }
            }

            /// The HTTP status of a response whose `error.code` this is.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self { $(ErrorCode::$variant => $status),+ }
            }

            /// Where in the envelope the code may be used.
            #[must_use]
            pub const fn level(self) -> Level {
                match self { $(ErrorCode::$variant => Level::$level),+ }
            }
        }
    };
}

error_codes! {
    InvalidCredentials = "invalid_credentials", 401, Top;
    Unauthenticated = "unauthenticated", 401, Top;
    OriginNotAllowed = "origin_not_allowed", 403, Top;
    ChallengeFailed = "challenge_failed", 403, Top;
    Locked = "locked", 429, Top;
    InvalidLink = "invalid_link", 400, Top;
    InvalidCode = "invalid_code", 400, Both;
    OtpEnforced = "otp_enforced", 403, Top;
    NoMerchant = "no_merchant", 403, Top;
    NoPartner = "no_partner", 403, Top;
    NotFound = "not_found", 404, Top;
    InvalidBody = "invalid_body", 400, Top;
    InternalError = "internal_error", 500, Top;
    ProviderUnavailable = "provider_unavailable", 503, Top;
    ProviderCallFailed = "provider_call_failed", 502, Top;
    QuoteRefused = "quote_refused", 422, Top;
    ConversionRefused = "conversion_refused", 422, Top;
    PayoutRefused = "payout_refused", 422, Top;
    PayoutWalletOutOfGas = "payout_wallet_out_of_gas", 503, Top;
    UnexpectedFailure = "unexpected_failure", 500, Top;
    ProviderStillProcessing = "provider_still_processing", 409, Top;
    DatabaseGrantMissing = "database_grant_missing", 500, Top;
    RailInactive = "rail_inactive", 409, Top;
    FxAccountsMissing = "fx_accounts_missing", 409, Top;
    SenderNotRegistered = "sender_not_registered", 409, Top;
    PayoutOutcomeUnknown = "payout_outcome_unknown", 409, Top;
    ConversionOutcomeUnknown = "conversion_outcome_unknown", 409, Top;
    ValidationFailed = "validation_failed", 422, Both;
    WebhookEndpointNotConfigured = "webhook_endpoint_not_configured", 409, Top;
    AccessTokenMissing = "access_token_missing", 401, Top;
    AccessTokenMalformed = "access_token_malformed", 401, Top;
    AccessTokenInvalid = "access_token_invalid", 401, Top;
    AccessVerificationUnavailable = "access_verification_unavailable", 503, Top;
    Conflict = "conflict", 409, Top;
    AdminValidationFailed = "admin_validation_failed", 422, Top;
    Forbidden = "forbidden", 403, Top;
    IssuanceNotEnabled = "issuance_not_enabled", 403, Top;
    MerchantIdentityIncomplete = "merchant_identity_incomplete", 409, Top;
    IssuanceQuotaExceeded = "issuance_quota_exceeded", 403, Top;
    IssuanceRateLimited = "issuance_rate_limited", 429, Top;
    EndUserReferenceExists = "end_user_reference_exists", 409, Both;
    CurrencyNotEnabled = "currency_not_enabled", 422, Both;
    CurrencyNotSupported = "currency_not_supported", 422, Both;
    Required = "required", 422, Field;
    InvalidUrl = "invalid_url", 422, Field;
    UnsafeUrl = "unsafe_url", 422, Field;
    UnresolvableHost = "unresolvable_host", 422, Field;
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A refused request field, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldFault {
    /// The name of the field or query parameter.
    pub field: &'static str,
    /// The reason: a code whose level is not [`Level::Top`].
    pub code: ErrorCode,
}

impl FieldFault {
    /// A refused field. The code must be allowed on a field.
    #[must_use]
    pub fn new(field: &'static str, code: ErrorCode) -> FieldFault {
        debug_assert!(code.level() != Level::Top, "{code} cannot stand on a field");
        FieldFault { field, code }
    }
}
