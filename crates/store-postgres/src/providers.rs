//! Providers that operators have paused.

use async_trait::async_trait;
use settle_domain::provider::ProviderName;
use settle_store::{ProviderPause, ProviderReads, ProviderWrites, StoreResult};

use crate::convert::{At, parsed, time};
use crate::error::store_error;
use crate::{PostgresStore, PostgresTx};

settle_store::statements! {
    cold "a handful of rows" LIST = "
        SELECT provider, paused_by, paused_at FROM provider_pauses ORDER BY provider";
    cold "an operator pauses a provider" PAUSE = "
        INSERT INTO provider_pauses (provider, paused_by, paused_at) VALUES ($1, $2, $3)
        ON CONFLICT (provider) DO NOTHING";
    cold "an operator lets a provider go on" RESUME = "DELETE FROM provider_pauses WHERE provider = $1";
}

#[async_trait]
impl ProviderReads for PostgresStore {
    async fn provider_pauses(&self) -> StoreResult<Vec<ProviderPause>> {
        let rows = sqlx::query(LIST).fetch_all(&self.pool).await.map_err(store_error)?;
        let pause = |row| {
            Ok(ProviderPause {
                provider: parsed(row, "provider")?,
                paused_by: parsed(row, "paused_by")?,
                paused_at: time(row, "paused_at")?,
            })
        };
        rows.iter().map(pause).collect()
    }
}

#[async_trait]
impl ProviderWrites for PostgresTx {
    async fn provider_pause(&mut self, pause: &ProviderPause) -> StoreResult<()> {
        let query = sqlx::query(PAUSE)
            .bind(pause.provider.as_str())
            .bind(pause.paused_by.to_string())
            .bind(At(pause.paused_at));
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }

    async fn provider_resume(&mut self, provider: &ProviderName) -> StoreResult<()> {
        let query = sqlx::query(RESUME).bind(provider.as_str());
        query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(())
    }
}
