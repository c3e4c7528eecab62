//! The shared store: PostgreSQL, for any number of nodes.
//!
//! A transaction that changes a merchant's settlements, deliveries or endpoint first locks its row of
//! `merchant_counts`, and several rows in the order of the ids. Two transactions of one merchant take turns,
//! those of different merchants do not wait for each other, and none can deadlock.
//!
//! Batches travel as arrays that `unnest` unfolds: one statement, one plan, whatever their size. The SQL is
//! PostgreSQL's own: a dialect shared with SQLite would give up what makes each of them fast. The conformance
//! suite keeps the backends alike, and every difference says "differs because".

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use settle_domain::ids::{KeeperId, MerchantId};
use settle_domain::time::Timestamp;
use settle_store::slices::SliceMemory;
use settle_store::statements::Statement;
use settle_store::{
    ConnectionCount, CountChanges, Duty, Epochs, ImportMarks, PaymentMarks, Presence, Store, StoreError,
    StoreResult, Tx, TxNumber,
};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

mod alerts;
mod balances;
mod clearings;
mod connections;
mod convert;
mod corridors;
mod counts;
mod deliveries;
mod endpoints;
mod error;
mod gates;
mod hosts;
mod imports;
mod jobs;
mod keys;
mod manners;
mod master_keys;
mod merchants;
mod migrations;
mod operations;
mod operators;
mod payment_searches;
mod payments;
mod proposals;
mod providers;
mod queue;
mod reports;
mod settlements;

#[cfg(feature = "testing")]
pub mod testing;

use connections::{Connections, Transaction};
use error::store_error;
use hosts::Hosts;
use manners::{Limits, Manner, is_late, limited};
use queue::Signs;

/// The table of the migrations that were applied. The service reads it; who migrates owns it.
const MIGRATIONS: &str = "_sqlx_migrations";
/// How long a process that starts waits for a server that starts as well.
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it waits for its first connection: of several servers the one that was used last may be silent
/// (see `hosts.rs`), and the others are asked after it.
const FIRST_TIMEOUT: Duration = Duration::from_secs(10);
/// Deliveries that one step of a clearing ends, in four statements (see `clearings.rs`). With fewer the round
/// trips that every step needs would take most of the time.
const CLEARING_STEP_ROWS: u32 = 160;
/// How long a recorder waits for more callers to share its transaction.
const CALLERS_AWAITED: Duration = Duration::from_millis(1);
/// How the server finds out that a node has vanished, which nothing tells it: it asks the node's kernel after
/// ten seconds of silence, and while it runs a statement it looks whether anybody still waits for it. Our own
/// sockets need nothing like it: every call has a limit, a connection that was idle is pinged before it is
/// lent, and so is a keeper's every few seconds. A migration alone may wait for any time.
const VANISHED_NODE_SETTINGS: [(&str, &str); 5] = [
    ("tcp_keepalives_idle", "10"),
    ("tcp_keepalives_interval", "5"),
    ("tcp_keepalives_count", "3"),
    ("tcp_user_timeout", "20s"),
    ("client_connection_check_interval", "5s"),
];
/// Settings that the server applies to all our sessions: limits on waiting, and one way to plan.
///
/// Each statement has one plan (`force_generic_plan`). Otherwise the planner would plan every page again,
/// because a plan for an unknown limit looks more expensive; planning costs more than the page.
///
/// PostgreSQL makes that plan when it first executes the statement, often on empty tables, and keeps it while
/// they grow. Reading a whole table is the cheapest plan at first and soon the most expensive. So everything
/// but nested loops along indexes is switched off, and a test reads the plan of every hot statement on empty
/// tables, on full ones, and where a vacuum has left nothing but pages. A cold statement that must read a
/// table still does, at a cost that looks so high that PostgreSQL would compile the statement first: the
/// compiler (`jit`) is off as well.
///
/// Inside a transaction our code waits for nothing but the database: a transaction that stands still for
/// seconds belongs to a node that hangs. The server ends it before a command gives up waiting for its locks;
/// a request waits less, and a keeper asks again every second for the shards that it wants to take over.
const SESSION_SETTINGS: [(&str, &str); 10] = [
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

/// How long the server lets a request's statements wait and work; and a command's.
const REQUEST_SETTINGS: [(&str, &str); 2] = [("statement_timeout", "3s"), ("lock_timeout", "1s")];
const COMMAND_SETTINGS: [(&str, &str); 2] = [("statement_timeout", "30s"), ("lock_timeout", "10s")];

settle_store::statements! {
    hot PING = "SELECT 1";
    // Any row that nobody holds: it must not wait.
    cold "every few seconds" REWRITE = "
        UPDATE queue_shards SET keeper_id = keeper_id WHERE shard = (
            SELECT shard FROM queue_shards ORDER BY shard LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
        )";
    cold "asked at start-up" IS_WRITABLE = "SELECT current_setting('transaction_read_only') = 'off'";
    cold "asked at start-up" MIGRATIONS_TABLE = "
        SELECT count(*) FROM pg_class WHERE oid = to_regclass('_sqlx_migrations')";
    cold "asked at start-up" MIGRATIONS_APPLIED = "SELECT count(*) FROM _sqlx_migrations WHERE success";
    cold "asked at start-up" MIGRATIONS_TAKEN = "
        SELECT version, checksum, success FROM _sqlx_migrations ORDER BY version";
    cold "every few seconds" RIGHTS_MISSING = "
        SELECT needed.what || ' ' || quote_ident(relname) FROM pg_class
        CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) AS needed (what)
        WHERE oid = to_regclass(relname) AND relkind = 'r' AND relname = ANY ($1)
          AND (relname <> $2 OR needed.what = 'SELECT') AND NOT has_table_privilege(oid, needed.what)
        ORDER BY relname, needed.what";
}

