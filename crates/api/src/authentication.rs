//! Finds out which merchant is calling. Every handler has `Caller` as its first argument, so that axum judges
//! the key before it reads anything else.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use settle_accounts::keys::{self, AuthenticatedKey};
use settle_domain::credential::{Credential, CredentialHash, CredentialKind};
use settle_domain::ids::MerchantId;

use crate::error::{ApiError, LookupError};
use crate::http::{Source, bearer};
use crate::state::ApiState;

/// The merchant whose key the request carries. Whatever a handler reads or writes is this merchant's.
#[derive(Debug, Clone, Copy)]
pub struct Caller {
    /// Whose data the request is about.
    pub merchant_id: MerchantId,
}

impl FromRequestParts<ApiState> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &ApiState) -> Result<Caller, ApiError> {
        let credential = bearer(CredentialKind::ApiKey, &parts.headers);
        let credential = credential.map_err(|_| ApiError::InvalidCredentials)?;
        let key = authenticate(state, Source::of_request(parts), &credential)
            .await?
            .ok_or(ApiError::InvalidCredentials)?;
        tracing::Span::current().record("merchant_id", tracing::field::display(key.merchant_id));
        state.rate_limiter().admit(key.merchant_id).map_err(ApiError::Locked)?;
        Ok(Caller { merchant_id: key.merchant_id })
    }
}

/// Looks the key up, together with other requests that carry the same one.
async fn authenticate(
    state: &ApiState,
    source: Source,
    credential: &Credential,
) -> Result<Option<AuthenticatedKey>, LookupError> {
    let look = |hash: CredentialHash| {
        let (store, ring) = (state.store.clone(), state.ring.clone());
        async move { keys::authenticate(&*store, &ring, hash).await }
    };
    state.keys().authenticate(source, credential.hash(), look).await
}
