//! A revocation takes the seal out of the row: taking `revoked_at` out of it again makes nothing valid.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

use settle_domain::credential::{CredentialHash, CredentialSeal};
use settle_domain::ids::{KeyId, MerchantId, OperatorId};
use settle_domain::time::Timestamp;
use settle_store::{Key, KeyReads, Merchant, NewKey, NewOperator, Operator, OperatorReads, Store};
use settle_store_postgres::testing::{scratch_url, store_at};
use sqlx::{Connection, Executor, PgConnection};
use uuid::Uuid;

const HASH: CredentialHash = CredentialHash([7; 32]);

async fn revoked(store: &dyn Store) {
    let now = Timestamp::from_micros(1_767_225_600_000_000);
    let (id, seal) = (Uuid::from_u128(1), CredentialSeal(vec![8; 36]));
    let merchant = Merchant { merchant_id: MerchantId(id), name: "Acme".to_owned(), created_at: now };
    let key = Key {
        key_id: KeyId(id),
        merchant_id: merchant.merchant_id,
        label: None,
        last_four: "beef".to_owned(),
        created_at: now,
        revoked_at: None,
    };
    let operator =
        Operator { operator_id: OperatorId(id), name: "ada".to_owned(), created_at: now, revoked_at: None };
    let mut tx = store.begin().await.unwrap();
    tx.merchant_create(&merchant).await.unwrap();
    tx.key_create(&NewKey { key, hash: HASH, seal: seal.clone() }).await.unwrap();
    tx.operator_create(&NewOperator { operator, hash: HASH, seal }).await.unwrap();
    tx.key_revoke(KeyId(id), now).await.unwrap();
    tx.operator_revoke(OperatorId(id), now).await.unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn who_can_write_cannot_undo_a_revocation() {
    let url = scratch_url().await;
    let store = store_at(&url, 2);
    store.migrate().await.unwrap();
    revoked(&store).await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    for table in ["api_keys", "operators"] {
        let sql = format!("UPDATE {table} SET revoked_at = NULL");
        connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
    }
    assert_eq!(store.key_find(HASH).await.unwrap().unwrap().seal, None);
    assert_eq!(store.operator_find(HASH).await.unwrap().unwrap().seal, None);
}
