//! Connections to PostgreSQL: how many there may be, and how long each call may take.
//!
//! A connection can vanish without a word: a firewall forgets it, an address moves. Whoever waits on it waits
//! for the operating system to give up, which takes a quarter of an hour. So every call has a limit, and a
//! connection on which a call ran into it is closed, never lent again. If a ping fails, everything that has
//! been idle since is closed with it: what one connection has lost, all of them have.
//!
//! A server that does not answer is not asked again for a second: who comes meanwhile is told at once.
//!
//! A call that its caller gave up leaves an unfinished statement or an open transaction behind. A task of its
//! own ends that, within a limit, before the connection is lent again. Whoever gave up does not wait for it.
//!
//! Transactions leave a part of the connections to reads: a merchant whose row is locked for long holds up
//! nobody's list.
//!
//! The pool is our own because sqlx's tries a refused connection again until its caller has given up, pings
//! without a limit what comes back, and waits for all of it when it closes; no other pool keeps a part of
//! one set of connections free for a kind of caller.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};
use settle_domain::ids::MerchantId;
use settle_store::{ConnectionCount, StoreResult};
use sqlx::error::DatabaseError;
use sqlx::postgres::{PgDatabaseError, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{Connection, Either, Error, Execute, Executor, PgConnection, Postgres, SqlStr};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::error::READ_ONLY_STATE;
use crate::gates::{Asking, Caller, Gates};
use crate::hosts::Hosts;
use crate::manners::{BE_HASTY, Limits, Manner, did_not_answer, is_late, limited, too_many_lists};

/// How long nobody tries to connect after a server did not answer: who comes meanwhile is told at once.
const AWAY: Duration = Duration::from_secs(1);
/// A connection that was idle for longer is pinged before it is lent: a ping each time would double the round
/// trips of a request.
const TRUSTED_IDLE: Duration = Duration::from_secs(1);
/// A connection that is older is replaced, so that a server's memory does not grow with its age.
const AGE_MAX: Duration = Duration::from_mins(30);
/// How long the connections that are lent may take to come back when the store closes.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);
/// One in so many connections is kept free of transactions, for reads.
const READS_SHARE: usize = 4;

/// What a statement gives: rows, and how many it changed.
type Given = Vec<Either<PgQueryResult, PgRow>>;

/// The connections of a store. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shared>);

struct Shared {
    hosts: Hosts,
    /// A permit for each connection.
    all: Arc<Semaphore>,
    /// Permits for those that transactions may have.
    for_transactions: Arc<Semaphore>,
    connections_max: u32,
    limits: Limits,
    idle: Mutex<Idle>,
    /// Before transactions that lock merchants.
    locks: Gates,
    asking: Asking,
    /// Before reads of lists.
    lists: Gates,
}

struct Idle {
    sessions: Vec<Session>,
    /// What has been idle since before then is closed without a ping.
    lost_before: Instant,
    /// Until then the server counts as away.
    away_until: Instant,
}

struct Session {
    connection: PgConnection,
    made_at: Instant,
    idle_since: Instant,
}

impl Session {
    fn new(connection: PgConnection) -> Session {
        let now = Instant::now();
        Session { connection, made_at: now, idle_since: now }
    }
}

/// Shows nothing: the options hold the password.
impl fmt::Debug for Connections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Connections(…)")
    }
}

impl Connections {
    /// No connection yet: the first use connects.
    pub(crate) fn new(hosts: Hosts, connections_max: u32, limits: Limits) -> Connections {
        let all = usize::try_from(connections_max).unwrap_or(Semaphore::MAX_PERMITS);
        let now = Instant::now();
        let for_reads = if all > 1 { (all / READS_SHARE).max(1) } else { 0 };
        Connections(Arc::new(Shared {
            hosts,
            all: Arc::new(Semaphore::new(all)),
            for_transactions: Arc::new(Semaphore::new(all - for_reads)),
            connections_max,
            limits,
            locks: Gates::of_locks(),
            asking: Asking::new(all - for_reads),
            lists: Gates::of_lists(all),
            idle: Mutex::new(Idle { sessions: Vec::new(), lost_before: now, away_until: now }),
        }))
    }

