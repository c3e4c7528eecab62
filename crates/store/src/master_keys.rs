//! Master keys: the ids of those used with this database, so that a node with a wrong key notices before it
//! does harm; and which rows need which of them, so that one can be retired.
//!
//! The walks go by id in pages, and each page is sealed anew in a transaction of its own: a command that was
//! interrupted goes on where it ended.

use async_trait::async_trait;
use settle_domain::credential::{CredentialHash, CredentialSeal};
use settle_domain::ids::{KeyId, MerchantId, OperatorId};
use settle_domain::time::Timestamp;
use settle_domain::vault::MasterKeyId;
use settle_domain::webhook_secret::SealedSecret;

use crate::{MerchantLock, StoreResult, StoredKey, StoredToken};

/// What a master key seals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SealedKind {
    /// The secret of a merchant's endpoint.
    WebhookSecret,
    /// An API key that is not revoked.
    ApiKey,
    /// An operator's token that is not revoked.
    OperatorToken,
}

/// How many rows of a kind need a master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MasterKeyUse {
    /// What the rows are.
    pub kind: SealedKind,
    /// The master key that they need.
    pub key: MasterKeyId,
    /// How many they are.
    pub rows: u64,
}

/// A webhook secret that was sealed anew.
#[derive(Debug, Clone)]
pub struct ResealedSecret {
    /// Whose secret.
    pub merchant_id: MerchantId,
    /// As it was sealed before.
    pub was: SealedSecret,
    /// As it is sealed now.
    pub now: SealedSecret,
}

/// An API key that was sealed anew.
#[derive(Debug, Clone)]
pub struct ResealedKey {
    /// Which key.
    pub key_id: KeyId,
    /// The hash that the seal is for.
    pub hash: CredentialHash,
    /// The new seal.
    pub seal: CredentialSeal,
}

/// An operator's token that was sealed anew.
#[derive(Debug, Clone)]
pub struct ResealedToken {
    /// Whose token.
    pub operator_id: OperatorId,
    /// The hash that the seal is for.
    pub hash: CredentialHash,
    /// The new seal.
    pub seal: CredentialSeal,
}

/// Questions about master keys.
#[async_trait]
pub trait MasterKeyReads {
    /// The master keys that were ever the newest of a ring, oldest first.
    async fn master_key_list(&self) -> StoreResult<Vec<MasterKeyId>>;

    /// Which rows need which master key. It reads every endpoint, key and operator once.
    async fn master_key_uses(&self) -> StoreResult<Vec<MasterKeyUse>>;

    /// Webhook secrets that another key than the given one has sealed, by merchant.
    async fn master_key_stale_secrets(
        &self,
        newest: MasterKeyId,
        after: Option<MerchantId>,
        limit: u32,
    ) -> StoreResult<Vec<(MerchantId, SealedSecret)>>;

    /// Valid API keys that another master key than the given one has sealed, by id.
    async fn master_key_stale_keys(
        &self,
        newest: MasterKeyId,
        after: Option<KeyId>,
        limit: u32,
    ) -> StoreResult<Vec<StoredKey>>;

    /// Valid operators' tokens that another master key than the given one has sealed, by operator.
    async fn master_key_stale_tokens(
        &self,
        newest: MasterKeyId,
        after: Option<OperatorId>,
        limit: u32,
    ) -> StoreResult<Vec<StoredToken>>;
}

/// Changes to the list of master keys, and to what they seal. A row that changed meanwhile is left as it is;
/// each of the last three says how many rows it changed.
#[async_trait]
pub trait MasterKeyWrites {
    /// Records the first key of a ring as in use, if it is the first of all or another key of the ring is in
    /// use already. Says whether it is in use then: of two who bring the first ring at the same time, one is
    /// told no.
    async fn master_key_record(&mut self, ring: &[MasterKeyId], at: Timestamp) -> StoreResult<bool>;

    /// Stores webhook secrets that were sealed anew.
    async fn master_key_reseal_secrets(
        &mut self,
        lock: &MerchantLock,
        secrets: &[ResealedSecret],
    ) -> StoreResult<u64>;

    /// Stores the new seals of API keys.
    async fn master_key_reseal_keys(&mut self, keys: &[ResealedKey]) -> StoreResult<u64>;

    /// Stores the new seals of operators' tokens.
    async fn master_key_reseal_tokens(&mut self, tokens: &[ResealedToken]) -> StoreResult<u64>;
}
