//! A clearing remembers the last delivery that it has ended.

use settle_domain::ids::DeliveryId;
use settle_store::conformance::fixtures::{
    at, clear_endpoint_but, delivery, endpoint, enqueue, merchant, put_endpoint,
};
use settle_store::{ClearingStep, NewDelivery, Store};
use settle_store_postgres::PostgresStore;
use settle_store_postgres::testing::{scratch_url, session};
use uuid::Uuid;

/// Several statements end them; the next one, and the next step, begin behind the last row of the one before.
#[tokio::test]
async fn a_clearing_remembers_the_last_one_that_ended() {
    let url = scratch_url().await;
    let store = PostgresStore::new(&url, 4).unwrap();
    store.migrate().await.unwrap();
    let merchant = merchant(&store).await;
    put_endpoint(&store, merchant, &endpoint(b"s")).await;
    let mut waiting: Vec<NewDelivery> = (0..100).map(|number| delivery(merchant, at(number / 30))).collect();
    enqueue(&store, &waiting).await;
    waiting.sort_by_key(|new| (new.created_at, new.delivery_id));
    let step = clear_endpoint_but(&store, merchant, at(9), 95).await;
    assert_eq!(step, ClearingStep { ended: 95, left: 5 });
    let after: Uuid = sqlx::query_scalar("SELECT after_delivery_id FROM clearings")
        .fetch_one(&mut session(&url).await)
        .await
        .unwrap();
    assert_eq!(DeliveryId(after), waiting[94].delivery_id);
}
