//! A role that may not do what the service does is told so, before a request finds out.

use std::error::Error;

use settle_store::{Store, StoreError};
use settle_store_postgres::testing::{limited_url, scratch_url, session, store_at};
use sqlx::{AssertSqlSafe, Executor};

#[tokio::test]
async fn missing_rights_are_named() {
    let url = scratch_url().await;
    store_at(&url, 1).migrate().await.unwrap();
    let schema = url.rsplit('=').next().unwrap();
    let (limited_url, role) = limited_url(&url).await;
    let mut owner = session(&url).await;
    let mut run = async |sql: String| owner.execute(AssertSqlSafe(sql)).await.map(drop).unwrap();
    let limited = store_at(&limited_url, 1);
    let refused = limited.migrations_pending().await.unwrap_err();
    let words = "database_grant_missing: permission denied for table _sqlx_migrations: settle doctor names the rights \
         that the role lacks";
    assert_eq!(refused.source().unwrap().to_string(), words);
    assert!(
        refused.is_grant_missing() && matches!(refused, StoreError::Unavailable(_)),
        "it can be tried again"
    );
    assert_eq!(limited.rights_missing().await.unwrap()[0], "SELECT _sqlx_migrations");
    run(format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")).await;
    let missing = limited.rights_missing().await.unwrap();
    assert!(missing.contains(&"INSERT settlements".to_owned()), "{missing:?}");
    assert!(!missing.iter().any(|missing| missing.starts_with("SELECT")), "{missing:?}");
    run(format!("GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")).await;
    assert_eq!(limited.rights_missing().await.unwrap(), Vec::<String>::new());
    limited.migrate().await.expect("with nothing to do, nobody needs the right to make tables");
    run(format!("ALTER ROLE {role} SET default_transaction_read_only = on")).await;
    limited.close().await;
    let limited = store_at(&limited_url, 1);
    limited.migrate().await.expect_err("it accepts no writes");
    limited.close().await;
    run(format!("DROP OWNED BY {role}; DROP ROLE {role}")).await;
}
