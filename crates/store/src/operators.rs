//! Operators of the service, found by the hash of their token.

use async_trait::async_trait;
use settle_domain::credential::{CredentialHash, CredentialSeal, Holder};
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
    /// The seal of the hash.
    pub seal: CredentialSeal,
}

/// An operator's token as the database stores it. Only its seal says whether the row can be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// The operator in whose row it stands.
    pub operator_id: OperatorId,
    /// The hash of the token.
    pub hash: CredentialHash,
    /// The seal of the hash; a revoked token has none.
    pub seal: Option<CredentialSeal>,
}

impl StoredToken {
    /// Whose token it claims to be.
    #[must_use]
    pub fn holder(&self) -> Holder {
        Holder::Operator(self.operator_id)
    }
}

/// Questions about operators.
#[async_trait]
pub trait OperatorReads {
    /// The token with this hash, unless it is revoked. The caller judges the seal.
    async fn operator_find(&self, hash: CredentialHash) -> StoreResult<Option<StoredToken>>;

    /// All operators, oldest first.
    async fn operator_list(&self) -> StoreResult<Vec<Operator>>;
}

/// Changes to operators.
#[async_trait]
pub trait OperatorWrites {
    /// Adds an operator. A name that is in use gives [`StoreError::NameTaken`](crate::StoreError::NameTaken).
    async fn operator_create(&mut self, operator: &NewOperator) -> StoreResult<()>;

    /// Revokes an operator's token, effective on every node from the commit on. Its seal goes with it.
    async fn operator_revoke(&mut self, operator: OperatorId, at: Timestamp) -> StoreResult<Revocation>;
}
