//! Operators of the service, found by the hash of their token.

use async_trait::async_trait;
use settle_domain::credential::CredentialHash;
use settle_domain::ids::OperatorId;
use settle_domain::time::Timestamp;

use crate::{Revocation, StoreResult};

/// An operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operator {
    /// The operator's id.
    pub operator_id: OperatorId,
    /// A name, unique among operators.
    pub name: String,
    /// When the token was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// An operator to store.
#[derive(Debug, Clone)]
pub struct NewOperator {
    /// The operator, not revoked.
    pub operator: Operator,
    /// The hash of the token.
    pub hash: CredentialHash,
}

/// Questions about operators.
#[async_trait]
pub trait OperatorReads {
    /// The operator who used a token, if one of its hashes is stored and not revoked.
    async fn operator_authenticate(&self, hashes: &[CredentialHash]) -> StoreResult<Option<OperatorId>>;

    /// All operators, oldest first.
    async fn operator_list(&self) -> StoreResult<Vec<Operator>>;
}

/// Changes to operators.
#[async_trait]
pub trait OperatorWrites {
    /// Adds an operator. A name that is in use gives [`StoreError::NameTaken`](crate::StoreError::NameTaken).
    async fn operator_create(&mut self, operator: &NewOperator) -> StoreResult<()>;

    /// Revokes an operator's token, effective on every node from the commit on.
    async fn operator_revoke(&mut self, operator: OperatorId, at: Timestamp) -> StoreResult<Revocation>;
}
