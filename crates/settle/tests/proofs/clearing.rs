//! A merchant clears its endpoint while many deliveries wait, and sets another one at once. The service is
//! killed while it ends them: none is sent, all are dead in the end, and the new endpoint gets what is new.

use std::net::SocketAddr;

use settle_domain::ids::{MerchantId, SettlementId};
use settle_store::conformance::fixtures;
use settle_store::{BATCH_MAX, ENDED_AT_ONCE_MAX, NewDelivery, NewSettlement, Store};
use settle_testing::binary::{Settle, block_on};
use settle_testing::serving::{Serving, Signal, ask};

use crate::BINARY;
use crate::setup::{Setup, total};

/// Deliveries that wait: so many steps that a process can be killed between two of them.
const WAITING: u64 = 40 * ENDED_AT_ONCE_MAX as u64;

#[test]
fn sqlite() {
    clearing("sqlite", Settle::sqlite(BINARY));
}

#[test]
fn postgres() {
    clearing("postgres", Settle::postgres(BINARY));
}

fn clearing(store: &str, settle: Settle) {
    let setup = Setup::new(settle, 1);
    let key = &setup.keys[0];
    // Nobody sends yet.
    let (serving, api) = serve_without_dispatcher(&setup);
    setup.register(api);
    let merchant: MerchantId = setup.merchants[0].parse().expect("an id");
    block_on(async { wait_for_endpoint(&*setup.settle.store(), merchant).await });
    let cleared = ask(api, "PUT", "/v1/webhook", key, r#"{"webhook_url": null}"#);
    assert_eq!(cleared.status, 200, "{cleared:?}");
    let at_once = u64::from(ENDED_AT_ONCE_MAX);
    assert_eq!((total(api, "pending", key), total(api, "dead", key)), (WAITING - at_once, at_once));
    setup.register(api);
    serving.stop();

    let (mut serving, _) = setup.serve();
    serving.wait_for_once("the deliveries of a cleared endpoint end in steps");
    serving.signal(Signal::KILL);
    serving.stopped();
    let (serving, api) = serve_without_dispatcher(&setup);
    let left = total(api, "pending", key);
    assert!(left > 0 && left < WAITING - at_once, "killed between two steps: {left} are left");
    assert_eq!(total(api, "dead", key), WAITING - left);
    serving.stop();

    let (serving, api) = setup.serve();
    let load = setup.load(1);
    setup.tally.wait("the new endpoint gets what is new", |tally| tally.arrivals > 0);
    load.stop();
    setup.tally.wait("everything has arrived", crate::tally::Tally::is_complete);
    setup.tally.retry("all that waited have ended", || (total(api, "pending", key) == 0).then_some(()));
    assert_eq!(total(api, "dead", key), WAITING);
    let tally = setup.tally.read();
    assert_eq!(tally.faults, Vec::<String>::new(), "nothing that waited was sent");
    assert_eq!(total(api, "delivered", key), tally.acknowledged);
    println!("clearing, {store}: {WAITING} waiting, killed with {left} left, {} new", tally.acknowledged);
    drop(tally);
    serving.stop();
}

fn serve_without_dispatcher(setup: &Setup) -> (Serving, SocketAddr) {
    let mut serving = Serving::start(&setup.settle, &["--role", "api,operator"]);
    let api = serving.listens("the merchant API listens");
    (serving, api)
}

/// Settlements whose notifications wait: to be sent at once if somebody were there.
async fn wait_for_endpoint(store: &dyn Store, merchant: MerchantId) {
    let numbers: Vec<u64> = (0..WAITING).collect();
    for numbers in numbers.chunks(BATCH_MAX) {
        let id = |_| SettlementId(fixtures::unique_uuid());
        let settlement = |id| fixtures::settlement(merchant, id, fixtures::at(0));
        let settlements: Vec<NewSettlement> = numbers.iter().map(id).map(settlement).collect();
        fixtures::record(store, &settlements).await;
        let delivery = |new: &NewSettlement| NewDelivery {
            settlement_id: new.settlement_id,
            ..fixtures::delivery(merchant, fixtures::at(0))
        };
        fixtures::enqueue(store, &settlements.iter().map(delivery).collect::<Vec<_>>()).await;
    }
}
