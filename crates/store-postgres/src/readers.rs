//! Connections for what is read outside of transactions.
//!
//! The pool asks every connection that is given back whether it lives, a round trip as long as that of the
//! read. So a connection whose read ended well is kept for the next one. One whose read failed or was given
//! up half-way goes back to the pool, which tests it.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgPool, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Either, Error, Execute, Executor, Postgres, SqlStr};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Reading connections of a pool. Transactions have the others.
#[derive(Debug)]
pub(crate) struct Readers {
    pool: PgPool,
    turns: Semaphore,
    /// How long a reader waits for its turn, and how long an idle connection is trusted to live.
    turn_timeout: Duration,
    trusted_idle: Duration,
    /// The last one used is taken first.
    kept: Mutex<Vec<Kept>>,
    kept_max: usize,
}

#[derive(Debug)]
struct Kept {
    connection: PoolConnection<Postgres>,
    since: Instant,
}

impl Readers {
    pub(crate) fn new(
        pool: PgPool,
        connections_max: u32,
        turn_timeout: Duration,
        trusted_idle: Duration,
    ) -> Readers {
        let half = usize::try_from(connections_max / 2).unwrap_or(usize::MAX);
        Readers {
            pool,
            turns: Semaphore::new(half.max(1)),
            turn_timeout,
            trusted_idle,
            kept: Mutex::default(),
            // A transaction needs the only one.
            kept_max: half,
        }
    }

    async fn take(&self) -> Result<(SemaphorePermit<'_>, PoolConnection<Postgres>), Error> {
        let turn = tokio::time::timeout(self.turn_timeout, self.turns.acquire()).await;
        let turn = turn.map_err(|_| Error::PoolTimedOut)?.map_err(|_| Error::PoolClosed)?;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match kept.filter(|kept| kept.since.elapsed() < self.trusted_idle) {
            Some(kept) => kept.connection,
            None => self.pool.acquire().await?,
        };
        Ok((turn, connection))
    }

    fn keep(&self, connection: PoolConnection<Postgres>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < self.kept_max && !self.pool.is_closed() {
            kept.push(Kept { connection, since: Instant::now() });
        }
    }

    /// Gives all of them back. None is kept any more once the pool is closed.
    pub(crate) fn give_back(&self) {
        drop(std::mem::take(&mut *self.kept.lock().unwrap_or_else(PoisonError::into_inner)));
    }
}

impl Drop for Readers {
    /// Without the pool, which would need the runtime: there may be none any more.
    fn drop(&mut self) {
        let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
        for kept in kept.drain(..) {
            drop(kept.connection.leak());
        }
    }
}

impl<'r> Executor<'r> for &'r Readers {
    type Database = Postgres;

    /// All that the statement gives, before the first of it is seen: the connection is the next one's then.
    fn fetch_many<'e, 'q: 'e, E>(self, query: E) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
    where
        'r: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let all = async move {
            let (_turn, mut connection) = self.take().await?;
            let all: Vec<_> = connection.fetch_many(query).try_collect().await?;
            self.keep(connection);
            Ok::<_, Error>(stream::iter(all.into_iter().map(Ok)))
        };
        stream::once(all).try_flatten().boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
    where
        'r: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        Box::pin(async move {
            let (_turn, mut connection) = self.take().await?;
            let row = connection.fetch_optional(query).await?;
            self.keep(connection);
            Ok(row)
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, Error>>
    where
        'r: 'e,
    {
        Box::pin(async move { self.take().await?.1.prepare_with(sql, parameters).await })
    }
}
