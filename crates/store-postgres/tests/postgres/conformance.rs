//! PostgreSQL passes the suite that every backend must pass.

use settle_store_postgres::testing::scratch;

settle_store::conformance_suite!(scratch);
