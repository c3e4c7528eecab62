//! The body of every answer that is not a success.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};
use uuid::Uuid;

use super::{Body, WireFault, optional_text, text};

macro_rules! codes {
    ($(#[doc = $doc:literal] $variant:ident = $text:literal),+ $(,)?) => {
        /// Why a provider did not do what was asked, for programs.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum ProblemCode {
            $(#[doc = $doc] $variant,)+
            /// A code that this version does not know.
            Other(String),
        }

        impl ProblemCode {
            /// Every code that the protocol names.
            pub const KNOWN: &[ProblemCode] = &[$(ProblemCode::$variant),+];

            /// The code in JSON.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self { $(ProblemCode::$variant => $text,)+ ProblemCode::Other(text) => text }
            }
        }

        impl FromStr for ProblemCode {
            type Err = Infallible;

            fn from_str(text: &str) -> Result<ProblemCode, Infallible> {
                Ok(match text {
                    $($text => ProblemCode::$variant,)+
                    other => ProblemCode::Other(other.to_owned()),
                })
            }
        }
    };
}

codes! {
    /// 422: no payout or refund of this kind, for good.
    PayoutRefused = "payout_refused",
    /// 422: no conversion.
    ConversionRefused = "conversion_refused",
    /// 422: no price.
    QuoteRefused = "quote_refused",
    /// 422: the rail does not know who paid in.
    SenderNotRegistered = "sender_not_registered",
    /// 422: another body came under this key before.
    Conflict = "conflict",
    /// 409: the rail is closed for now.
    RailInactive = "rail_inactive",
    /// 409: an account for the conversion is missing.
    FxAccountsMissing = "fx_accounts_missing",
    /// 409: the wallet that pays out cannot pay the network's fee.
    PayoutWalletOutOfGas = "payout_wallet_out_of_gas",
    /// 404: the provider has never begun such an operation.
    NotFound = "not_found",
    /// 400: the body is not that of the protocol.
    InvalidBody = "invalid_body",
    /// 401: a header of the signature is missing or malformed, or the time is too far from the provider's.
    Unauthenticated = "unauthenticated",
    /// 403: the signature is not of this secret, time and body.
    Forbidden = "forbidden",
    /// 429: later.
    Locked = "locked",
    /// 503: later.
    ProviderUnavailable = "provider_unavailable",
    /// 500: anything may have happened.
    InternalError = "internal_error",
}

impl ProblemCode {
    /// Whether this code, with status 422, says that an operation or a quote is refused for good.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(
            self,
            ProblemCode::PayoutRefused
                | ProblemCode::ConversionRefused
                | ProblemCode::QuoteRefused
                | ProblemCode::SenderNotRegistered
        )
    }
}

impl fmt::Display for ProblemCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for ProblemCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ProblemCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ProblemCode, D::Error> {
        let text = String::deserialize(deserializer)?;
        let Ok(code) = text.parse();
        Ok(code)
    }
}

impl PartialSchema for ProblemCode {
    fn schema() -> RefOr<Schema> {
        let known = ProblemCode::KNOWN.iter().map(ProblemCode::as_str);
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(known));
        RefOr::T(schema.description(Some("Why, for programs.")).into())
    }
}

impl ToSchema for ProblemCode {}

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// Why, for programs.
    pub code: ProblemCode,
    /// Why, for people; or `quote_expired`, which programs know too.
    #[serde(default)]
    pub reason: Option<String>,
    /// The operation that was asked for. A provider that repeats it binds the signature of the answer to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_id: Option<Uuid>,
}

impl Problem {
    /// The reason of a conversion that is refused because its quote is no longer good: ask for another.
    pub const QUOTE_EXPIRED: &str = "quote_expired";
}

impl Body for Problem {
    fn check(&self) -> Result<(), WireFault> {
        text("code", self.code.as_str())?;
        optional_text("reason", self.reason.as_deref())
    }
}

/// A signed 404: this provider, with this memory, has never begun this operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Absence {
    /// The operation that was looked up.
    pub operation_id: Uuid,
    /// The memory that it is absent from: another instance's is no answer.
    pub instance: String,
}

impl Body for Absence {
    fn check(&self) -> Result<(), WireFault> {
        text("instance", &self.instance)
    }
}
