//! A merchant's webhook configuration: one endpoint and its secret, or nothing.
//!
//! [`EndpointRequest::decide`] holds every rule of a change. It is pure: the caller passes in the address
//! guard's verdict on the URL, and whether the merchant has an endpoint.

use crate::error_code::{ErrorCode, FieldFault};
use crate::webhook_secret::{SealedSecret, WebhookSecret};

/// The configured endpoint of a merchant. There is no endpoint without a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Where we send notifications: the text as the merchant wrote it.
    pub url: String,
    /// The secret that signs them, sealed.
    pub secret: SealedSecret,
}

/// What a request says about the URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UrlRequest {
    /// The field is absent: the URL stays.
    Keep,
    /// The field is null or empty: the merchant wants no more notifications.
    Clear,
    /// A URL.
    Set(String),
}

/// A request to change the configuration.
#[derive(Debug)]
pub struct EndpointRequest {
    /// What it says about the URL.
    pub url: UrlRequest,
    /// The parsed secret, or the code that refuses it; `None` where the field is absent or null.
    pub secret: Option<Result<WebhookSecret, ErrorCode>>,
}

/// What a request does.
#[derive(Debug)]
pub enum EndpointChange {
    /// Nothing.
    Nothing,
    /// Removes the endpoint and its secret.
    Clear,
    /// Stores a URL and a secret; where one is `None`, the merchant's present one stays.
    Set {
        /// The new URL.
        url: Option<String>,
        /// The new secret.
        secret: Option<WebhookSecret>,
    },
}

impl EndpointRequest {
    /// Decides what the request does, or lists the refused fields in the order of the contract.
    ///
    /// `url_fault` is the address guard's refusal of the URL, if it refused one.
    pub fn decide(
        self,
        has_endpoint: bool,
        url_fault: Option<ErrorCode>,
    ) -> Result<EndpointChange, Vec<FieldFault>> {
        let url = match self.url {
            // A secret in the same body is ignored, even a bad one.
            UrlRequest::Clear => return Ok(EndpointChange::Clear),
            UrlRequest::Keep if self.secret.is_none() => return Ok(EndpointChange::Nothing),
            UrlRequest::Keep if !has_endpoint => Err(ErrorCode::Required),
            UrlRequest::Keep => Ok(None),
            UrlRequest::Set(url) => url_fault.map_or(Ok(Some(url)), Err),
        };
        let secret = match self.secret {
            Some(judged) => judged.map(Some),
            None if has_endpoint => Ok(None),
            None => Err(ErrorCode::Required),
        };
        match (url, secret) {
            (Ok(url), Ok(secret)) => Ok(EndpointChange::Set { url, secret }),
            (url, secret) => {
                let url_fault = url.err().map(|code| FieldFault::new("webhook_url", code));
                let secret_fault = secret.err().map(|code| FieldFault::new("webhook_secret", code));
                Err(url_fault.into_iter().chain(secret_fault).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(
        url: UrlRequest,
        secret: Option<&str>,
        has_endpoint: bool,
        url_fault: Option<ErrorCode>,
    ) -> Result<&'static str, Vec<(&'static str, ErrorCode)>> {
        let secret = secret.map(|text| WebhookSecret::parse(text.to_owned()));
        let change = EndpointRequest { url, secret }.decide(has_endpoint, url_fault);
        change
            .map(|change| match change {
                EndpointChange::Nothing => "nothing",
                EndpointChange::Clear => "clear",
                EndpointChange::Set { url: Some(_), secret: Some(_) } => "set both",
                EndpointChange::Set { url: Some(_), secret: None } => "set url",
                EndpointChange::Set { url: None, secret: Some(_) } => "rotate",
                EndpointChange::Set { url: None, secret: None } => "set nothing",
            })
            .map_err(|faults| faults.into_iter().map(|fault| (fault.field, fault.code)).collect())
    }

    fn set() -> UrlRequest {
        UrlRequest::Set("https://merchant.example/".to_owned())
    }

    #[test]
    fn the_first_url_needs_a_secret_and_a_later_one_keeps_it() {
        let required = Err(vec![("webhook_secret", ErrorCode::Required)]);
        assert_eq!(decide(set(), None, false, None), required);
        assert_eq!(decide(set(), Some(""), false, None), required);
        assert_eq!(decide(set(), Some(""), true, None), required, "empty never means keep");
        assert_eq!(decide(set(), Some("s"), false, None), Ok("set both"));
        assert_eq!(decide(set(), None, true, None), Ok("set url"));
        assert_eq!(decide(set(), Some("s"), true, None), Ok("set both"));
    }

    #[test]
    fn null_or_empty_clears_whatever_the_secret_says() {
        for has_endpoint in [true, false] {
            for secret in [None, Some(""), Some("s"), Some("\u{7}")] {
                assert_eq!(decide(UrlRequest::Clear, secret, has_endpoint, None), Ok("clear"));
            }
        }
    }

    #[test]
    fn an_absent_url_rotates_or_changes_nothing() {
        assert_eq!(decide(UrlRequest::Keep, None, true, None), Ok("nothing"));
        assert_eq!(decide(UrlRequest::Keep, None, false, None), Ok("nothing"));
        assert_eq!(decide(UrlRequest::Keep, Some("s"), true, None), Ok("rotate"));
        let no_endpoint = Err(vec![("webhook_url", ErrorCode::Required)]);
        assert_eq!(decide(UrlRequest::Keep, Some("s"), false, None), no_endpoint);
    }

    #[test]
    fn every_bad_field_is_named_at_once_in_the_order_of_the_contract() {
        let both = vec![("webhook_url", ErrorCode::UnsafeUrl), ("webhook_secret", ErrorCode::Required)];
        assert_eq!(decide(set(), None, false, Some(ErrorCode::UnsafeUrl)), Err(both));
        let both =
            vec![("webhook_url", ErrorCode::Required), ("webhook_secret", ErrorCode::ValidationFailed)];
        assert_eq!(decide(UrlRequest::Keep, Some("a\nb"), false, None), Err(both));
    }
}
