//! API keys of merchants.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::credential::CredentialHash;
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::{Key, KeyReads, KeyWrites, NewKey, Revocation, StoreError, StoreResult, StoredKey};

use crate::convert::{column, hash, id, optional_time, seal, signed, time};
use crate::error::{is_foreign_key_violation, store_error};
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    hot FIND = "
        SELECT key_id, merchant_id, key_hash, seal FROM api_keys
        WHERE key_hash = ?1 AND revoked_at IS NULL";
    cold "an operator's listing" LIST = "
        SELECT key_id, merchant_id, label, last_four, created_at, revoked_at FROM api_keys
        WHERE merchant_id = ?1 AND key_id > ?2 ORDER BY key_id LIMIT ?3 + 0";
    cold "an operator looks at a key" SHOW = "
        SELECT key_id, merchant_id, label, last_four, created_at, revoked_at FROM api_keys
        WHERE merchant_id = ?1 AND key_id = ?2";
    cold "an operator adds a key" CREATE = "
        INSERT INTO api_keys (key_id, merchant_id, key_hash, seal, last_four, label, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    cold "an operator revokes a key" REVOKE = "
        UPDATE api_keys SET revoked_at = ?2, seal = NULL WHERE key_id = ?1 AND revoked_at IS NULL";
    cold "an operator revokes a key" EXISTS = "SELECT 1 FROM api_keys WHERE key_id = ?1";
}

#[async_trait]
impl KeyReads for SqliteStore {
    async fn key_find(&self, hash: CredentialHash) -> StoreResult<Option<StoredKey>> {
        self.connections.read(|connection| connection.row(FIND, [hash.0], stored))
    }

    async fn key_list(
        &self,
        merchant: MerchantId,
        after: Option<KeyId>,
        limit: u32,
    ) -> StoreResult<Vec<Key>> {
        let asked = params![merchant.0, after.unwrap_or(KeyId::NIL).0, signed(limit)];
        self.connections.read(|connection| connection.rows(LIST, asked, key))
    }

    async fn key_show(&self, merchant: MerchantId, wanted: KeyId) -> StoreResult<Option<Key>> {
        self.connections.read(|connection| connection.row(SHOW, [merchant.0, wanted.0], key))
    }
}

#[async_trait]
impl KeyWrites for SqliteTx {
    async fn key_create(&mut self, new: &NewKey) -> StoreResult<()> {
        let key = &new.key;
        let created = params![
            key.key_id.0,
            key.merchant_id.0,
            new.hash.0,
            new.seal.0,
            key.last_four,
            key.label,
            key.created_at.as_micros()
        ];
        self.writer.connection()?.change(CREATE, created).map_err(|fault| {
            if is_foreign_key_violation(&fault) {
                StoreError::UnknownMerchant(key.merchant_id)
            } else {
                store_error(fault)
            }
        })?;
        Ok(())
    }

    async fn key_revoke(&mut self, key: KeyId, at: Timestamp) -> StoreResult<Revocation> {
        if self.writer.connection()?.change(REVOKE, params![key.0, at.as_micros()]).map_err(store_error)? > 0
        {
            return Ok(Revocation::Revoked);
        }
        let known = self.writer.connection()?.row(EXISTS, [key.0], |_| Ok(()))?;
        Ok(if known.is_some() { Revocation::AlreadyRevoked } else { Revocation::Unknown })
    }
}

pub(crate) fn stored(row: &Row<'_>) -> StoreResult<StoredKey> {
    Ok(StoredKey {
        key_id: id(row, "key_id", KeyId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        hash: hash(row, "key_hash")?,
        seal: seal(row, "seal")?,
    })
}

fn key(row: &Row<'_>) -> StoreResult<Key> {
    Ok(Key {
        key_id: id(row, "key_id", KeyId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        label: column(row, "label")?,
        last_four: column(row, "last_four")?,
        created_at: time(row, "created_at")?,
        revoked_at: optional_time(row, "revoked_at")?,
    })
}
