//! The API keys of a merchant.

use settle_domain::credential::{Credential, CredentialHash, CredentialKind, Holder};
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::seams::{Clock, Entropy};
use settle_domain::vault::{KeyRing, Recognition};
use settle_store::{Key, NewKey, ResealedKey, Revocation, Store, StoreResult, StoredKey};

use crate::AccountError;
use crate::anew::try_in_turn;
use crate::names::checked;

/// Keys read in one call.
const LIST_PAGE: u32 = 1_000;

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
    let hash = credential.hash();
    let seal = ring.seal_credential(Holder::Merchant { merchant_id, key_id: key.key_id }, hash);
    let mut tx = store.begin().await?;
    tx.key_create(&NewKey { key: key.clone(), hash, seal }).await?;
    tx.commit().await?;
    Ok((key, credential))
}

/// The caller who used a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticatedKey {
    /// The key's id.
    pub key_id: KeyId,
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
}

/// The caller who used the key with this hash, if it is valid: found, not revoked, and sealed for the
/// merchant in whose row it stands.
pub async fn authenticate(
    store: &dyn Store,
    ring: &KeyRing,
    hash: CredentialHash,
) -> StoreResult<Option<AuthenticatedKey>> {
    let Some(found) = store.key_find(hash).await? else { return Ok(None) };
    let (key_id, merchant_id) = (found.key_id, found.merchant_id);
    match ring.recognise(found.holder(), hash, found.seal.as_ref()) {
        Ok(Recognition::Current) => {}
        // In a box, because it is rare: otherwise every look-up would have room for it.
        Ok(Recognition::Stale) => Box::pin(try_in_turn(seal_anew(store, ring, &found))).await,
        Err(fault) => {
            tracing::error!(%key_id, %merchant_id, %fault, "an API key is refused: its row cannot be believed");
            return Ok(None);
        }
    }
    Ok(Some(AuthenticatedKey { key_id, merchant_id }))
}

async fn seal_anew(store: &dyn Store, ring: &KeyRing, found: &StoredKey) -> StoreResult<u64> {
    let seal = ring.seal_credential(found.holder(), found.hash);
    let mut tx = store.begin().await?;
    let resealed = ResealedKey { key_id: found.key_id, hash: found.hash, seal };
    let changed = tx.master_key_reseal_keys(&[resealed]).await?;
    tx.commit().await?;
    Ok(changed)
}

/// A merchant's keys, oldest first, revoked ones included.
pub async fn list(store: &dyn Store, merchant_id: MerchantId) -> Result<Vec<Key>, AccountError> {
    let mut keys: Vec<Key> = Vec::new();
    loop {
        let after = keys.last().map(|last| last.key_id);
        let page = store.key_list(merchant_id, after, LIST_PAGE).await?;
        if page.is_empty() {
            return Ok(keys);
        }
        keys.extend(page);
    }
}

/// Revokes a key, effective on every node from the next request on.
pub async fn revoke(store: &dyn Store, clock: &dyn Clock, key_id: KeyId) -> Result<Revocation, AccountError> {
    let mut tx = store.begin().await?;
    let revocation = tx.key_revoke(key_id, clock.now()).await?;
    tx.commit().await?;
    Ok(revocation)
}
