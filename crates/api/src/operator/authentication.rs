//! Which operator is calling. `Operator` is the first argument of every handler of the operator API: it
//! judges the token before the handler reads the rest.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use settle_accounts::operators;
use settle_domain::credential::{Credential, CredentialHash, CredentialKind};
use settle_domain::ids::OperatorId;

use super::OperatorState;
use crate::error::{ApiError, LookupError, TokenFault};
use crate::http::{BearerFault, Source, bearer};

/// An operator whose token is valid. The log names the operator.
pub(super) struct Operator(OperatorId);

impl Operator {
    /// Whose token it is: acts on money are somebody's.
    pub(super) fn id(&self) -> OperatorId {
        self.0
    }
}

impl FromRequestParts<OperatorState> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &OperatorState) -> Result<Operator, ApiError> {
        let token = bearer(CredentialKind::OperatorToken, &parts.headers).map_err(|fault| match fault {
            BearerFault::Missing => ApiError::AccessToken(TokenFault::Missing),
            BearerFault::Malformed => ApiError::AccessToken(TokenFault::Malformed),
        })?;
        let found = authenticate(state, Source::of_request(parts), &token).await;
        let found = found.map_err(|fault| match ApiError::from(fault) {
            ApiError::Unavailable(cause) => ApiError::AccessUnverifiable(cause),
            other => other,
        })?;
        let operator_id = found.ok_or(ApiError::AccessToken(TokenFault::Invalid))?;
        tracing::Span::current().record("operator_id", tracing::field::display(operator_id));
        Ok(Operator(operator_id))
    }
}

/// The operator of a token. Concurrent requests with the same token share one look into the database.
async fn authenticate(
    state: &OperatorState,
    source: Source,
    token: &Credential,
) -> Result<Option<OperatorId>, LookupError> {
    let look = |hash: CredentialHash| {
        let (store, ring) = (state.store.clone(), state.ring.clone());
        async move { operators::authenticate(&*store, &ring, hash).await }
    };
    state.operators.authenticate(source, token.hash(), look).await
}
