//! Who is calling. The first argument of every handler, so that the key is judged before anything else is
//! read.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use settle_domain::credential::{Credential, CredentialHash, CredentialKind};
use settle_domain::ids::{KeyId, MerchantId};
use settle_store::{AuthenticatedKey, StoreResult};

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
        let credential = bearer(CredentialKind::ApiKey, &parts.headers);
        let credential = credential.map_err(|_| ApiError::InvalidCredentials)?;
        let key = authenticate(state, &credential).await?.ok_or(ApiError::InvalidCredentials)?;
        tracing::Span::current().record("merchant_id", tracing::field::display(key.merchant_id));
        state.rate_limiter().admit(key.key_id).map_err(ApiError::Locked)?;
        Ok(Caller { merchant_id: key.merchant_id, key_id: key.key_id })
    }
}

/// The key of a credential, together with others who ask for the same.
async fn authenticate(state: &ApiState, credential: &Credential) -> StoreResult<Option<AuthenticatedKey>> {
    let look = |hashes: Vec<CredentialHash>| {
        let store = state.store.clone();
        async move { store.key_authenticate(&hashes).await }
    };
    state.keys().authenticate(state.ring.hashes(credential), look).await
}

/// Why a request carries no credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BearerFault {
    /// There is no `Authorization` header.
    Missing,
    /// It is there more than once, or does not have the form of one.
    Malformed,
}

/// The credential in the one `Authorization` header, if it has the form of its kind.
pub fn bearer(kind: CredentialKind, headers: &HeaderMap) -> Result<Credential, BearerFault> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(BearerFault::Missing)?;
    let is_only = values.next().is_none();
    let credential = || {
        let (scheme, text) = value.to_str().ok()?.split_once(' ')?;
        // RFC 9110 allows more than one blank between the scheme and the credentials.
        let text = scheme.eq_ignore_ascii_case("bearer").then(|| text.trim_start_matches(' '))?;
        Credential::parse(kind, text)
    };
    is_only.then(credential).flatten().ok_or(BearerFault::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn fault(values: &[&str]) -> Option<BearerFault> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        bearer(CredentialKind::ApiKey, &headers).err()
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case_and_the_header_is_there_once() {
        for value in ["Bearer sk_00ff", "bearer sk_00ff", "BEARER  sk_00ff"] {
            assert_eq!(fault(&[value]), None, "{value}");
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
            assert_eq!(fault(&[value]), Some(BearerFault::Malformed), "{value}");
        }
        assert_eq!(fault(&["Bearer sk_00ff", "Bearer sk_00ff"]), Some(BearerFault::Malformed));
        assert_eq!(fault(&[]), Some(BearerFault::Missing));
    }
}
