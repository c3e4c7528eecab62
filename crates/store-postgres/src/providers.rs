//! Providers that operators have paused.

use async_trait::async_trait;
use settle_domain::provider::ProviderName;
use settle_store::{PausedProvider, ProviderPause, ProviderReads, ProviderWrites, StoreResult, left_out};
use sqlx::postgres::PgRow;

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
    async fn provider_pauses(&self) -> StoreResult<Vec<PausedProvider>> {
        let rows = sqlx::query(LIST).fetch_all(&self.pool).await.map_err(store_error)?;
        let paused = |row: &PgRow| {
            Ok(PausedProvider {
                provider: parsed(row, 0)?,
                paused_by: left_out("who paused a provider", parsed(row, 1))?,
                paused_at: left_out("when a provider was paused", time(row, 2))?,
            })
        };
        let paused = rows.iter().map(|row| left_out("a pause of a provider", paused(row)));
        paused.filter_map(StoreResult::transpose).collect()
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