    /// A transaction, which takes a connection with its first statement.
    pub(crate) fn transaction(&self, manner: Manner) -> Transaction {
        Transaction { connections: self.clone(), loan: None, passed: Vec::new(), manner }
    }

    pub(crate) fn count(&self) -> ConnectionCount {
        let max = usize::try_from(self.0.connections_max).unwrap_or(usize::MAX);
        let used = max.saturating_sub(self.0.all.available_permits());
        ConnectionCount { used, idle: self.0.idle().sessions.len(), max }
    }

    /// Lets nobody have a connection any more, and closes them: those that are lent when they come back, or
    /// when the limit is over.
    pub(crate) async fn close(&self) {
        let back = self.0.all.acquire_many(self.0.connections_max);
        // Late ones end with the process.
        let _ = timeout(CLOSE_LIMIT, back).await;
        self.0.all.close();
        self.0.for_transactions.close();
        self.0.idle().sessions.clear();
    }

    /// Makes a connection within the time that a start has, which is longer than a request's, and keeps it
    /// for the first caller.
    pub(crate) async fn make_first(&self, limit: Duration) -> Result<(), Error> {
        let permit = self.0.all.clone().acquire_owned().await.map_err(|_| Error::PoolClosed)?;
        let connection = limited(limit, self.0.hosts.connect()).await?;
        drop(Loan::new(self.clone(), Session::new(connection), permit));
        Ok(())
    }

    async fn lend(&self) -> Result<Loan, Error> {
        let permit = self.0.all.clone().acquire_owned().await.map_err(|_| Error::PoolClosed)?;
        while let Some(mut session) = self.0.take_idle() {
            let is_fit = session.idle_since.elapsed() <= TRUSTED_IDLE
                || limited(self.0.limits.ping, session.connection.ping()).await.is_ok();
            if is_fit {
                return Ok(Loan::new(self.clone(), session, permit));
            }
            tracing::info!("an idle connection to the database is gone: those idle as long are closed");
            self.0.idle().lost_before = Instant::now();
        }
        if self.0.idle().away_until > Instant::now() {
            return Err(did_not_answer());
        }
        let connection = limited(self.0.limits.connect, self.0.hosts.connect()).await;
        if connection.as_ref().is_err_and(is_late) {
            self.0.idle().away_until = Instant::now() + AWAY;
        }
        Ok(Loan::new(self.clone(), Session::new(connection?), permit))
    }

    async fn lend_to_transaction(&self) -> Result<Loan, Error> {
        let place = self.0.for_transactions.clone().acquire_owned().await.map_err(|_| Error::PoolClosed)?;
        let mut loan = self.lend().await?;
        loan.place = Some(place);
        Ok(loan)
    }

    /// The same connections, for a read of a merchant's list: one merchant has a part of them at once.
    pub(crate) fn lists_of(&self, merchant: MerchantId) -> Lists<'_> {
        Lists { connections: self, merchant }
    }

    async fn read<'q, E: Execute<'q, Postgres> + 'q>(&self, query: E) -> Result<Given, Error> {
        let limit = self.0.limits.read;
        limited(limit, async {
            let mut loan = self.lend().await?;
            loan.ask(limit, query).await
        })
        .await
    }
}

/// See [`Connections::lists_of`].
#[derive(Debug)]
pub(crate) struct Lists<'c> {
    connections: &'c Connections,
    merchant: MerchantId,
}

impl Lists<'_> {
    /// The gate takes half of a request's limit at most; whoever has not passed it by then is told so.
    async fn read<'q, E: Execute<'q, Postgres> + 'q>(self, query: E) -> Result<Given, Error> {
        let Shared { limits, lists, .. } = &*self.connections.0;
        limited(limits.read, async {
            let passed = lists.pass(&[self.merchant]).await.map_err(|_| too_many_lists())?;
            let mut loan = self.connections.lend().await?;
            loan.passed = passed;
            loan.ask(limits.read, query).await
        })
        .await
    }
}

