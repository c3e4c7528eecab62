//! `settle delivery list | show | redeliver`.

use settle_domain::delivery::{Delivery, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::NewDelivery;
use settle_store::conformance::fixtures;
use settle_testing::binary::{Settle, block_on};

mod list;
mod redeliver;
mod redeliver_refused;
mod show;
mod terminal;

const URL: &str = "https://merchant.example/hook";
const OTHER_URL: &str = "https://other.example/hook";
const OLD: &str = "2020-01-01T00:00:00Z";
const YOUNG: &str = "2100-01-01T00:00:00Z";

/// Makes a delivery with this status; returns its id.
fn delivery(settle: &Settle, merchant: &str, status: DeliveryStatus, created_at: &str, url: &str) -> String {
    let merchant: MerchantId = merchant.parse().unwrap();
    let created_at: Timestamp = created_at.parse().unwrap();
    let new = NewDelivery { url: url.to_owned(), ..fixtures::delivery(merchant, created_at) };
    block_on(async {
        let store = settle.store();
        fixtures::enqueue(&*store, std::slice::from_ref(&new)).await;
        let after = stands(fixtures::listed(&new), status, created_at);
        fixtures::record_states(&*store, merchant, &[after]).await;
    });
    new.delivery_id.to_string()
}

fn stands(mut delivery: Delivery, status: DeliveryStatus, at: Timestamp) -> Delivery {
    let once = RetryPolicy { attempts_max: 1, ..RetryPolicy::default() };
    let event = match status {
        DeliveryStatus::Pending => return delivery,
        DeliveryStatus::Delivered => DeliveryEvent::Answered { response_status: 204 },
        DeliveryStatus::Dead => {
            DeliveryEvent::Failed { response_status: Some(503), error: "answered with status 503".to_owned() }
        }
    };
    delivery.apply(event, at, &once).unwrap();
    delivery
}

fn dead(settle: &Settle, merchant: &str) -> String {
    delivery(settle, merchant, DeliveryStatus::Dead, OLD, URL)
}

/// Gives a merchant an endpoint, so that its deliveries can be sent again.
fn put_endpoint(settle: &Settle, merchant: &str) {
    let merchant: MerchantId = merchant.parse().unwrap();
    let endpoint = fixtures::endpoint(b"sealed");
    block_on(async { fixtures::put_endpoint(&*settle.store(), merchant, &endpoint).await });
}

/// A merchant with an endpoint.
fn merchant(settle: &Settle) -> String {
    let merchant = settle.merchant();
    put_endpoint(settle, &merchant);
    merchant
}

/// The totals of the merchant's lists: pending, delivered, dead, all.
fn totals(settle: &Settle, merchant: &str) -> [u64; 4] {
    let merchant: MerchantId = merchant.parse().unwrap();
    let [pending, delivered, dead] = DeliveryStatus::ALL.map(Some);
    let total = |status| async move { fixtures::deliveries(&*settle.store(), merchant, status).await.total };
    [pending, delivered, dead, None].map(|status| block_on(total(status)))
}
