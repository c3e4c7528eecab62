//! A role that may not do what the service does is told so, before a request finds out.

use settle_store::Store;
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::{scratch_url, session};
use sqlx::{AssertSqlSafe, Executor};

#[tokio::test]
async fn missing_rights_are_named() {
    let url = scratch_url().await;
    PostgresStore::new(&url, 1).unwrap().migrate().await.unwrap();
    let schema = url.rsplit('=').next().unwrap();
    let role = format!("role_of_{schema}");
    let mut owner = session(&url).await;
    let mut run = async |sql: String| owner.execute(AssertSqlSafe(sql)).await.map(drop).unwrap();
    run(format!("CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")).await;
    run(format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")).await;
    let separator = url.find("//").unwrap() + 2;
    let host = url[separator..].find('@').map_or(separator, |at| separator + at + 1);
    let limited = PostgresStore::new(&format!("{}{role}@{}", &url[..separator], &url[host..]), 1).unwrap();
    let missing = limited.rights_missing().await.unwrap();
    assert!(missing.contains(&"INSERT settlements".to_owned()), "{missing:?}");
    assert!(!missing.iter().any(|missing| missing.starts_with("SELECT")), "{missing:?}");
    run(format!("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")).await;
    assert_eq!(limited.rights_missing().await.unwrap(), Vec::<String>::new());
    limited.close().await;
    run(format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}
