//! Payments that failed: for which reason, and which of them are retried together.

use serde_json::{Value, json};
use settle_testing::binary::Settle;
use settle_testing::serving::ask;

use super::Shop;

on_both_stores! {
    who_the_provider_does_not_know_is_named_and_gets_the_money_back,
    the_filters_of_the_list_choose_what_is_retried,
}

/// Before the conversion, and after it.
fn who_the_provider_does_not_know_is_named_and_gets_the_money_back(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let unquoted = shop.create("sandbox:unregistered", "wallet-7");
    let unpaid = shop.create("pix-2", "sandbox:unregistered");
    for payment in [&unquoted, &unpaid] {
        let failed = shop.wait_for(payment, "failed");
        assert_eq!(failed["reason"], "sender_not_registered", "{failed:#}");
        let told = shop.told(payment);
        assert!(told.contains("State     failed, because sender_not_registered"), "{told}");
    }
    assert_eq!(
        (shop.executed("conversion"), shop.executed("payout")),
        (1, 0),
        "one came as far as its payout"
    );
    assert_eq!(shop.show(&unquoted)["operations"], json!([]), "nothing is asked without a quote");

    shop.act(&unquoted, "refund", &[]).ok();
    shop.wait_for(&unquoted, "refunded");
    assert_eq!((shop.executed("refund"), shop.executed("payout")), (1, 0));
}

fn retry(shop: &Shop, body: &Value) -> Value {
    let path = "/operator/v1/payments/retry";
    ask(shop.operator, "POST", path, &shop.token, &body.to_string()).json()
}

fn number(answer: &Value, list: &str) -> usize {
    answer[list].as_array().unwrap_or_else(|| panic!("{answer}")).len()
}

fn the_filters_of_the_list_choose_what_is_retried(settle: &mut Settle) {
    let shop = Shop::open(settle);
    let failed: Vec<String> =
        (0..3).map(|number| shop.create(&format!("pix-{number}"), "sandbox:refuse")).collect();
    let short = shop.create("pix-short", "sandbox:short");
    let done = shop.create("pix-good", "wallet-7");
    for payment in &failed {
        shop.wait_for(payment, "failed");
    }
    shop.wait_for(&short, "needs_review");
    shop.wait_for(&done, "completed");

    for (filter, found) in [
        (json!({}), 3),
        (json!({ "state": "failed" }), 3),
        (json!({ "state": "failed", "reference": "pix-1" }), 1),
        (json!({ "state": "needs_review" }), 1),
        (json!({ "state": "completed" }), 0),
        (json!({ "state": "received" }), 0),
        (json!({ "blocked": "provider_unavailable" }), 0),
        (json!({ "flag": "returned" }), 0),
    ] {
        let mut asked = filter.clone();
        asked["dry_run"] = json!(true);
        let answer = retry(&shop, &asked);
        assert_eq!(
            (number(&answer, "payments"), &answer["more"]),
            (found, &json!(false)),
            "{filter}: {answer}"
        );
        assert_eq!(answer["next_after"], Value::Null, "{answer}");
    }
    // What is in flight, or not as asked, is the engine's to refuse.
    let answer = retry(&shop, &json!({ "state": "needs_review" }));
    let words = "evidence: is required for payments that need review";
    assert_eq!(answer["error"]["details"], json!([words]), "{answer}");
    let answer = retry(&shop, &json!({ "state": "needs_review", "evidence": "the bank says so" }));
    assert_eq!((number(&answer, "payments"), number(&answer, "refused")), (0, 1), "{answer}");

    // Page by page each is retried once.
    let first = retry(&shop, &json!({ "state": "failed", "limit": 2, "dry_run": true }));
    assert_eq!((number(&first, "payments"), &first["more"]), (2, &json!(true)), "{first}");
    let second = retry(&shop, &json!({ "limit": 2, "after": first["next_after"] }));
    assert_eq!((number(&second, "payments"), &second["more"]), (1, &json!(false)), "{second}");
    assert_eq!(second["next_after"], Value::Null, "{second}");
    let last = second["payments"][0]["payment_id"].as_str().expect("an id");
    let found = |answer: &Value| {
        let payments = answer["payments"].as_array().cloned().unwrap_or_default();
        payments.iter().any(|payment| payment["payment_id"] == last)
    };
    assert!(failed.iter().any(|payment| payment == last) && !found(&first), "{first} {second}");
    assert_eq!(shop.executed("payout"), 2, "the short one and the good one");
}
