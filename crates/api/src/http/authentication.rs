//! Who is calling. The first argument of every handler, so that the key is judged before anything else is
//! read.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use settle_domain::credential::{Credential, CredentialKind};
use settle_domain::ids::{KeyId, MerchantId};

use crate::error::ApiError;
use crate::state::ApiState;

/// The merchant whose key the request carries. Whatever a handler reads or writes is this merchant's.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// Whose data the request is about.
    pub merchant_id: MerchantId,
    /// The key it came with.
    pub key_id: KeyId,
}

impl FromRequestParts<ApiState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Caller, ApiError> {
        let credential = bearer(&parts.headers).ok_or(ApiError::InvalidCredentials)?;
        let hashes = state.ring.hashes(&credential);
        let key = state.store.key_authenticate(&hashes).await?.ok_or(ApiError::InvalidCredentials)?;
        tracing::Span::current().record("merchant_id", tracing::field::display(key.merchant_id));
        state.rate_limiter().admit(key.key_id).map_err(ApiError::Locked)?;
        Ok(Caller { merchant_id: key.merchant_id, key_id: key.key_id })
    }
}

/// The key in the one `Authorization` header, if it has the form of one.
fn bearer(headers: &HeaderMap) -> Option<Credential> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (value, another) = (values.next()?, values.next());
    if another.is_some() {
        return None;
    }
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return None;
    }
    // RFC 9110 allows more than one blank between the scheme and the credentials.
    Credential::parse(CredentialKind::ApiKey, key.trim_start_matches(' '))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn found(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        bearer(&headers).is_some()
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case_and_the_header_is_there_once() {
        for value in ["Bearer sk_00ff", "bearer sk_00ff", "BEARER  sk_00ff"] {
            assert!(found(&[value]), "{value}");
        }
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "sk_00ff",
            "Basic sk_00ff",
            "Bearer sk_00FF",
            "Bearer sk_",
            "Bearer op_00ff",
            "Bearer sk_00ff,",
            "Bearer sk_00ff sk_00ff",
            "Bearer\tsk_00ff",
            "Bearer é",
        ] {
            assert!(!found(&[value]), "{value}");
        }
        assert!(!found(&["Bearer sk_00ff", "Bearer sk_00ff"]));
        assert!(!found(&[]));
    }
}
