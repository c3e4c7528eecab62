//! `settle delivery show`: all that is known of one delivery.

use serde_json::{Value, json};
use settle_domain::delivery::DeliveryStatus;
use settle_testing::binary::Settle;

use super::{OTHER_URL, URL, dead, delivery, merchant};

/// Where the endpoint of a merchant of these tests is.
const ENDPOINT: &str = "https://merchant.example/é";

on_both_stores! {
    json_is_the_delivery_and_what_decides_its_future,
    the_text_says_how_it_stands_and_what_to_do,
    an_unknown_delivery_is_refused,
}

fn json_is_the_delivery_and_what_decides_its_future(settle: &Settle) {
    let merchant = merchant(settle);
    dead(settle, &merchant);
    let id = delivery(settle, &merchant, DeliveryStatus::Dead, "2026-01-02T10:00:00Z", OTHER_URL);
    let mut listed = settle.run(&["delivery", "list", "--url", OTHER_URL, "--json"]).json();
    let mut expected = listed["deliveries"][0].take();
    expected["attempts_max"] = json!(8);
    expected["endpoint_url"] = json!(ENDPOINT);
    let shown = settle.run(&["delivery", "show", &id, "--json"]).json();
    assert_eq!(shown, expected);
    let other = settle.merchant();
    let id = dead(settle, &other);
    let shown = settle.run(&["delivery", "show", &id, "--json"]).json();
    assert_eq!((&shown["merchant_id"], &shown["endpoint_url"]), (&json!(other), &Value::Null));
}

fn the_text_says_how_it_stands_and_what_to_do(settle: &Settle) {
    let (with, without) = (merchant(settle), settle.merchant());
    let at = "2026-01-02T10:00:00Z";
    for (merchant, status, url, words) in [
        (
            &with,
            DeliveryStatus::Dead,
            ENDPOINT,
            [
                "Status         dead",
                "Attempts       1 of 8",
                "Last attempt   was due 2026-01-02T10:00:00Z",
                "Last response  503",
                "Last error     answered with status 503",
                "Endpoint now   the same",
                "What to do     settle delivery redeliver ID sends it again",
            ],
        ),
        (
            &with,
            DeliveryStatus::Pending,
            OTHER_URL,
            [
                "Status         pending",
                "Attempts       0 of 8",
                "Next attempt   2026-01-02T10:00:00Z",
                "Last response  none",
                "Last error     none",
                "Endpoint now   https://merchant.example/é, for deliveries enqueued since it was set",
                "settle delivery redeliver --pending ID tries it now",
            ],
        ),
        (
            &with,
            DeliveryStatus::Delivered,
            URL,
            [
                "Status         delivered",
                "Attempts       1 of 8",
                "Delivered      2026-01-02T10:00:00Z",
                "Last response  204",
                "Last error     none",
                "Sent to        https://merchant.example/hook",
                "What to do     nothing: it has arrived",
            ],
        ),
        (
            &without,
            DeliveryStatus::Dead,
            URL,
            [
                "Status         dead",
                "Enqueued       2026-01-02T10:00:00Z",
                "Sent to        https://merchant.example/hook",
                "Last response  503",
                "Last error     answered with status 503",
                "Endpoint now   none: the merchant has cleared it",
                "the merchant sets an endpoint",
            ],
        ),
    ] {
        let id = delivery(settle, merchant, status, at, url);
        let shown = settle.run(&["delivery", "show", &id]);
        let text = shown.ok().replace(&id, "ID");
        for word in words.iter().copied().chain(["Delivery       ID", &format!("Merchant       {merchant}")])
        {
            assert!(text.contains(word), "{word:?} is not in\n{text}");
        }
    }
}

fn an_unknown_delivery_is_refused(settle: &Settle) {
    settle.run(&["migrate"]).ok();
    let unknown = "0190d3c4-7c00-7000-8000-0000000000ab";
    let ran = settle.run(&["delivery", "show", unknown]);
    assert_eq!(ran.failed(), format!("settle: there is no delivery {unknown}\n"));
    assert_eq!(settle.run(&["delivery", "show", "last"]).code, Some(2));
}
