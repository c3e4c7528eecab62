//! A right that the database role lacks is nobody's fault but ours: payments wait where they are.

use std::pin::pin;

use settle_domain::payment::StateName;
use settle_store_postgres::testing::scratch_of_role;
use settle_testing::log::Log;

use crate::world::World;

#[tokio::test]
async fn a_payment_waits_where_it_is_until_a_missing_right_is_granted() {
    let world = World::new(scratch_of_role().await).await;
    let payment = world.paying(&[]).await;
    world.store.execute("REVOKE INSERT ON operations FROM CURRENT_USER").await;
    let log = Log::of(tracing::Level::WARN, "settle_engine");
    let mut life = pin!(world.go(payment));
    let tried_again = async {
        let mut tries = 0;
        while tries < 2 {
            tries += log.taken().len();
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        row = &mut life => panic!("it went on: {:?}", row.standing),
        () = tried_again => {}
    }
    let row = world.row(payment).await;
    assert_eq!((row.standing.state, row.standing.reason), (StateName::Received, None));
    assert_eq!(world.desk.sends(), 0, "nothing is sent that is not written");

    world.store.execute("GRANT INSERT ON operations TO CURRENT_USER").await;
    life.await;
    world.assert_completed_once(payment).await;
}
