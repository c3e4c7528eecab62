//! The ids of the master keys that this database has been used with, and the rows that need them.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::ids::{KeyId, MerchantId, OperatorId};
use settle_domain::time::Timestamp;
use settle_domain::vault::MasterKeyId;
use settle_domain::webhook_secret::SealedSecret;
use settle_store::{
    MasterKeyReads, MasterKeyUse, MasterKeyWrites, MerchantLock, ResealedKey, ResealedSecret, ResealedToken,
    SealedKind, StoreError, StoreResult, StoredKey, StoredToken,
};
use uuid::Uuid;

use crate::convert::{column, id, number, signed};
use crate::error::store_error;
use crate::query::Query;
use crate::threads::aside;
use crate::{SqliteStore, SqliteTx, keys, operators};

settle_store::statements! {
    cold "asked at start-up" LIST = "SELECT key_id FROM master_keys ORDER BY recorded_at, key_id";
    cold "done at start-up" RECORD = "
        INSERT INTO master_keys (key_id, recorded_at) VALUES (?1, ?2) ON CONFLICT (key_id) DO NOTHING";
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
        WHERE merchant_id > ?2 AND substr(sealed_secret, 2, 4) <> ?1
        ORDER BY merchant_id LIMIT ?3 + 0";
    cold "an operator seals anew" STALE_KEYS = "
        SELECT key_id, merchant_id, key_hash, seal FROM api_keys
        WHERE key_id > ?2 AND substr(seal, 1, 4) <> ?1 AND revoked_at IS NULL
        ORDER BY key_id LIMIT ?3 + 0";
    cold "an operator seals anew" STALE_TOKENS = "
        SELECT operator_id, token_hash, seal FROM operators
        WHERE operator_id > ?2 AND substr(seal, 1, 4) <> ?1 AND revoked_at IS NULL
        ORDER BY operator_id LIMIT ?3 + 0";
    cold "an operator seals anew" RESEAL_SECRET = "
        UPDATE webhook_endpoints SET sealed_secret = ?3 WHERE merchant_id = ?1 AND sealed_secret = ?2";
    cold "an operator seals anew" RESEAL_KEY = "
        UPDATE api_keys SET seal = ?3 WHERE key_id = ?1 AND key_hash = ?2 AND revoked_at IS NULL";
    cold "an operator seals anew" RESEAL_TOKEN = "
        UPDATE operators SET seal = ?3 WHERE operator_id = ?1 AND token_hash = ?2 AND revoked_at IS NULL";
}

#[async_trait]
impl MasterKeyReads for SqliteStore {
    async fn master_key_list(&self) -> StoreResult<Vec<MasterKeyId>> {
        self.connections.read(|connection| connection.rows(LIST, [], master_key_id))
    }

    async fn master_key_uses(&self) -> StoreResult<Vec<MasterKeyUse>> {
        // It reads three tables from end to end.
        aside(|| self.connections.read(|connection| connection.rows(USES, [], master_key_use)))
    }

    async fn master_key_stale_secrets(
        &self,
        newest: MasterKeyId,
        after: Option<MerchantId>,
        limit: u32,
    ) -> StoreResult<Vec<(MerchantId, SealedSecret)>> {
        let asked = params![newest.0, after.map_or(Uuid::nil(), |after| after.0), signed(limit)];
        let secret = |row: &Row<'_>| {
            Ok((id(row, "merchant_id", MerchantId)?, SealedSecret(column(row, "sealed_secret")?)))
        };
        aside(|| self.connections.read(|connection| connection.rows(STALE_SECRETS, asked, secret)))
    }

    async fn master_key_stale_keys(
        &self,
        newest: MasterKeyId,
        after: Option<KeyId>,
        limit: u32,
    ) -> StoreResult<Vec<StoredKey>> {
        let asked = params![newest.0, after.map_or(Uuid::nil(), |after| after.0), signed(limit)];
        aside(|| self.connections.read(|connection| connection.rows(STALE_KEYS, asked, keys::stored)))
    }

    async fn master_key_stale_tokens(
        &self,
        newest: MasterKeyId,
        after: Option<OperatorId>,
        limit: u32,
    ) -> StoreResult<Vec<StoredToken>> {
        let asked = params![newest.0, after.map_or(Uuid::nil(), |after| after.0), signed(limit)];
        aside(|| self.connections.read(|connection| connection.rows(STALE_TOKENS, asked, operators::stored)))
    }
}

#[async_trait]
impl MasterKeyWrites for SqliteTx {
    async fn master_key_record(&mut self, ring: &[MasterKeyId], at: Timestamp) -> StoreResult<bool> {
        let connection = self.writer.connection()?;
        let known = connection.rows(LIST, [], master_key_id)?;
        if !known.is_empty() && !ring.iter().any(|key| known.contains(key)) {
            return Ok(false);
        }
        for newest in ring.iter().take(1) {
            connection.change(RECORD, params![newest.0, at.as_micros()]).map_err(store_error)?;
        }
        Ok(true)
    }

    async fn master_key_reseal_secrets(
        &mut self,
        lock: &MerchantLock,
        secrets: &[ResealedSecret],
    ) -> StoreResult<u64> {
        self.number.check(lock, secrets.iter().map(|secret| secret.merchant_id))?;
        let mut changed = 0;
        for secret in secrets {
            let sealed = params![secret.merchant_id.0, secret.was.0, secret.now.0];
            changed += self.writer.connection()?.change(RESEAL_SECRET, sealed).map_err(store_error)?;
        }
        Ok(changed as u64)
    }

    async fn master_key_reseal_keys(&mut self, keys: &[ResealedKey]) -> StoreResult<u64> {
        let mut changed = 0;
        for key in keys {
            let sealed = params![key.key_id.0, key.hash.0, key.seal.0];
            changed += self.writer.connection()?.change(RESEAL_KEY, sealed).map_err(store_error)?;
        }
        Ok(changed as u64)
    }

    async fn master_key_reseal_tokens(&mut self, tokens: &[ResealedToken]) -> StoreResult<u64> {
        let mut changed = 0;
        for token in tokens {
            let sealed = params![token.operator_id.0, token.hash.0, token.seal.0];
            changed += self.writer.connection()?.change(RESEAL_TOKEN, sealed).map_err(store_error)?;
        }
        Ok(changed as u64)
    }
}

fn master_key_id(row: &Row<'_>) -> StoreResult<MasterKeyId> {
    let bytes: Vec<u8> = column(row, "key_id")?;
    let id =
        bytes.try_into().map_err(|_| StoreError::unexpected("the id of a master key has another length"))?;
    Ok(MasterKeyId(id))
}

fn master_key_use(row: &Row<'_>) -> StoreResult<MasterKeyUse> {
    Ok(MasterKeyUse {
        kind: sealed_kind(&column::<String>(row, "kind")?)?,
        key: master_key_id(row)?,
        rows: number(row, "sealed")?,
    })
}

fn sealed_kind(text: &str) -> StoreResult<SealedKind> {
    match text {
        "secret" => Ok(SealedKind::WebhookSecret),
        "key" => Ok(SealedKind::ApiKey),
        "operator" => Ok(SealedKind::OperatorToken),
        _ => Err(StoreError::unexpected("a kind of row that no master key seals")),
    }
}
