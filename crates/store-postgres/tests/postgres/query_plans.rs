//! No hot statement scans a table or an index that grows, or reads a list again for each row.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use settle_store::Store;
use settle_store::statements::{Heat, Statement};
use settle_store_postgres::testing::{scratch_url, session, store_at};
use sqlx::{AssertSqlSafe, Executor, PgConnection};

/// Tables whose size follows the traffic or the number of merchants.
const GROWING: [&str; 19] = [
    "settlements",
    "settlement_slices",
    "settlement_pricing",
    "deliveries",
    "merchant_counts",
    "api_keys",
    "operators",
    "webhook_endpoints",
    "clearings",
    "alerts",
    "import_rows",
    "corridors",
    "corridor_pricing",
    "payments",
    "payment_queues",
    "payment_pricing",
    "payment_steps",
    "operations",
    "balances",
];
/// Tables of which one merchant alone may have any number of rows.
const HISTORIES: [&str; 9] = [
    "settlements",
    "settlement_slices",
    "settlement_pricing",
    "deliveries",
    "import_rows",
    "payments",
    "payment_pricing",
    "payment_steps",
    "operations",
];
/// What leads the conditions on a history: a provider names nothing but the operation.
const LEADING: [&str; 2] = ["merchant_id", "operation_id"];

/// Enough rows to matter to the planner, of so few merchants that reading a whole table may look cheap to it.
const FILL: [&str; 22] = [
    "INSERT INTO merchants SELECT md5(n::text)::uuid, 'm', now() FROM generate_series(1, 5000) AS n",
    "INSERT INTO merchant_counts SELECT merchant_id FROM merchants",
    "INSERT INTO deliveries
     SELECT md5((n % 5)::text)::uuid, md5('d' || n)::uuid, md5('s' || n)::uuid, 'settlement.completed',
            CASE n % 3 WHEN 0 THEN 'pending' ELSE 'dead' END, 0, 0, now(), NULL, now(), NULL, NULL, 'https://m'
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO settlements
     SELECT md5((n % 5)::text)::uuid, md5('s' || n)::uuid,
            substr(decode(md5(n::text) || md5(n::text), 'hex'), 1, 24), '{}'
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO settlement_slices
     SELECT md5((n % 5)::text)::uuid, decode(md5(n::text), 'hex'), 128 FROM generate_series(1, 20000) AS n",
    "INSERT INTO settlement_pricing SELECT merchant_id, settlement_id, '1', '1', '1' FROM settlements",
    "INSERT INTO api_keys
     SELECT md5(n::text)::uuid, md5('k' || n)::uuid, sha256(n::text::bytea), NULL, 'beef', NULL, now(), NULL
     FROM generate_series(1, 5000) AS n",
    "INSERT INTO operators
     SELECT md5('o' || n)::uuid, 'o' || n, sha256(n::text::bytea), NULL, now(), NULL
     FROM generate_series(1, 5000) AS n",
    "INSERT INTO webhook_endpoints SELECT merchant_id, 'https://m.example', '' FROM merchants",
    "INSERT INTO clearings SELECT merchant_id, 0, now(), 9, now(), merchant_id FROM merchants",
    "INSERT INTO imports SELECT md5('i' || n)::uuid, true, 'accepted', now() FROM generate_series(1, 5) AS n",
    "INSERT INTO import_rows
     SELECT md5('i' || n % 5)::uuid, md5((n % 5)::text)::uuid, md5('s' || n)::uuid,
            substr(decode(md5(n::text) || md5(n::text), 'hex'), 1, 24), '{}'
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO alerts
     SELECT md5((n % 5)::text)::uuid, md5('a' || n)::uuid, 'https://m/' || n % 50, 1, '{}', 'timeout', now(), now(),
            now(), 1, now() + n * interval '1 second', CASE WHEN n > 50 THEN now() END
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO corridors
     SELECT merchant_id, 'BRL', 'USDC', n, '1', '1', NULL, NULL, 'bank', 900, 'command', now()
     FROM merchants, generate_series(1, 4) AS n",
    "INSERT INTO corridor_pricing SELECT merchant_id, incoming, outgoing, version, '0' FROM corridors",
    "INSERT INTO payments
     SELECT md5((n % 5)::text)::uuid, md5('p' || n)::uuid, 'default', 'pix ' || n,
            CASE WHEN n % 3 = 0 THEN 'received' ELSE 'completed' END, 1, NULL, NULL, 'bank', now(), now(),
            CASE WHEN n % 3 = 0 THEN now() END, n % 3 = 0, '{}', '{}'
     FROM generate_series(1, 20000) AS n",
    "INSERT INTO payment_queues (merchant_id, next_due_at) SELECT merchant_id, now() FROM merchants",
    "INSERT INTO payment_pricing (merchant_id, payment_number, pricing)
     SELECT merchant_id, number, '{}' FROM payments",
    "INSERT INTO payment_steps (merchant_id, payment_number, number, at, step)
     SELECT merchant_id, number, 1, now(), '{}' FROM payments",
    "INSERT INTO operations (merchant_id, payment_number, payment_id, kind, attempt, operation_id, provider, status, is_live,
                             prepared_at, request, memory)
     SELECT merchant_id, number, payment_id, 'payout', 1, payment_id, 'bank', 'succeeded', true, now(), '{}', '{}'
     FROM payments",
    "INSERT INTO balances
     SELECT merchant_id, account, 'BRL', 1 FROM merchants, unnest(ARRAY['payer', 'paid', 'fees']) AS account",
    // `ANALYZE` without a name reads the tables of every other test, too.
    "DO $$ DECLARE own name;
     BEGIN FOR own IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
         EXECUTE format('ANALYZE %I', own);
     END LOOP; END $$",
];

