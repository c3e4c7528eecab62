//! The ids of the master keys that this database has been used with, and the rows that need them.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{KeyId, MerchantId, OperatorId};
use settle_domain::time::Timestamp;
use settle_domain::vault::MasterKeyId;
use settle_domain::webhook_secret::SealedSecret;
use settle_store::{
    MasterKeyReads, MasterKeyUse, MasterKeyWrites, MerchantLock, ResealedKey, ResealedSecret, ResealedToken,
    SealedKind, StoreError, StoreResult, StoredKey, StoredToken,
};
use sqlx::Connection;
use sqlx::postgres::PgRow;
use uuid::Uuid;

use crate::convert::{At, array, column, id, number, signed};
use crate::error::store_error;
use crate::manners::limited;
use crate::{PostgresStore, PostgresTx, START_TIMEOUT, keys, operators};

/// How long it may take to count what needs each master key: minutes suffice for many millions of rows.
const USES_TIMEOUT: Duration = Duration::from_mins(5);

settle_store::statements! {
    cold "asked at start-up" LIST = "SELECT key_id FROM master_keys ORDER BY recorded_at, key_id";
    cold "done at start-up" LOCK = "LOCK TABLE master_keys IN SHARE ROW EXCLUSIVE MODE";
    cold "done at start-up" RECORD = "
        INSERT INTO master_keys (key_id, recorded_at) VALUES ($1, $2) ON CONFLICT (key_id) DO NOTHING";
    cold "asked at start-up and by an operator" USES = "
        SELECT 'secret' AS kind, substr(sealed_secret, 2, 4) AS key_id, count(*) AS sealed
        FROM webhook_endpoints WHERE length(sealed_secret) > 5 GROUP BY 2
        UNION ALL
        SELECT 'key', substr(seal, 1, 4), count(*)
        FROM api_keys WHERE revoked_at IS NULL AND seal IS NOT NULL GROUP BY 2
        UNION ALL
        SELECT 'operator', substr(seal, 1, 4), count(*)
        FROM operators WHERE revoked_at IS NULL AND seal IS NOT NULL GROUP BY 2";
    cold "an operator seals anew" STALE_SECRETS = "
        SELECT merchant_id, sealed_secret FROM webhook_endpoints
        WHERE merchant_id > $2 AND substr(sealed_secret, 2, 4) <> $1
        ORDER BY merchant_id LIMIT $3";
    cold "an operator seals anew" STALE_KEYS = "
        SELECT key_id, merchant_id, key_hash, seal FROM api_keys
        WHERE key_id > $2 AND substr(seal, 1, 4) <> $1 AND revoked_at IS NULL
        ORDER BY key_id LIMIT $3";
    cold "an operator seals anew" STALE_TOKENS = "
        SELECT operator_id, token_hash, seal FROM operators
        WHERE operator_id > $2 AND substr(seal, 1, 4) <> $1 AND revoked_at IS NULL
        ORDER BY operator_id LIMIT $3";
    cold "an operator seals anew" RESEAL_SECRETS = "
        UPDATE webhook_endpoints AS e SET sealed_secret = a.now
        FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS a (merchant_id, was, now)
        WHERE e.merchant_id = a.merchant_id AND e.sealed_secret = a.was";
    cold "an operator seals anew" RESEAL_KEYS = "
        UPDATE api_keys AS k SET seal = a.seal
        FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS a (key_id, hash, seal)
        WHERE k.key_id = a.key_id AND k.key_hash = a.hash AND k.revoked_at IS NULL";
    cold "an operator seals anew" RESEAL_TOKENS = "
        UPDATE operators AS o SET seal = a.seal
        FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS a (operator_id, hash, seal)
        WHERE o.operator_id = a.operator_id AND o.token_hash = a.hash AND o.revoked_at IS NULL";
}

#[async_trait]
impl MasterKeyReads for PostgresStore {
    async fn master_key_list(&self) -> StoreResult<Vec<MasterKeyId>> {
        let rows = sqlx::query(LIST).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(master_key_id).collect()
    }

    async fn master_key_uses(&self) -> StoreResult<Vec<MasterKeyUse>> {
        // It reads every row, and no node starts without the answer: the session's limits are for requests.
        let mut connection = limited(START_TIMEOUT, self.unlimited.connect()).await.map_err(store_error)?;
        let asked = sqlx::query(USES).fetch_all(&mut connection);
        let rows = limited(USES_TIMEOUT, asked).await.map_err(store_error)?;
        // Whether or not the server hears of it, the connection ends here.
        let _ = limited(START_TIMEOUT, connection.close()).await;
        rows.iter().map(master_key_use).collect()
    }

