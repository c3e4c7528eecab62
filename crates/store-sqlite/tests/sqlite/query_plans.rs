//! No hot statement scans a table or an index that grows.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use rusqlite::Connection;
use settle_store::Store;
use settle_store::statements::{Heat, Statement};
use settle_store_sqlite::SqliteStore;
use settle_store_sqlite::testing::scratch_url;
use tempfile::TempDir;

/// The lines of a plan that walk a whole table or index.
fn scans(connection: &Connection, sql: &str) -> Vec<String> {
    let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let details = plan.raw_query().mapped(|row| row.get::<_, String>("detail"));
    details.map(Result::unwrap).filter(|detail| is_scan(detail) || walks_a_history(detail, sql)).collect()
}

/// `SCAN` of anything but an argument (`json_each`), a single row, the few imports that are not finished or
/// the result of a bounded subquery.
fn is_scan(detail: &str) -> bool {
    const BOUNDED: [&str; 6] =
        ["row VIRTUAL", "asked VIRTUAL", "json_each VIRTUAL", "CONSTANT ROW", "unfinished", "(subquery"];
    let Some(scanned) = detail.strip_prefix("SCAN ") else {
        return false;
    };
    !BOUNDED.iter().any(|bounded| scanned.starts_with(bounded))
}

/// A search by the id of the merchant or the import alone walks through all its rows, unless a limit ends it;
/// and no limit ends a search for rows of a status that none has.
fn walks_a_history(detail: &str, sql: &str) -> bool {
    let grows = [
        "settlements",
        "deliveries",
        "settlement_slices",
        "import_rows",
        "r",
        "payments",
        "operations",
        "payment_steps",
    ];
    grows.iter().any(|table| detail.starts_with(&format!("SEARCH {table} ")))
        && ["(merchant_id=?)", "(import_id=?)"].iter().any(|whole| detail.ends_with(whole))
        // What an update looks up may be limited; the rows that it changes are not.
        && (!sql.contains("LIMIT") || sql.contains("status =") || sql.trim_start().starts_with("UPDATE"))
}

/// A connection to a file with every table, and the file's folder.
async fn migrated() -> (Connection, TempDir) {
    let (url, folder) = scratch_url();
    let store = SqliteStore::new(&url).unwrap();
    store.migrate().await.unwrap();
    (Connection::open(store.path()).unwrap(), folder)
}

#[tokio::test]
async fn no_hot_statement_scans() {
    let (connection, _folder) = migrated().await;
    let statements = settle_store_sqlite::statements();
    let hot: Vec<Statement> =
        statements.into_iter().filter(|statement| statement.heat == Heat::Hot).collect();
    assert!(hot.len() > 15, "the hot statements are declared: {}", hot.len());
    let mut found = Vec::new();
    for statement in hot {
        for scan in scans(&connection, statement.sql) {
            found.push(format!("{}: {scan}", statement.name));
        }
    }
    assert!(found.is_empty(), "hot statements that scan:\n{}", found.join("\n"));
}

/// It is asked every few seconds, and reads small tables; of merchants it reads those that are due first.
#[tokio::test]
async fn the_depth_of_the_queue_costs_the_same_with_any_number_of_merchants() {
    let (connection, _folder) = migrated().await;
    let statements = settle_store_sqlite::statements();
    let depth = statements.iter().find(|statement| statement.name == "DEPTH").expect("it is declared");
    let mut scans = scans(&connection, depth.sql);
    // A row a shard, and one of totals.
    scans.retain(|scan| !["SCAN queue_shards", "SCAN delivery_totals"].contains(&scan.as_str()));
    assert_eq!(scans, [""; 0]);
}

/// An operator who looks for the dead of a million deliveries waits for the dead alone.
#[tokio::test]
async fn operators_find_deliveries_of_a_status_by_its_index() {
    let (connection, _folder) = migrated().await;
    let is_of_status = |sql: &str| sql.contains("status = ?8") || sql.contains("status = asked.value");
    let statements = settle_store_sqlite::statements();
    let searches: Vec<_> = statements.iter().filter(|statement| is_of_status(statement.sql)).collect();
    assert_eq!(searches.len(), 2, "a page of them, and their number: {searches:?}");
    for search in searches {
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", search.sql)).unwrap();
        let details = plan.raw_query().mapped(|row| row.get::<_, String>("detail"));
        let details: Vec<String> = details.map(Result::unwrap).collect();
        let by_status = "deliveries_listed_by_status (merchant_id=? AND status=? AND delivery_id>?";
        assert!(details.iter().any(|detail| detail.contains(by_status)), "{}: {details:#?}", search.name);
    }
}

/// The searches of operators by which payments are found among all that were ever made, and the one index
/// that each may read them by.
const SEARCHES: [(&str, &str); 4] = [
    ("OPEN", "payments_open"),
    ("BY_REFERENCE", "payments_payin"),
    ("REFUNDED", "payments_refunded"),
    ("FLAGGED", "payments_flagged"),
];

/// They are not hot, and yet an operator's request waits for them. What they read by another's order is
/// sorted merchant by merchant.
#[tokio::test]
async fn operators_find_few_payments_among_many_by_an_index_of_the_few() {
    let (connection, _folder) = migrated().await;
    for (name, index) in SEARCHES {
        let named: Vec<Statement> = settle_store_sqlite::statements()
            .into_iter()
            .filter(|statement| statement.name == name)
            .collect();
        let [search] = named[..] else { panic!("{name}: {named:?}") };
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", search.sql)).unwrap();
        let details = plan.raw_query().mapped(|row| row.get::<_, String>("detail"));
        let details: Vec<String> = details.map(Result::unwrap).collect();
        let reads: Vec<&String> = details.iter().filter(|detail| detail.contains(" payments ")).collect();
        assert!(!reads.is_empty(), "{name}: {details:?}");
        for read in reads {
            let by = read.split_once("SEARCH payments USING ").map_or("", |(_, by)| by);
            let by = by.trim_start_matches("COVERING ").split(' ').nth(1);
            assert_eq!(by, Some(index), "{name}: {details:?}");
        }
        if name == "OPEN" {
            assert!(details.contains(&"USE TEMP B-TREE FOR LAST TERM OF ORDER BY".to_owned()), "{details:?}");
        }
    }
}

/// SQLite would plan the statement again for every execution.
#[test]
fn no_limit_is_a_mere_parameter() {
    for Statement { name, sql, .. } in settle_store_sqlite::statements() {
        let words: Vec<&str> = sql.split_whitespace().chain(["", ""]).collect();
        for window in words.windows(3).filter(|window| ["LIMIT", "OFFSET"].contains(&window[0])) {
            let is_parameter = window[1].starts_with('?');
            assert!(!is_parameter || window[2] == "+", "{name}: {}", window.join(" "));
        }
    }
}

#[tokio::test]
async fn the_check_notices_a_scan() {
    let (connection, _folder) = migrated().await;
    for sql in [
        "SELECT * FROM deliveries WHERE status = 'pending'",
        "SELECT count(*) FROM settlements",
        "SELECT * FROM settlements WHERE settlement_id = ?1",
        "SELECT count(*) FROM settlements WHERE merchant_id = ?1",
        "SELECT count(*) FROM import_rows WHERE import_id = ?1",
        "SELECT * FROM deliveries WHERE merchant_id = ?1 AND status = ?2 ORDER BY delivery_id DESC LIMIT 1",
        "SELECT d.* FROM deliveries AS d JOIN json_each(?1) AS row ON d.url = row.value",
    ] {
        assert!(!scans(&connection, sql).is_empty(), "{sql}");
    }
}
