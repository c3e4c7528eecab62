//! The shared store: PostgreSQL, for as many nodes as wanted.
//!
//! Whoever changes a merchant's settlements, deliveries or endpoint holds the lock on its row of
//! `merchant_counts`, taken in the order of the ids: two transactions of one merchant run one after the
//! other, those of different merchants side by side, and none wait for each other in a circle.
//!
//! Batches travel as arrays that `unnest` unfolds: one statement, one plan, whatever their size.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{DispatcherId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::slices::SliceMemory;
use settle_store::statements::Statement;
use settle_store::{CountChanges, Presence, Store, StoreError, StoreResult, Tx, TxNumber};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use sqlx::{Connection, Postgres, Transaction};

mod alerts;
mod convert;
mod counts;
mod deliveries;
mod endpoints;
mod error;
mod keys;
mod master_keys;
mod merchants;
mod migrations;
mod operators;
mod queue;
mod settlements;

#[cfg(feature = "testing")]
pub mod testing;

use error::store_error;

/// How long a caller waits for a connection; the queue for them is bounded by it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// A connection that was idle for longer is asked whether it still lives before it is used.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);
/// How long a transaction that records waits for more to record.
const CALLERS_AWAITED: Duration = Duration::from_millis(1);
/// What the server itself enforces on every session: limits on waiting, plans that keep the order of their
/// parts, and one plan a statement. Left to itself the planner thinks anew about every page, because the plan
/// for a limit it does not know looks dearer; the thinking costs more than the page.
///
/// A plan is made when a statement is first run, often on tables that are empty, and kept while they grow: to
/// read a whole table is then the cheapest way, and soon the dearest. Every statement that somebody waits for
/// goes from its arguments along keys, and no other way is left open. Where there is no key the way that is
/// closed looks so dear that PostgreSQL would compile the statement first.
///
/// Nothing waits for anything but the database inside a transaction: one that stands still for seconds
/// belongs to a node that does. It is ended before others give up waiting for its locks, of which one is the
/// lock on the shards that they want to take over.
const SESSION_SETTINGS: [(&str, &str); 12] = [
    ("statement_timeout", "30s"),
    ("lock_timeout", "10s"),
    ("idle_in_transaction_session_timeout", "5s"),
    ("max_parallel_workers_per_gather", "0"),
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_material", "off"),
    ("enable_sort", "off"),
    ("jit", "off"),
];

settle_store::statements! {
    hot PING = "SELECT 1";
    cold "asked at start-up" MIGRATIONS_TABLE = "
        SELECT count(*) FROM pg_class WHERE oid = to_regclass('_sqlx_migrations')";
    cold "asked at start-up" MIGRATIONS_APPLIED = "SELECT count(*) FROM _sqlx_migrations WHERE success";
}

/// Every statement this backend runs, for the test that reads their plans.
#[must_use]
pub fn statements() -> Vec<Statement> {
    [
        STATEMENTS,
        merchants::STATEMENTS,
        keys::STATEMENTS,
        operators::STATEMENTS,
        master_keys::STATEMENTS,
        settlements::STATEMENTS,
        deliveries::STATEMENTS,
        counts::STATEMENTS,
        endpoints::STATEMENTS,
        queue::STATEMENTS,
        alerts::STATEMENTS,
    ]
    .concat()
}

/// A URL that does not name a PostgreSQL database.
#[derive(Debug, thiserror::Error)]
#[error("not a PostgreSQL URL, such as postgres://user@host/database")]
pub struct UrlFault;

/// A PostgreSQL database.
pub struct PostgresStore {
    pool: PgPool,
    /// How to connect without the limits of a request.
    unlimited: PgConnectOptions,
    slices: SliceMemory,
}

/// Shows nothing: the options hold the password.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PostgresStore(…)")
    }
}

impl PostgresStore {
    /// The store in the database that the URL names, with a pool of connections. Nothing is opened yet: the
    /// first use does.
    pub fn new(url: &str, connections_max: u32) -> Result<PostgresStore, UrlFault> {
        // The parser's own words may repeat the password.
        let options = PgConnectOptions::from_str(url).map_err(|_| UrlFault)?;
        let unlimited = options.application_name("settle");
        let options = unlimited.clone().options(SESSION_SETTINGS);
        let pool = PgPoolOptions::new()
            .max_connections(connections_max)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move {
                    // After a restart of the database its old connections are dead. One in use a moment ago
                    // is taken on trust: asking each time would double the round trips of a request.
                    if meta.idle_for > TRUSTED_IDLE {
                        connection.ping().await.map(|()| true)
                    } else {
                        Ok(true)
                    }
                })
            });
        Ok(PostgresStore { pool: pool.connect_lazy_with(options), unlimited, slices: SliceMemory::default() })
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn begin(&self) -> StoreResult<Box<dyn Tx>> {
        let inner = self.pool.begin().await.map_err(store_error)?;
        Ok(Box::new(PostgresTx {
            number: TxNumber::next(),
            inner,
            counts: CountChanges::default(),
            recorded_at: None,
        }))
    }

    /// Eight round trips and a commit.
    fn callers_awaited(&self) -> Duration {
        CALLERS_AWAITED
    }

    async fn ping(&self) -> StoreResult<()> {
        sqlx::query(PING).execute(&self.pool).await.map_err(store_error)?;
        Ok(())
    }

    async fn migrate(&self) -> StoreResult<()> {
        // The migrator holds an advisory lock, so that nodes that start together take turns. A step may take
        // as long as it takes, and so may the turn of another: the session's limits are for requests.
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(ACQUIRE_TIMEOUT);
        let pool = pool.connect_lazy_with(self.unlimited.clone());
        let migrated = migrations::migrator().run(&pool).await;
        pool.close().await;
        migrated.map_err(|fault| match fault {
            sqlx::migrate::MigrateError::Execute(fault) => store_error(fault),
            fault => StoreError::Unexpected(fault.into()),
        })
    }

    async fn migrations_pending(&self) -> StoreResult<usize> {
        let all = migrations::migrator().iter().count();
        let table: i64 =
            sqlx::query_scalar(MIGRATIONS_TABLE).fetch_one(&self.pool).await.map_err(store_error)?;
        if table == 0 {
            return Ok(all);
        }
        let applied: i64 =
            sqlx::query_scalar(MIGRATIONS_APPLIED).fetch_one(&self.pool).await.map_err(store_error)?;
        Ok(all.saturating_sub(usize::try_from(applied).unwrap_or(0)))
    }

    async fn presence(&self, dispatcher: DispatcherId) -> StoreResult<Option<Box<dyn Presence>>> {
        self.take_presence(dispatcher).await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        self.notify(merchants).await
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction at the level READ COMMITTED: the merchants' locks keep its reads true.
struct PostgresTx {
    /// What tells its locks from those of another.
    number: TxNumber,
    inner: Transaction<'static, Postgres>,
    /// What is to be counted when it commits.
    counts: CountChanges,
    /// When outcomes were recorded, if any were: then merchants may be due later, or not at all.
    recorded_at: Option<Timestamp>,
}

#[async_trait]
impl Tx for PostgresTx {
    async fn commit(mut self: Box<Self>) -> StoreResult<()> {
        self.write_counts().await?;
        self.inner.commit().await.map_err(store_error)
    }
}