/// Every statement of this backend, for the test that reads their plans.
#[must_use]
pub fn statements() -> Vec<Statement> {
    [
        STATEMENTS,
        merchants::STATEMENTS,
        keys::STATEMENTS,
        operators::STATEMENTS,
        master_keys::STATEMENTS,
        settlements::STATEMENTS,
        imports::STATEMENTS,
        deliveries::STATEMENTS,
        counts::STATEMENTS,
        endpoints::STATEMENTS,
        clearings::STATEMENTS,
        queue::STATEMENTS,
        alerts::STATEMENTS,
        corridors::STATEMENTS,
        payments::STATEMENTS,
        payment_searches::STATEMENTS,
        payments::creation::STATEMENTS,
        operations::STATEMENTS,
        balances::STATEMENTS,
        providers::STATEMENTS,
        jobs::STATEMENTS,
        reports::STATEMENTS,
        proposals::STATEMENTS,
        hosts::STATEMENTS,
    ]
    .concat()
}

/// A URL that does not name a PostgreSQL database that accepts writes.
#[derive(Debug, thiserror::Error)]
#[error("not a PostgreSQL URL, such as postgres://user@host/database or postgres://user@host,host/database")]
pub struct UrlFault;

/// A PostgreSQL database.
pub struct PostgresStore {
    pool: Connections,
    /// The servers, without the session's limits.
    unlimited: Hosts,
    slices: SliceMemory,
    signs: Signs,
}

/// Shows nothing: the options hold the password.
impl fmt::Debug for PostgresStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("PostgresStore(…)")
    }
}

impl PostgresStore {
    /// The store in the database that the URL names, on one server or on the one of several that accepts
    /// writes, for a service: its requests wait seconds at most. The first use connects.
    pub fn new(url: &str, connections_max: u32) -> Result<PostgresStore, UrlFault> {
        Ok(PostgresStore::limited(Hosts::parse(url)?, connections_max, Limits::REQUEST, &REQUEST_SETTINGS))
    }

    /// The same for a command, which waits longer for locks and for answers. A statement that takes a second
    /// is worth a line in a service's log; the person before a command sees that it takes long.
    pub fn patient(url: &str, connections_max: u32) -> Result<PostgresStore, UrlFault> {
        let hosts = Hosts::parse(url)?.map(ConnectOptions::disable_statement_logging);
        Ok(PostgresStore::limited(hosts, connections_max, Limits::COMMAND, &COMMAND_SETTINGS))
    }

    fn limited(
        hosts: Hosts,
        connections_max: u32,
        limits: Limits,
        settings: &[(&str, &str)],
    ) -> PostgresStore {
        let settled =
            |options: PgConnectOptions| options.application_name("settle").options(VANISHED_NODE_SETTINGS);
        let unlimited = hosts.map(settled);
        let limited = unlimited
            .clone()
            .map(|options| options.options(SESSION_SETTINGS).options(settings.iter().copied()));
        PostgresStore {
            pool: Connections::new(limited, connections_max, limits),
            unlimited,
            slices: SliceMemory::default(),
            signs: Signs::default(),
        }
    }

    /// Whether the database knows of steps at all.
    async fn has_steps(&self) -> StoreResult<bool> {
        let tables: i64 =
            sqlx::query_scalar(MIGRATIONS_TABLE).fetch_one(&self.pool).await.map_err(store_error)?;
        Ok(tables > 0)
    }

    /// Whether every step has been taken, as it is here, and no other, in a database that accepts writes.
    /// Then a start needs neither the migrator's lock nor a connection for it, nor the right to make tables.
    async fn is_migrated(&self) -> StoreResult<bool> {
        let is_writable = sqlx::query_scalar(IS_WRITABLE).fetch_one(&self.pool);
        let is_writable: bool = is_writable.await.map_err(store_error)?;
        if !is_writable || !self.has_steps().await? {
            return Ok(false);
        }
        let taken: Vec<(i64, Vec<u8>, bool)> =
            sqlx::query_as(MIGRATIONS_TAKEN).fetch_all(&self.pool).await.map_err(store_error)?;
        let steps = migrations::migrator();
        let steps = steps.iter().map(|step| (step.version, &*step.checksum, true));
        Ok(steps.eq(taken.iter().map(|(version, checksum, success)| (*version, &**checksum, *success))))
    }