/// Tables that lose all their rows: when the first import is taken back, or when the last one has ended.
const EMPTIED: [&str; 6] =
    ["settlement_pricing", "settlement_slices", "settlements", "deliveries", "import_rows", "clearings"];

const ALL: [Tables; 3] = [Tables::New, Tables::Full, Tables::Emptied];

/// What the tables hold when the planner is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// Nothing was ever there.
    New,
    Full,
    /// A vacuum has seen that no row is there any more, and left pages for the next ones.
    Emptied,
}

/// A database whose planner is asked.
struct Planner {
    session: PgConnection,
    /// What each index begins with.
    leading: HashMap<String, String>,
}

impl Planner {
    /// A session of the store, on such tables.
    async fn connect(tables: Tables) -> Planner {
        let url = scratch_url().await;
        store_at(&url, 1).migrate().await.unwrap();
        let mut session = session(&url).await;
        for table in EMPTIED.into_iter().filter(|_| tables == Tables::Emptied) {
            // No other vacuum comes between.
            let alone = AssertSqlSafe(format!("ALTER TABLE {table} SET (autovacuum_enabled = off)"));
            session.execute(alone).await.unwrap();
        }
        for sql in FILL.into_iter().filter(|_| tables != Tables::New) {
            session.execute(sql).await.unwrap();
        }
        for table in EMPTIED.into_iter().filter(|_| tables == Tables::Emptied) {
            session.execute(AssertSqlSafe(format!("DELETE FROM {table}"))).await.unwrap();
            session.execute(AssertSqlSafe(format!("VACUUM (TRUNCATE off) {table}"))).await.unwrap();
        }
        let leading = "SELECT c.relname::text, pg_get_indexdef(i.indexrelid, 1, true)
                       FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
                       WHERE c.relnamespace = current_schema()::regnamespace";
        let leading: Vec<(String, String)> = sqlx::query_as(leading).fetch_all(&mut session).await.unwrap();
        Planner { session, leading: leading.into_iter().collect() }
    }

    /// A statement's plan, the same for all arguments.
    async fn plan(&mut self, sql: &str) -> Value {
        self.session.execute(AssertSqlSafe(format!("PREPARE asked AS {sql}"))).await.unwrap();
        let arguments = (1..=20).take_while(|number| sql.contains(&format!("${number}"))).count();
        let nulls =
            if arguments == 0 { String::new() } else { format!("({})", vec!["NULL"; arguments].join(", ")) };
        let explain = AssertSqlSafe(format!("EXPLAIN (FORMAT JSON) EXECUTE asked{nulls}"));
        let plan: Value = sqlx::query_scalar(explain)
            .fetch_one(&mut self.session)
            .await
            .unwrap_or_else(|fault| panic!("{sql}: {fault}"));
        self.session.execute("DEALLOCATE asked").await.unwrap();
        plan[0]["Plan"].clone()
    }