    async fn master_key_stale_secrets(
        &self,
        newest: MasterKeyId,
        after: Option<MerchantId>,
        limit: u32,
    ) -> StoreResult<Vec<(MerchantId, SealedSecret)>> {
        let query = sqlx::query(STALE_SECRETS)
            .bind(newest.0.as_slice())
            .bind(after.map_or(Uuid::nil(), |after| after.0));
        let rows = query.bind(signed(limit)).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(secret).collect()
    }

    async fn master_key_stale_keys(
        &self,
        newest: MasterKeyId,
        after: Option<KeyId>,
        limit: u32,
    ) -> StoreResult<Vec<StoredKey>> {
        let query = sqlx::query(STALE_KEYS)
            .bind(newest.0.as_slice())
            .bind(after.map_or(Uuid::nil(), |after| after.0));
        let rows = query.bind(signed(limit)).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(keys::stored).collect()
    }

    async fn master_key_stale_tokens(
        &self,
        newest: MasterKeyId,
        after: Option<OperatorId>,
        limit: u32,
    ) -> StoreResult<Vec<StoredToken>> {
        let query = sqlx::query(STALE_TOKENS)
            .bind(newest.0.as_slice())
            .bind(after.map_or(Uuid::nil(), |after| after.0));
        let rows = query.bind(signed(limit)).fetch_all(&self.pool).await.map_err(store_error)?;
        rows.iter().map(operators::stored).collect()
    }
}

#[async_trait]
impl MasterKeyWrites for PostgresTx {
    async fn master_key_record(&mut self, ring: &[MasterKeyId], at: Timestamp) -> StoreResult<bool> {
        sqlx::query(LOCK).execute(&mut *self.inner).await.map_err(store_error)?;
        let rows = sqlx::query(LIST).fetch_all(&mut *self.inner).await.map_err(store_error)?;
        let known: Vec<MasterKeyId> = rows.iter().map(master_key_id).collect::<StoreResult<_>>()?;
        if !known.is_empty() && !ring.iter().any(|key| known.contains(key)) {
            return Ok(false);
        }
        for newest in ring.iter().take(1) {
            let query = sqlx::query(RECORD).bind(newest.0.as_slice()).bind(At(at));
            query.execute(&mut *self.inner).await.map_err(store_error)?;
        }
        Ok(true)
    }

    async fn master_key_reseal_secrets(
        &mut self,
        lock: &MerchantLock,
        secrets: &[ResealedSecret],
    ) -> StoreResult<u64> {
        self.number.check(lock, secrets.iter().map(|secret| secret.merchant_id))?;
        let query = sqlx::query(RESEAL_SECRETS)
            .bind(array(secrets, |secret| secret.merchant_id.0))
            .bind(array(secrets, |secret| secret.was.0.as_slice()))
            .bind(array(secrets, |secret| secret.now.0.as_slice()));
        Ok(query.execute(&mut *self.inner).await.map_err(store_error)?.rows_affected())
    }

    async fn master_key_reseal_keys(&mut self, keys: &[ResealedKey]) -> StoreResult<u64> {
        let query = sqlx::query(RESEAL_KEYS)
            .bind(array(keys, |key| key.key_id.0))
            .bind(array(keys, |key| key.hash.0.as_slice()))
            .bind(array(keys, |key| key.seal.0.as_slice()));
        Ok(query.execute(&mut *self.inner).await.map_err(store_error)?.rows_affected())
    }

    async fn master_key_reseal_tokens(&mut self, tokens: &[ResealedToken]) -> StoreResult<u64> {
        let query = sqlx::query(RESEAL_TOKENS)
            .bind(array(tokens, |token| token.operator_id.0))
            .bind(array(tokens, |token| token.hash.0.as_slice()))
            .bind(array(tokens, |token| token.seal.0.as_slice()));
        Ok(query.execute(&mut *self.inner).await.map_err(store_error)?.rows_affected())
    }
}

fn master_key_id(row: &PgRow) -> StoreResult<MasterKeyId> {
    let bytes: Vec<u8> = column(row, "key_id")?;
    let id =
        bytes.try_into().map_err(|_| StoreError::unexpected("the id of a master key has another length"))?;
    Ok(MasterKeyId(id))
}

fn master_key_use(row: &PgRow) -> StoreResult<MasterKeyUse> {
    Ok(MasterKeyUse {
        kind: sealed_kind(column(row, "kind")?)?,
        key: master_key_id(row)?,
        rows: number(row, "sealed")?,
    })
}

fn secret(row: &PgRow) -> StoreResult<(MerchantId, SealedSecret)> {
    Ok((id(row, "merchant_id", MerchantId)?, SealedSecret(column(row, "sealed_secret")?)))
}

fn sealed_kind(text: &str) -> StoreResult<SealedKind> {
    match text {
        "secret" => Ok(SealedKind::WebhookSecret),
        "key" => Ok(SealedKind::ApiKey),
        "operator" => Ok(SealedKind::OperatorToken),
        _ => Err(StoreError::unexpected("a kind of row that no master key seals")),
    }
}