impl Shared {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one that was used last, of those that may still be good; the others are closed.
    fn take_idle(&self) -> Option<Session> {
        let mut idle = self.idle();
        let lost_before = idle.lost_before;
        let is_good =
            |session: &Session| session.idle_since >= lost_before && session.made_at.elapsed() < AGE_MAX;
        idle.sessions.retain(is_good);
        idle.sessions.pop()
    }
}

/// A connection that somebody has.
struct Loan {
    connections: Connections,
    /// `None` only while it is being dropped.
    session: Option<Session>,
    permit: Option<OwnedSemaphorePermit>,
    /// The permit of a transaction.
    place: Option<OwnedSemaphorePermit>,
    /// The gate of the merchant whose list it reads. A read that is given up keeps it as long as the
    /// connection.
    passed: Vec<Caller>,
    /// A call is under way, or its caller gave it up.
    is_in_call: bool,
    /// A transaction is open.
    is_in_transaction: bool,
    /// It must not be lent again.
    is_lost: bool,
}

impl Loan {
    fn new(connections: Connections, session: Session, permit: OwnedSemaphorePermit) -> Loan {
        Loan {
            connections,
            session: Some(session),
            permit: Some(permit),
            place: None,
            passed: Vec::new(),
            is_in_call: false,
            is_in_transaction: false,
            is_lost: false,
        }
    }

    /// Everything that a statement gives.
    async fn ask<'q, E: Execute<'q, Postgres> + 'q>(
        &mut self,
        limit: Duration,
        query: E,
    ) -> Result<Given, Error> {
        let Some(session) = &mut self.session else { return Err(Error::PoolClosed) };
        self.is_in_call = true;
        let given = limited(limit, session.connection.fetch_many(query).try_collect()).await;
        self.is_in_call = false;
        self.is_lost |= given.as_ref().is_err_and(ends_the_session);
        if given.as_ref().is_err_and(is_read_only) {
            self.is_lost = true;
            self.connections.0.hosts.forget();
        }
        given
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let Some(session) = self.session.take().filter(|_| !self.is_lost) else { return };
        let lent = Lent {
            shared: self.connections.0.clone(),
            session,
            _permits: (self.permit.take(), self.place.take(), std::mem::take(&mut self.passed)),
        };
        if !self.is_in_call && !self.is_in_transaction {
            lent.give_back();
        } else if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(lent.clean_up(self.is_in_transaction));
        }
    }
}

/// A connection on its way back.
struct Lent {
    shared: Arc<Shared>,
    session: Session,
    _permits: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>, Vec<Caller>),
}

impl Lent {
    fn give_back(mut self) {
        self.session.idle_since = Instant::now();
        if !self.shared.all.is_closed() {
            self.shared.idle().sessions.push(self.session);
        }
    }

    /// Ends what was given up. A connection that does not answer is closed: the server then ends it.
    async fn clean_up(mut self, is_in_transaction: bool) {
        let connection = &mut self.session.connection;
        let clean = async move {
            connection.ping().await?;
            if is_in_transaction {
                connection.execute("ROLLBACK").await?;
            }
            Ok(())
        };
        if limited(self.shared.limits.ping, clean).await.is_ok() {
            self.give_back();
        }
    }
}

/// A transaction. Dropped without [`Transaction::commit`], it is rolled back.
pub(crate) struct Transaction {
    connections: Connections,
    loan: Option<Loan>,
    /// The gates of merchants that it has passed. They open for the next one after the loan has ended.
    passed: Vec<Caller>,
    manner: Manner,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Transaction(…)")
    }
}

impl Transaction {
    /// Ends it; what it wrote is then durable. One without a statement has nothing to end.
    pub(crate) async fn commit(mut self) -> Result<(), Error> {
        let limit = self.limits().statement;
        let Some(loan) = &mut self.loan else { return Ok(()) };
        loan.ask(limit, "COMMIT").await?;
        loan.is_in_transaction = false;
        Ok(())
    }