    fn transaction(&self, manner: Manner) -> Box<dyn Tx> {
        Box::new(PostgresTx {
            number: TxNumber::next(),
            inner: Box::new(self.pool.transaction(manner)),
            epochs: Epochs::default(),
            imports: ImportMarks::default(),
            payments: PaymentMarks::default(),
            counts: CountChanges::default(),
            recorded_at: None,
            signs: self.signs.clone(),
        })
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn begin(&self) -> StoreResult<Box<dyn Tx>> {
        Ok(self.transaction(Manner::Usual))
    }

    async fn begin_relaxed(&self) -> StoreResult<Box<dyn Tx>> {
        Ok(self.transaction(Manner::Relaxed))
    }

    /// The journal is one for all: the next commit that waits for the disk, whoever's it is, waits for all
    /// that was written before it.
    async fn begin_step(&self) -> StoreResult<Box<dyn Tx>> {
        self.begin().await
    }

    fn clearing_step_rows(&self) -> u32 {
        CLEARING_STEP_ROWS
    }

    /// A transaction is eight round trips and a commit, whatever its size, so callers should share one.
    fn callers_awaited(&self) -> Duration {
        CALLERS_AWAITED
    }

    async fn ping(&self) -> StoreResult<()> {
        sqlx::query(PING).execute(&self.pool).await.map_err(store_error)?;
        Ok(())
    }

    async fn write_probe(&self) -> StoreResult<()> {
        let mut tx = self.pool.transaction(Manner::Usual);
        sqlx::query(REWRITE).execute(&mut tx).await.map_err(store_error)?;
        tx.commit().await.map_err(store_error)
    }

    async fn migrate(&self) -> StoreResult<()> {
        match self.pool.make_first(FIRST_TIMEOUT).await {
            // If this cannot be found out, the migrator says why.
            Ok(()) if self.is_migrated().await.unwrap_or(false) => return Ok(()),
            Err(fault) if is_late(&fault) => return Err(store_error(fault)),
            // A server that refuses may be starting: the migrator tries again.
            _ => {}
        }
        // The migrator holds an advisory lock, so that nodes that start together take turns. A step, and the
        // wait for another node's steps, may take any time: the session's limits are for requests.
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(START_TIMEOUT);
        let pool = pool.connect_lazy_with(self.unlimited.writable().await.map_err(store_error)?);
        let migrated = migrations::migrator().run(&pool).await;
        pool.close().await;
        if let Err(sqlx::migrate::MigrateError::Execute(sqlx::Error::PoolTimedOut)) = migrated {
            // sqlx's pool does not say what kept it from connecting.
            limited(START_TIMEOUT, self.unlimited.connect()).await.map_err(store_error)?;
        }
        migrated.map_err(|fault| match fault {
            sqlx::migrate::MigrateError::Execute(fault) => store_error(fault),
            sqlx::migrate::MigrateError::VersionMissing(_) => StoreError::LaterVersion,
            fault => StoreError::Unexpected(fault.into()),
        })
    }

    async fn migrations_pending(&self) -> StoreResult<usize> {
        let all = migrations::COUNT;
        if !self.has_steps().await? {
            return Ok(all);
        }
        let applied: i64 =
            sqlx::query_scalar(MIGRATIONS_APPLIED).fetch_one(&self.pool).await.map_err(store_error)?;
        all.checked_sub(usize::try_from(applied).unwrap_or(0)).ok_or(StoreError::LaterVersion)
    }

    async fn rights_missing(&self) -> StoreResult<Vec<String>> {
        let mut tables = migrations::tables();
        tables.push(MIGRATIONS);
        let query = sqlx::query_scalar(RIGHTS_MISSING).bind(tables).bind(MIGRATIONS);
        query.fetch_all(&self.pool).await.map_err(store_error)
    }

    async fn presence(&self, keeper: KeeperId, _duty: Duty) -> StoreResult<Option<Box<dyn Presence>>> {
        self.take_presence(keeper).await
    }

    async fn wake_others(&self, merchants: &[MerchantId]) -> StoreResult<()> {
        self.notify(merchants).await
    }

    fn connections(&self) -> Option<ConnectionCount> {
        Some(self.pool.count())
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction at the level READ COMMITTED: what it reads of a merchant stays true while it holds the
/// merchant's lock.
struct PostgresTx {
    /// Distinguishes its locks from those of other transactions.
    number: TxNumber,
    inner: Box<Transaction>,
    /// The epochs of the merchants that it has locked.
    epochs: Epochs,
    /// Those of them that have staged settlements.
    imports: ImportMarks,
    payments: PaymentMarks,
    /// The changes of the counts, written at the commit.
    counts: CountChanges,
    /// When the transaction recorded outcomes, if it did: merchants may then be due later, or not at all.
    recorded_at: Option<Timestamp>,
    signs: Signs,
}

#[async_trait]
impl Tx for PostgresTx {
    async fn commit(mut self: Box<Self>) -> StoreResult<()> {
        self.write_counts().await?;
        self.inner.commit().await.map_err(store_error)
    }
}
