//! Work that one process of all does at a time.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;
use settle_domain::time::Timestamp;
use settle_store::{DueTime, JobState, JobWrites, StoreResult, TakenJob};

use crate::SqliteTx;
use crate::convert::column;
use crate::error::store_error;
use crate::query::Query;

settle_store::statements! {
    cold "every minute" TAKE = "
        INSERT INTO jobs (name, due_at, held_until, mark) VALUES (?1, ?2, ?3, '')
        ON CONFLICT (name) DO UPDATE SET held_until = excluded.held_until
        WHERE (held_until <= ?2 OR held_until > ?6) AND (due_at <= ?4 OR due_at > ?5)
        RETURNING mark";
    cold "every minute" KEEP = "
        UPDATE jobs SET due_at = ?3, held_until = ?4, mark = ?5 WHERE name = ?1 AND held_until = ?2";
}

#[async_trait]
impl JobWrites for SqliteTx {
    async fn job_take(
        &mut self,
        name: &str,
        now: Timestamp,
        due: DueTime,
        hold: Duration,
    ) -> StoreResult<Option<TakenJob>> {
        let held_until = now.plus(hold);
        let unheard_of = now.plus(2 * hold).as_micros();
        let (now, until) = (now.as_micros(), held_until.as_micros());
        let asked = params![name, now, until, due.by.as_micros(), due.beyond.as_micros(), unheard_of];
        let mark = self.writer.connection()?.row(TAKE, asked, |row| column(row, 0))?;
        Ok(mark.map(|mark| TakenJob { held_until, mark }))
    }

    async fn job_keep(&mut self, name: &str, held_until: Timestamp, state: &JobState) -> StoreResult<bool> {
        let JobState { due_at, held_until: until, mark } = state;
        let kept = params![name, held_until.as_micros(), due_at.as_micros(), until.as_micros(), mark];
        Ok(self.writer.connection()?.change(KEEP, kept).map_err(store_error)? > 0)
    }
}
