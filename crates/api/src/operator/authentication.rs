//! Which operator is calling. The first argument of every handler of the operator API, so that the token is
//! judged before anything else is read.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use settle_domain::credential::CredentialKind;

use super::OperatorState;
use crate::error::{ApiError, TokenFault};
use crate::http::{BearerFault, bearer};

/// An operator whose token holds. The log names it.
pub(super) struct Operator;

impl FromRequestParts<OperatorState> for Operator {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &OperatorState) -> Result<Operator, ApiError> {
        let token = bearer(CredentialKind::OperatorToken, &parts.headers).map_err(|fault| match fault {
            BearerFault::Missing => ApiError::AccessToken(TokenFault::Missing),
            BearerFault::Malformed => ApiError::AccessToken(TokenFault::Malformed),
        })?;
        let found = state.store.operator_authenticate(&state.ring.hashes(&token)).await;
        let found = found.map_err(|fault| match ApiError::from(fault) {
            ApiError::Unavailable(cause) => ApiError::AccessUnverifiable(cause),
            other => other,
        })?;
        let operator_id = found.ok_or(ApiError::AccessToken(TokenFault::Invalid))?;
        tracing::Span::current().record("operator_id", tracing::field::display(operator_id));
        Ok(Operator)
    }
}
