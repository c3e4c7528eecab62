//! Providers that operators have paused.

use async_trait::async_trait;
use rusqlite::{Row, params};
use settle_domain::provider::ProviderName;
use settle_store::{PausedProvider, ProviderPause, ProviderReads, ProviderWrites, StoreResult, left_out};

use crate::convert::{parsed, time};
use crate::error::store_error;
use crate::query::Query;
use crate::{SqliteStore, SqliteTx};

settle_store::statements! {
    cold "a handful of rows" LIST = "
        SELECT provider, paused_by, paused_at FROM provider_pauses ORDER BY provider";
    cold "an operator pauses a provider" PAUSE = "
        INSERT INTO provider_pauses (provider, paused_by, paused_at) VALUES (?1, ?2, ?3)
        ON CONFLICT (provider) DO NOTHING";
    cold "an operator lets a provider go on" RESUME = "DELETE FROM provider_pauses WHERE provider = ?1";
}

#[async_trait]
impl ProviderReads for SqliteStore {
    async fn provider_pauses(&self) -> StoreResult<Vec<PausedProvider>> {
        let paused = |row: &Row<'_>| {
            Ok(PausedProvider {
                provider: parsed(row, 0)?,
                paused_by: left_out("who paused a provider", parsed(row, 1))?,
                paused_at: left_out("when a provider was paused", time(row, 2))?,
            })
        };
        let readable = |row: &Row<'_>| left_out("a pause of a provider", paused(row));
        let rows = self.connections.read(|connection| connection.rows(LIST, [], readable))?;
        Ok(rows.into_iter().flatten().collect())
    }
}

#[async_trait]
impl ProviderWrites for SqliteTx {
    async fn provider_pause(&mut self, pause: &ProviderPause) -> StoreResult<()> {
        let row = params![pause.provider.as_str(), pause.paused_by.to_string(), pause.paused_at.as_micros()];
        self.writer.connection()?.change(PAUSE, row).map_err(store_error)?;
        Ok(())
    }

    async fn provider_resume(&mut self, provider: &ProviderName) -> StoreResult<()> {
        self.writer.connection()?.change(RESUME, [provider.as_str()]).map_err(store_error)?;
        Ok(())
    }
}