    /// The nodes of a statement's plan that walk a whole growing table or index.
    async fn scans(&mut self, sql: &str) -> Vec<String> {
        let mut found = Vec::new();
        let plan = self.plan(sql).await;
        collect(&plan, &self.leading, false, &mut found);
        collect_repeated(&plan, &mut found);
        found
    }
}

/// The nodes of a plan that read a table; one that changes it does not.
fn reads_of<'a>(node: &'a Value, table: &str, found: &mut Vec<&'a Value>) {
    if node["Relation Name"] == table && node["Node Type"] != "ModifyTable" {
        found.push(node);
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        reads_of(child, table, found);
    }
}

/// By which indexes a plan reads a table; without one, what it does instead.
fn ways(plan: &Value, table: &str) -> BTreeSet<String> {
    let mut reads = Vec::new();
    reads_of(plan, table, &mut reads);
    reads.into_iter().map(|read| read["Index Name"].as_str().unwrap_or("none").to_owned()).collect()
}

/// Finds table scans, conditions that do not begin with the merchant or do not say how the index begins,
/// and unlimited reads of one merchant's whole history.
fn collect(node: &Value, leading: &HashMap<String, String>, limited: bool, found: &mut Vec<String>) {
    let text = |key: &str| node[key].as_str().unwrap_or("");
    let (kind, table) = (text("Node Type"), text("Relation Name"));
    let condition = format!("{} {}", text("Index Cond"), text("Recheck Cond"));
    let history = HISTORIES.contains(&table);
    let narrowed =
        NARROWING.iter().any(|column| condition.contains(column)) || PARTIAL.contains(&text("Index Name"));
    // A limit ends nothing while a filter finds nothing.
    let is_ended = limited && text("Filter").is_empty();
    let whole_history = history && !is_ended && !narrowed;
    let unled = history && !LEADING.iter().any(|column| condition.contains(column));
    // A Tid Scan reads one row at a known place.
    let is_placed = kind == "Tid Scan";
    // Without its beginning an index is read from end to end, whatever else the condition says.
    let is_unbegun =
        leading.get(text("Index Name")).is_some_and(|beginning| !condition.contains(beginning.as_str()));
    let is_broad = condition.trim().is_empty() || unled || whole_history || is_unbegun;
    let scans = kind == "Seq Scan" || kind.contains("Scan") && !is_placed && is_broad;
    if GROWING.contains(&table) && scans {
        found.push(format!("{kind} of {table} ({condition})"));
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect(child, leading, limited || kind == "Limit", found);
    }
}

/// Finds lists that are compared with one row after the other.
fn collect_repeated(node: &Value, found: &mut Vec<String>) {
    if node["Node Type"] == "Function Scan" && node["Parent Relationship"] == "Inner" {
        found.push(format!("a list that is read again for each row ({})", node["Alias"]));
    }
    for child in node["Plans"].as_array().into_iter().flatten() {
        collect_repeated(child, found);
    }
}

/// Indexes that hold a part of a merchant's history.
const PARTIAL: [&str; 2] = ["deliveries_due", "payments_open"];
/// Columns that narrow one merchant's history down.
const NARROWING: [&str; 9] = [
    "settlement_id",
    "delivery_id",
    "list_key",
    "from_key",
    "status",
    "payment_id",
    "payment_number",
    "operation_id",
    "payin_reference",
];

#[tokio::test]
async fn no_hot_statement_scans() {
    check(Planner::connect(Tables::Full).await).await;
}

/// PostgreSQL keeps that plan while the tables grow.
#[tokio::test]
async fn no_hot_statement_scans_when_it_is_planned_on_empty_tables() {
    check(Planner::connect(Tables::New).await).await;
}

