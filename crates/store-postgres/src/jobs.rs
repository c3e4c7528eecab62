//! Work that one process of all does at a time.

use std::time::Duration;

use async_trait::async_trait;
use settle_domain::time::Timestamp;
use settle_store::{DueTime, JobState, JobWrites, StoreResult, TakenJob};

use crate::PostgresTx;
use crate::convert::{At, column};
use crate::error::store_error;

settle_store::statements! {
    cold "every minute" TAKE = "
        INSERT INTO jobs (name, due_at, held_until, mark) VALUES ($1, $2, $3, '')
        ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until
        WHERE (jobs.held_until <= $2 OR jobs.held_until > $6) AND (jobs.due_at <= $4 OR jobs.due_at > $5)
        RETURNING mark";
    cold "every minute" KEEP = "
        UPDATE jobs SET due_at = $3, held_until = $4, mark = $5 WHERE name = $1 AND held_until = $2";
}

#[async_trait]
impl JobWrites for PostgresTx {
    async fn job_take(
        &mut self,
        name: &str,
        now: Timestamp,
        due: DueTime,
        hold: Duration,
    ) -> StoreResult<Option<TakenJob>> {
        let held_until = now.plus(hold);
        let query = sqlx::query(TAKE)
            .bind(name)
            .bind(At(now))
            .bind(At(held_until))
            .bind(At(due.by))
            .bind(At(due.beyond))
            .bind(At(now.plus(2 * hold)));
        let row = query.fetch_optional(&mut *self.inner).await.map_err(store_error)?;
        row.map(|row| Ok(TakenJob { held_until, mark: column(&row, 0)? })).transpose()
    }

    async fn job_keep(&mut self, name: &str, held_until: Timestamp, state: &JobState) -> StoreResult<bool> {
        let query = sqlx::query(KEEP)
            .bind(name)
            .bind(At(held_until))
            .bind(At(state.due_at))
            .bind(At(state.held_until))
            .bind(&state.mark);
        let kept = query.execute(&mut *self.inner).await.map_err(store_error)?;
        Ok(kept.rows_affected() > 0)
    }
}
