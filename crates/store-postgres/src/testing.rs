//! Scratch stores for tests: a schema of its own in a throw-away database.

#![expect(clippy::expect_used, reason = "these are tests: a panic is their message")]

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use settle_store::conformance::{Backdoor, ScratchStore};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, postgres::PgConnectOptions};

use crate::hosts::Hosts;
use crate::manners::Limits;
use crate::{PostgresStore, SESSION_SETTINGS, migrations};

/// The environment variable with the URL of a database that tests may fill.
pub const URL_VARIABLE: &str = "TEST_POSTGRES_URL";
/// Connections of a scratch store: enough for a test, few enough that many tests run side by side.
const CONNECTIONS_MAX: u32 = 4;
/// A request's limits for a machine that may stand still for seconds, as one does whose host is busy: a test
/// with a scratch store does not ask whether the database is fast enough. For locks it waits as long as a
/// request does; starting and closing have the limits that they always have.
const LIMITS: Limits = Limits {
    read: Duration::from_secs(35),
    begin: Duration::from_secs(35),
    statement: Duration::from_secs(35),
    connect: Duration::from_secs(20),
    ping: Duration::from_secs(10),
    ..Limits::REQUEST
};
const SETTINGS: [(&str, &str); 3] =
    [("statement_timeout", "30s"), ("lock_timeout", "1s"), ("idle_in_transaction_session_timeout", "30s")];

/// A new, empty store.
///
/// # Panics
///
/// When the database does not answer.
pub async fn scratch() -> ScratchStore {
    scratch_at(scratch_url().await)
}

/// A new, empty store of a role that is no superuser and may make tables: rights can be taken from it, and
/// given back, `FROM` and `TO CURRENT_USER`.
///
/// # Panics
///
/// When the database does not answer.
pub async fn scratch_of_role() -> ScratchStore {
    let owner = scratch_url().await;
    let (url, role) = limited_url(&owner).await;
    let schema = owner.rsplit('=').next().expect("it names a schema");
    let sql = format!("GRANT CREATE ON SCHEMA {schema} TO {role}");
    session(&owner).await.execute(AssertSqlSafe(sql)).await.expect("a right is granted");
    scratch_at(url)
}

fn scratch_at(url: String) -> ScratchStore {
    ScratchStore::new(Arc::new(store_at(&url, CONNECTIONS_MAX)), ScratchSchema { url })
}

/// The store at this URL, for a test that does not ask how long it waits for the database.
///
/// # Panics
///
/// When the URL is not one of PostgreSQL.
#[must_use]
pub fn store_at(url: &str, connections_max: u32) -> PostgresStore {
    let hosts = Hosts::parse(url).expect("a URL of PostgreSQL");
    PostgresStore::limited(hosts, connections_max, LIMITS, &SETTINGS)
}

struct ScratchSchema {
    url: String,
}

#[async_trait]
impl Backdoor for ScratchSchema {
    async fn execute(&self, sql: &'static str) {
        let mut session = session(&self.url).await;
        session.execute(sql).await.expect("a statement of PostgreSQL");
        session.close().await.expect("nothing was left to send");
    }
}

/// A session with the store's settings.
///
/// # Panics
///
/// When the database does not answer.
pub async fn session(url: &str) -> PgConnection {
    let options: PgConnectOptions = url.parse().expect("a URL of PostgreSQL");
    // A test fills whole tables with one statement.
    let options = options.options(SESSION_SETTINGS).options([("statement_timeout", "60s")]);
    options.connect().await.expect("the database answers")
}

/// Takes the first steps of the schema, as an earlier version has left it.
///
/// # Panics
///
/// When the database does not answer.
pub async fn take_steps(url: &str, steps: usize) {
    let mut session = session(url).await;
    migrations::migrator_to(steps).run(&mut session).await.expect("the schema of an earlier version");
    session.close().await.expect("nothing was left to send");
}

/// What a setting of the server is in the store's sessions: in one for its calls, and in one without limits,
/// such as a keeper's.
///
/// # Panics
///
/// When the database does not answer.
pub async fn shown(store: &PostgresStore, setting: &str) -> [String; 2] {
    let show = || sqlx::query_scalar(AssertSqlSafe(format!("SHOW {setting}")));
    let limited = show().fetch_one(&store.pool).await.expect("a setting of the server");
    let mut session = store.unlimited.connect().await.expect("the database answers");
    let unlimited = show().fetch_one(&mut session).await.expect("a setting of the server");
    session.close().await.expect("nothing was left to send");
    [limited, unlimited]
}

/// The database of this URL, for a role of its own that may do nothing in it; and the role's name.
///
/// # Panics
///
/// If the database does not answer.
pub async fn limited_url(url: &str) -> (String, String) {
    let schema = url.rsplit('=').next().expect("it names a schema");
    let role = format!("role_of_{schema}");
    let sql = format!("CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}");
    session(url).await.execute(AssertSqlSafe(sql)).await.expect("the role is made");
    let separator = url.find("//").expect("a URL") + 2;
    let host = url[separator..].find('@').map_or(separator, |at| separator + at + 1);
    (format!("{}{role}@{}", &url[..separator], &url[host..]), role)
}

/// The URL of a new, empty schema.
///
/// # Panics
///
/// When the database does not answer.
#[expect(clippy::disallowed_methods, reason = "this is not a setting of the service")]
pub async fn scratch_url() -> String {
    let url = std::env::var(URL_VARIABLE).expect(
        "TEST_POSTGRES_URL: run ./test or scripts/with-postgres, which start a throw-away PostgreSQL",
    );
    let options: PgConnectOptions = url.parse().expect("TEST_POSTGRES_URL is a URL of PostgreSQL");
    let mut connection = options.connect().await.expect("the database of TEST_POSTGRES_URL answers");
    let name: String = sqlx::query_scalar("SELECT 'scratch_' || replace(gen_random_uuid()::text, '-', '')")
        .fetch_one(&mut connection)
        .await
        .expect("a name");
    let create = AssertSqlSafe(format!("CREATE SCHEMA {name}"));
    sqlx::query(create).execute(&mut connection).await.expect("a schema of its own");
    connection.close().await.expect("nothing was left to send");
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options[search_path]={name}")
}
