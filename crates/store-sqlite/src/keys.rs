//! API keys of merchants.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::credential::CredentialHash;
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::{AuthenticatedKey, Key, KeyReads, KeyWrites, NewKey, Revocation, StoreError, StoreResult};

use crate::convert::{Hex, column, id, json_rows, optional_time, time};
use crate::error::{is_foreign_key_violation, store_error};
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    hot AUTHENTICATE = "
        SELECT key_id, merchant_id FROM api_keys
        WHERE key_hash IN (SELECT unhex(value) FROM json_each(?1)) AND revoked_at IS NULL";
    cold "an operator's listing" LIST = "
        SELECT key_id, merchant_id, label, last_four, created_at, revoked_at FROM api_keys
        WHERE merchant_id = ?1 ORDER BY created_at, key_id";
    cold "an operator adds a key" CREATE = "
        INSERT INTO api_keys (key_id, merchant_id, key_hash, last_four, label, created_at)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    cold "an operator revokes a key" REVOKE = "
        UPDATE api_keys SET revoked_at = ?2 WHERE key_id = ?1 AND revoked_at IS NULL";
    cold "an operator revokes a key" EXISTS = "SELECT 1 FROM api_keys WHERE key_id = ?1";
}

#[async_trait]
impl KeyReads for SqliteStore {
    async fn key_authenticate(&self, hashes: &[CredentialHash]) -> StoreResult<Option<AuthenticatedKey>> {
        let hashes = json_rows(hashes.iter().map(|hash| Hex(hash.0)));
        self.connections.read(|connection| connection.row(AUTHENTICATE, [hashes], authenticated))
    }

    async fn key_list(&self, merchant: MerchantId) -> StoreResult<Vec<Key>> {
        self.connections.read(|connection| connection.rows(LIST, [merchant.0], key))
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

fn authenticated(row: &Row<'_>) -> StoreResult<AuthenticatedKey> {
    Ok(AuthenticatedKey {
        key_id: id(row, "key_id", KeyId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
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
