//! API keys of merchants, found by the hash of their plain text.

use async_trait::async_trait;
use settle_domain::credential::{CredentialHash, CredentialSeal, Holder};
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::time::Timestamp;

use crate::{Revocation, StoreResult};

/// A key as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The key's id.
    pub key_id: KeyId,
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
    /// The merchant's name for it.
    pub label: Option<String>,
    /// The last four characters of its plain text.
    pub last_four: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A key to store.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key, not revoked.
    pub key: Key,
    /// The hash of its plain text.
    pub hash: CredentialHash,
    /// The seal of the hash.
    pub seal: CredentialSeal,
}

/// A key as the database stores it. Only its seal says whether the row can be believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// The key's id.
    pub key_id: KeyId,
    /// The merchant in whose row it stands.
    pub merchant_id: MerchantId,
    /// The hash of its plain text.
    pub hash: CredentialHash,
    /// The seal of the hash; a revoked key has none.
    pub seal: Option<CredentialSeal>,
}

impl StoredKey {
    /// Whose key it claims to be.
    #[must_use]
    pub fn holder(&self) -> Holder {
        Holder::Merchant { merchant_id: self.merchant_id, key_id: self.key_id }
    }
}

/// Questions about keys.
#[async_trait]
pub trait KeyReads {
    /// The key with this hash, unless it is revoked. One read decides both; the caller judges the seal.
    async fn key_find(&self, hash: CredentialHash) -> StoreResult<Option<StoredKey>>;

    /// A merchant's keys in the order of their ids, which is that of their making, starting after the given
    /// id.
    async fn key_list(&self, merchant: MerchantId, after: Option<KeyId>, limit: u32)
    -> StoreResult<Vec<Key>>;

    /// A merchant's key by its id, revoked or not.
    async fn key_show(&self, merchant: MerchantId, key: KeyId) -> StoreResult<Option<Key>>;
}

/// Changes to keys.
#[async_trait]
pub trait KeyWrites {
    /// Adds a key.
    async fn key_create(&mut self, key: &NewKey) -> StoreResult<()>;

    /// Revokes a key, effective on every node from the commit on. Its seal goes: whoever can write to the
    /// table cannot make the key valid again.
    async fn key_revoke(&mut self, key: KeyId, at: Timestamp) -> StoreResult<Revocation>;
}
