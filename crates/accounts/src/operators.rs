//! Operators, who run the service.

use settle_domain::credential::{Credential, CredentialKind};
use settle_domain::ids::OperatorId;
use settle_domain::seams::{Clock, Entropy};
use settle_domain::vault::KeyRing;
use settle_store::{NewOperator, Operator, Revocation, Store, StoreError};

use crate::AccountError;
use crate::names::checked;

/// Adds an operator, and gives it with its token, which nobody stores.
pub async fn create(
    store: &dyn Store,
    ring: &KeyRing,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
    name: &str,
) -> Result<(Operator, Credential), AccountError> {
    let name = checked(name).map_err(AccountError::Name)?;
    let now = clock.now();
    let credential = Credential::generate(CredentialKind::OperatorToken, entropy);
    let operator =
        Operator { operator_id: OperatorId::new(now, entropy), name, created_at: now, revoked_at: None };
    let new = NewOperator { operator: operator.clone(), hash: ring.hash(&credential) };
    let mut tx = store.begin().await?;
    tx.operator_create(&new).await.map_err(|error| match error {
        StoreError::NameTaken => AccountError::NameTaken(operator.name.clone()),
        error => error.into(),
    })?;
    tx.commit().await?;
    Ok((operator, credential))
}

/// All operators, oldest first, revoked ones included.
pub async fn list(store: &dyn Store) -> Result<Vec<Operator>, AccountError> {
    Ok(store.operator_list().await?)
}

/// Revokes an operator's token, effective on every node from the next request on.
pub async fn revoke(
    store: &dyn Store,
    clock: &dyn Clock,
    operator_id: OperatorId,
) -> Result<Revocation, AccountError> {
    let mut tx = store.begin().await?;
    let revocation = tx.operator_revoke(operator_id, clock.now()).await?;
    tx.commit().await?;
    Ok(revocation)
}
