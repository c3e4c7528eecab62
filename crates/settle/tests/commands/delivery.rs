//! `settle delivery list`.

use settle_domain::delivery::{Delivery, DeliveryEvent, DeliveryStatus, RetryPolicy};
use settle_domain::ids::MerchantId;
use settle_domain::time::Timestamp;
use settle_store::NewDelivery;
use settle_store::conformance::fixtures;

use crate::binary::{Settle, block_on};

mod list;

const URL: &str = "https://merchant.example/hook";
const OTHER_URL: &str = "https://other.example/hook";
const OLD: &str = "2020-01-01T00:00:00Z";
const YOUNG: &str = "2100-01-01T00:00:00Z";

/// Makes a delivery that stands where it is said to; gives its id.
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
