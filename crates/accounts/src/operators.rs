//! Operators, who run the service.

use settle_domain::credential::{Credential, CredentialHash, CredentialKind, Holder};
use settle_domain::ids::OperatorId;
use settle_domain::seams::{Clock, Entropy};
use settle_domain::vault::{KeyRing, Recognition};
use settle_store::{
    NewOperator, Operator, ResealedToken, Revocation, Store, StoreError, StoreResult, StoredToken,
};

use crate::AccountError;
use crate::anew::try_in_turn;
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
    let hash = credential.hash();
    let seal = ring.seal_credential(Holder::Operator(operator.operator_id), hash);
    let new = NewOperator { operator: operator.clone(), hash, seal };
    let mut tx = store.begin().await?;
    tx.operator_create(&new).await.map_err(|error| match error {
        StoreError::NameTaken => AccountError::NameTaken(operator.name.clone()),
        error => error.into(),
    })?;
    tx.commit().await?;
    Ok((operator, credential))
}

/// The operator who used the token with this hash, if it is valid: found, not revoked, and sealed for the
/// operator in whose row it stands.
pub async fn authenticate(
    store: &dyn Store,
    ring: &KeyRing,
    hash: CredentialHash,
) -> StoreResult<Option<OperatorId>> {
    let Some(found) = store.operator_find(hash).await? else { return Ok(None) };
    let operator_id = found.operator_id;
    match ring.recognise(found.holder(), hash, found.seal.as_ref()) {
        Ok(Recognition::Current) => {}
        // In a box, because it is rare: otherwise every look-up would have room for it.
        Ok(Recognition::Stale) => Box::pin(try_in_turn(seal_anew(store, ring, &found))).await,
        Err(fault) => {
            tracing::error!(%operator_id, %fault, "an operator is refused: the row cannot be believed");
            return Ok(None);
        }
    }
    Ok(Some(operator_id))
}

async fn seal_anew(store: &dyn Store, ring: &KeyRing, found: &StoredToken) -> StoreResult<u64> {
    let seal = ring.seal_credential(found.holder(), found.hash);
    let mut tx = store.begin().await?;
    let resealed = ResealedToken { operator_id: found.operator_id, hash: found.hash, seal };
    let changed = tx.master_key_reseal_tokens(&[resealed]).await?;
    tx.commit().await?;
    Ok(changed)
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
