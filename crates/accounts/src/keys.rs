//! The API keys of a merchant.

use settle_domain::credential::{Credential, CredentialKind};
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::seams::{Clock, Entropy};
use settle_domain::vault::KeyRing;
use settle_store::{Key, NewKey, Revocation, Store};

use crate::AccountError;
use crate::names::checked;

/// Makes a key, and gives it with its plain text, which nobody stores.
pub async fn create(
    store: &dyn Store,
    ring: &KeyRing,
    clock: &dyn Clock,
    entropy: &dyn Entropy,
    merchant_id: MerchantId,
    label: Option<&str>,
) -> Result<(Key, Credential), AccountError> {
    let label = label.map(checked).transpose().map_err(AccountError::Label)?;
    let now = clock.now();
    let credential = Credential::generate(CredentialKind::ApiKey, entropy);
    let key = Key {
        key_id: KeyId::new(now, entropy),
        merchant_id,
        label,
        last_four: credential.last_four(),
        created_at: now,
        revoked_at: None,
    };
    let mut tx = store.begin().await?;
    tx.key_create(&NewKey { key: key.clone(), hash: ring.hash(&credential) }).await?;
    tx.commit().await?;
    Ok((key, credential))
}

/// A merchant's keys, oldest first, revoked ones included.
pub async fn list(store: &dyn Store, merchant_id: MerchantId) -> Result<Vec<Key>, AccountError> {
    Ok(store.key_list(merchant_id).await?)
}

/// Revokes a key, effective on every node from the next request on.
pub async fn revoke(store: &dyn Store, clock: &dyn Clock, key_id: KeyId) -> Result<Revocation, AccountError> {
    let mut tx = store.begin().await?;
    let revocation = tx.key_revoke(key_id, clock.now()).await?;
    tx.commit().await?;
    Ok(revocation)
}