/// PostgreSQL then expects none, until it counts again a minute or two after the next ones have come.
#[tokio::test]
async fn no_hot_statement_scans_where_all_rows_are_gone() {
    check(Planner::connect(Tables::Emptied).await).await;
}

/// It is asked every few seconds, and reads small tables; of merchants it reads those that are due first.
#[tokio::test]
async fn the_depth_of_the_queue_costs_the_same_with_any_number_of_merchants() {
    let statements = settle_store_postgres::statements();
    let depth = statements.iter().find(|statement| statement.name == "DEPTH").expect("it is declared");
    for tables in ALL {
        assert_eq!(Planner::connect(tables).await.scans(depth.sql).await, [""; 0]);
    }
}

/// Otherwise each statement of a clearing would walk over what those before it have ended.
#[tokio::test]
async fn a_clearing_goes_on_behind_what_it_has_ended() {
    let statements = settle_store_postgres::statements();
    let end = statements.iter().find(|statement| statement.name == "END_WAITING").expect("it is declared");
    for tables in ALL {
        let plan = Planner::connect(tables).await.plan(end.sql).await;
        let mut reads = Vec::new();
        reads_of(&plan, "deliveries", &mut reads);
        let [waiting, place] = reads[..] else { panic!("{tables:?}: {reads:#?}") };
        assert_eq!(place["Node Type"], "Tid Scan", "{place:#}");
        let condition = waiting["Index Cond"].as_str().unwrap_or("");
        assert!(condition.contains("ROW(next_attempt_at, delivery_id) >"), "{waiting:#}");
    }
}

async fn check(mut planner: Planner) {
    let statements = settle_store_postgres::statements();
    let hot: Vec<Statement> =
        statements.into_iter().filter(|statement| statement.heat == Heat::Hot).collect();
    assert!(hot.len() > 15, "the hot statements are declared: {}", hot.len());
    let mut found = Vec::new();
    for statement in hot {
        for scan in planner.scans(statement.sql).await {
            found.push(format!("{}: {scan}", statement.name));
        }
    }
    assert!(found.is_empty(), "hot statements that scan:\n{}", found.join("\n"));
}

/// The searches of operators by which payments are found among all that were ever made, and the one index
/// that each may read them by.
const SEARCHES: [(&str, &str); 4] = [
    ("OPEN", "payments_open"),
    ("BY_REFERENCE", "payments_payin"),
    ("REFUNDED", "payments_refunded"),
    ("FLAGGED", "payments_flagged"),
];

/// They are not hot, and yet an operator's request waits for them.
#[tokio::test]
async fn operators_find_few_payments_among_many_by_an_index_of_the_few() {
    for tables in ALL {
        let mut planner = Planner::connect(tables).await;
        for (name, index) in SEARCHES {
            let named: Vec<Statement> = settle_store_postgres::statements()
                .into_iter()
                .filter(|statement| statement.name == name)
                .collect();
            let [search] = named[..] else { panic!("{name}: {named:?}") };
            let found = ways(&planner.plan(search.sql).await, "payments");
            assert_eq!(found, BTreeSet::from([index.to_owned()]), "{name}: {tables:?}");
        }
    }
}

#[tokio::test]
async fn the_check_notices_a_scan() {
    let mut planner = Planner::connect(Tables::Full).await;
    for sql in [
        "SELECT * FROM deliveries WHERE status = 'pending'",
        "SELECT count(*) FROM settlements",
        "SELECT * FROM deliveries WHERE url = $1",
        "SELECT * FROM settlements ORDER BY merchant_id LIMIT 1",
        "SELECT count(*) FROM settlements WHERE merchant_id = $1",
        "SELECT count(*) FROM import_rows WHERE import_id = $1",
        "SELECT * FROM api_keys WHERE last_four = $1",
        "SELECT * FROM import_rows WHERE merchant_id = $1 AND settlement_id = $2",
        "SELECT * FROM payments WHERE merchant_id = $1 AND request = $2 LIMIT 1",
        "SELECT * FROM queue_shards
         WHERE (shard, token) IN (SELECT * FROM unnest($1::smallint[], $2::uuid[])) ORDER BY shard FOR SHARE",
    ] {
        assert!(!planner.scans(sql).await.is_empty(), "{sql}");
    }
}
