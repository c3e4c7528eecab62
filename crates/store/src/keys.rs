//! API keys of merchants, found by the hash of their plain text.

use async_trait::async_trait;
use settle_domain::credential::CredentialHash;
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
}

/// The caller who used a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthenticatedKey {
    /// The key's id.
    pub key_id: KeyId,
    /// The merchant it belongs to.
    pub merchant_id: MerchantId,
}

/// Questions about keys.
#[async_trait]
pub trait KeyReads {
    /// The caller who used a key, if one of its hashes is stored and not revoked. One read decides both.
    async fn key_authenticate(&self, hashes: &[CredentialHash]) -> StoreResult<Option<AuthenticatedKey>>;

    /// A merchant's keys, oldest first.
    async fn key_list(&self, merchant: MerchantId) -> StoreResult<Vec<Key>>;
}

/// Changes to keys.
#[async_trait]
pub trait KeyWrites {
    /// Adds a key.
    async fn key_create(&mut self, key: &NewKey) -> StoreResult<()>;

    /// Revokes a key, effective on every node from the commit on.
    async fn key_revoke(&mut self, key: KeyId, at: Timestamp) -> StoreResult<Revocation>;
}
