//! API keys of merchants.

use async_trait::async_trait;
use settle_domain::credential::CredentialHash;
use settle_domain::ids::{KeyId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::{Key, KeyReads, KeyWrites, NewKey, Revocation, StoreError, StoreResult, StoredKey};
use sqlx::postgres::PgRow;

use crate::convert::{At, column, hash, id, optional_time, seal, signed, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    hot FIND = "
        SELECT key_id, merchant_id, key_hash, seal FROM api_keys
        WHERE key_hash = $1 AND revoked_at IS NULL";
    cold "an operator's listing" LIST = "
        SELECT key_id, merchant_id, label, last_four, created_at, revoked_at FROM api_keys
        WHERE merchant_id = $1 AND key_id > $2 ORDER BY key_id LIMIT $3";
    cold "an operator looks at a key" SHOW = "
        SELECT key_id, merchant_id, label, last_four, created_at, revoked_at FROM api_keys
        WHERE merchant_id = $1 AND key_id = $2";
    cold "an operator adds a key" CREATE = "
        INSERT INTO api_keys (key_id, merchant_id, key_hash, seal, last_four, label, created_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    cold "an operator revokes a key" REVOKE = "
        UPDATE api_keys SET revoked_at = $2, seal = NULL WHERE key_id = $1 AND revoked_at IS NULL";
    cold "an operator revokes a key" EXISTS = "SELECT count(*) FROM api_keys WHERE key_id = $1";
}

#[async_trait]
impl KeyReads for PostgresStore {
    async fn key_find(&self, hash: CredentialHash) -> StoreResult<Option<StoredKey>> {
        let query = sqlx::query(FIND).bind(hash.0.as_slice());
        let row = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(stored).transpose()
    }

    async fn key_list(
        &self,
        merchant: MerchantId,
        after: Option<KeyId>,
        limit: u32,
    ) -> StoreResult<Vec<Key>> {
        let after = after.unwrap_or(KeyId::NIL).0;
        let query = sqlx::query(LIST).bind(merchant.0).bind(after).bind(signed(limit));
        let rows = query.fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(key).collect()
    }

    async fn key_show(&self, merchant: MerchantId, wanted: KeyId) -> StoreResult<Option<Key>> {
        let query = sqlx::query(SHOW).bind(merchant.0).bind(wanted.0);
        let row = query.fetch_optional(&self.pool).await.map_err(store_error)?;
        row.as_ref().map(key).transpose()
    }
}

#[async_trait]
impl KeyWrites for PostgresTx {
    async fn key_create(&mut self, new: &NewKey) -> StoreResult<()> {
        let key = &new.key;
        let query = sqlx::query(CREATE)
            .bind(key.key_id.0)
            .bind(key.merchant_id.0)
            .bind(new.hash.0.as_slice())
            .bind(new.seal.0.as_slice())
            .bind(&key.last_four)
            .bind(&key.label)
            .bind(At(key.created_at));
        query.execute(&mut *self.inner).await.map_err(|fault| match fault.as_database_error() {
            Some(database) if database.is_foreign_key_violation() => {
                StoreError::UnknownMerchant(key.merchant_id)
            }
            _ => store_error(fault),
        })?;
        Ok(())
    }

    async fn key_revoke(&mut self, key: KeyId, at: Timestamp) -> StoreResult<Revocation> {
        let query = sqlx::query(REVOKE).bind(key.0).bind(At(at));
        let revoked = query.execute(&mut *self.inner).await.map_err(store_error)?;
        if revoked.rows_affected() > 0 {
            return Ok(Revocation::Revoked);
        }
        let query = sqlx::query_scalar(EXISTS).bind(key.0);
        let known: i64 = query.fetch_one(&mut *self.inner).await.map_err(store_error)?;
        Ok(if known > 0 { Revocation::AlreadyRevoked } else { Revocation::Unknown })
    }
}

pub(crate) fn stored(row: &PgRow) -> StoreResult<StoredKey> {
    Ok(StoredKey {
        key_id: id(row, "key_id", KeyId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        hash: hash(row, "key_hash")?,
        seal: seal(row, "seal")?,
    })
}

fn key(row: &PgRow) -> StoreResult<Key> {
    Ok(Key {
        key_id: id(row, "key_id", KeyId)?,
        merchant_id: id(row, "merchant_id", MerchantId)?,
        label: column(row, "label")?,
        last_four: column(row, "last_four")?,
        created_at: time(row, "created_at")?,
        revoked_at: optional_time(row, "revoked_at")?,
    })
}