    /// Waits at the gates of merchants that are about to be locked, and gives the place to hold while they
    /// are. A command passes: its process has no other callers.
    pub(crate) async fn pass_gates(
        &mut self,
        merchants: &[MerchantId],
    ) -> StoreResult<Option<OwnedSemaphorePermit>> {
        if !self.limits().has_gates {
            return Ok(None);
        }
        let shared = &self.connections.0;
        let is_new = |merchant: &MerchantId| self.passed.iter().all(|caller| !caller.is_of(*merchant));
        let merchants: Vec<MerchantId> = merchants.iter().copied().filter(is_new).collect();
        self.passed.extend(shared.locks.pass(&merchants).await?);
        // With a connection in hand there is nothing to be saved.
        if self.loan.is_some() { Ok(None) } else { shared.asking.ask().await.map(Some) }
    }

    /// From now on it waits a moment only for locks. Before the first statement that costs nothing.
    pub(crate) async fn wait_a_moment(&mut self) -> Result<(), Error> {
        self.manner = self.manner.hastened();
        if self.loan.is_some() {
            self.ask(BE_HASTY).await?;
        }
        Ok(())
    }

    async fn ask<'q, E: Execute<'q, Postgres> + 'q>(&mut self, query: E) -> Result<Given, Error> {
        let limits = self.limits();
        if self.loan.is_none() {
            let mut loan = limited(limits.begin, self.connections.lend_to_transaction()).await?;
            loan.is_in_transaction = true;
            loan.ask(limits.statement, self.manner.sql()).await?;
            self.loan = Some(loan);
        }
        match &mut self.loan {
            Some(loan) => loan.ask(limits.statement, query).await,
            None => Err(Error::PoolClosed),
        }
    }

    fn limits(&self) -> Limits {
        self.connections.0.limits
    }
}

/// Whether nothing more can be asked after this error: all but a refusal of one statement.
fn ends_the_session(error: &Error) -> bool {
    match error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>()) {
        Some(error) => !matches!(error.severity(), sqlx::postgres::PgSeverity::Error),
        None => true,
    }
}

/// Whether the server accepts no writes any more.
fn is_read_only(error: &Error) -> bool {
    error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == READ_ONLY_STATE)
}

/// The first row.
fn first_row(given: Given) -> Option<PgRow> {
    given.into_iter().find_map(Either::right)
}

/// All that a statement gives, as the stream that sqlx wants.
fn as_stream<'e>(
    given: impl Future<Output = Result<Given, Error>> + Send + 'e,
) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>> {
    given.map_ok(|given| stream::iter(given.into_iter().map(Ok))).try_flatten_stream().boxed()
}

/// Nothing here prepares a statement before it is asked: sqlx does that on its connection.
fn not_prepared<'e>() -> BoxFuture<'e, Result<PgStatement, Error>> {
    futures::future::ready(Err(Error::Protocol("statements are not prepared beforehand".to_owned()))).boxed()
}

/// Lets sqlx's queries run on something of ours that gives all of a statement's rows at once.
macro_rules! executor {
    ($lifetime:lifetime, $of:ty, |$own:ident, $query:ident| $ask:expr) => {
        impl<$lifetime> Executor<$lifetime> for $of {
            type Database = Postgres;

            fn fetch_many<'e, 'q: 'e, E>(
                self,
                $query: E,
            ) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, Error>>
            where
                $lifetime: 'e,
                E: 'q + Execute<'q, Postgres>,
            {
                let $own = self;
                as_stream(async move { $ask.await })
            }

            fn fetch_optional<'e, 'q: 'e, E>(self, $query: E) -> BoxFuture<'e, Result<Option<PgRow>, Error>>
            where
                $lifetime: 'e,
                E: 'q + Execute<'q, Postgres>,
            {
                let $own = self;
                async move { $ask.await.map(first_row) }.boxed()
            }

            fn prepare_with<'e>(
                self,
                _sql: SqlStr,
                _parameters: &'e [PgTypeInfo],
            ) -> BoxFuture<'e, Result<PgStatement, Error>>
            where
                $lifetime: 'e,
            {
                not_prepared()
            }
        }
    };
}

executor!('p, &'p Connections, |own, query| own.read(query));
executor!('p, Lists<'p>, |own, query| own.read(query));
executor!('c, &'c mut Transaction, |own, query| own.ask(query));
