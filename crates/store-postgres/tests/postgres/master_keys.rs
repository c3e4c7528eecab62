//! Which rows need which master key is asked before a node serves anybody: it may take its time.

use settle_domain::vault::MasterKeyId;
use settle_store::{MasterKeyReads, MasterKeyUse, SealedKind, Store};
use settle_store_postgres::testing::{scratch_url, session, store_at};
use sqlx::Executor;

/// In the place of the operators' tokens stand the limits of the session that reads them. Cut to four bytes,
/// they count as the ids of master keys.
const SHOW_LIMITS: &str = "
    ALTER TABLE operators RENAME TO people;
    CREATE VIEW operators AS
        SELECT NULL::timestamptz AS revoked_at, convert_to(rpad(current_setting(name), 4), 'UTF8') AS seal
        FROM unnest(ARRAY['statement_timeout', 'lock_timeout']) AS limits (name)";

#[tokio::test]
async fn many_merchants_do_not_keep_a_service_from_starting() {
    let url = scratch_url().await;
    let store = store_at(&url, 1);
    store.migrate().await.unwrap();
    session(&url).await.execute(SHOW_LIMITS).await.unwrap();
    let uses = store.master_key_uses().await.unwrap();
    let unlimited = MasterKeyUse { kind: SealedKind::OperatorToken, key: MasterKeyId(*b"0   "), rows: 2 };
    assert_eq!(uses, [unlimited]);
}
