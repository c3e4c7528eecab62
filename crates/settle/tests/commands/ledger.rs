//! `settle ledger balances | check | reconcile`.

use serde_json::json;
use settle_domain::ids::MerchantId;
use settle_domain::ledger::{Account, Postings};
use settle_testing::binary::{Settle, block_on};

use crate::sandbox::Running;

on_both_stores! {
    the_house_and_a_merchant_have_balances,
    books_that_agree_are_a_success_and_others_a_failure,
    reconciling_needs_a_provider,
    a_provider_that_does_not_answer_takes_nothing_from_another,
}

/// Posts what no step of a payment says.
fn post(settle: &Settle, merchant: &str) {
    let merchant: MerchantId = merchant.parse().unwrap();
    let (asset, amount) = ("BRL".parse().unwrap(), "12.50".parse().unwrap());
    let posted = Postings::none().and(asset, Account::Payer, Account::ClientFunds, amount).unwrap();
    let store = settle.store();
    block_on(async {
        let mut tx = store.begin().await.unwrap();
        let lock = tx.merchant_lock(&[merchant]).await.unwrap();
        tx.balance_post_many(&lock, &[(merchant, posted)]).await.unwrap();
        tx.commit().await.unwrap();
    });
}

fn the_house_and_a_merchant_have_balances(settle: &Settle) {
    let (one, other) = (settle.merchant(), settle.merchant());
    assert_eq!(settle.run(&["ledger", "balances", "--json"]).json(), json!([]));
    post(settle, &one);
    post(settle, &one);
    post(settle, &other);
    let balances = |payer: &str, funds: &str| {
        json!([
            { "account": "payer", "asset": "BRL", "amount": payer },
            { "account": "client_funds", "asset": "BRL", "amount": funds },
        ])
    };
    assert_eq!(settle.run(&["ledger", "balances", "--json"]).json(), balances("-37.50", "37.50"));
    let own = settle.run(&["ledger", "balances", "--merchant", &one, "--json"]);
    assert_eq!(own.json(), balances("-25.00", "25.00"));
    let table = settle.run(&["ledger", "balances"]);
    assert!(table.ok().contains("client_funds"), "{table:?}");
    let unknown = MerchantId::NIL.to_string();
    settle.run(&["ledger", "balances", "--merchant", &unknown]).failed();
}

fn books_that_agree_are_a_success_and_others_a_failure(settle: &Settle) {
    let (one, other) = (settle.merchant(), settle.merchant());
    let checked = settle.run(&["ledger", "check"]);
    assert!(checked.ok().contains("The books agree: 2 merchants, 0 payments"), "{checked:?}");
    post(settle, &one);
    let ran = settle.command(&["ledger", "check"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(1));
    let text = String::from_utf8(ran.stdout).unwrap();
    let payer = format!("merchant {one}: payer BRL: the books say -12.50, but the timelines say 0.00");
    assert!(text.contains(&payer) && text.contains("THE BOOKS DO NOT AGREE"), "{text}");
    let ran = settle.command(&["ledger", "check", "--json"]).output().unwrap();
    let printed: serde_json::Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!((&printed["agree"], &printed["found"]), (&json!(false), &json!(2)));
    assert_eq!(printed["disagreements"][0]["merchant_id"], json!(one));
    settle.run(&["ledger", "check", "--merchant", &other]).ok();
}

fn reconciling_needs_a_provider(settle: &Settle) {
    settle.run(&["migrate"]).ok();
    let refused = settle.run(&["ledger", "reconcile"]);
    assert!(refused.failed().contains("the settings have no provider"), "{refused:?}");
    let refused = settle.run(&["ledger", "reconcile", "nobody"]);
    assert!(refused.failed().contains("there is no provider nobody"), "{refused:?}");
}

/// The one that answers is asked, and its report printed, whichever comes first.
fn a_provider_that_does_not_answer_takes_nothing_from_another(settle: &mut Settle) {
    let sandbox = Running::start(settle, &["--secret", "hush"]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (name, address) in [("AWAY", free), ("SANDBOX", sandbox.address)] {
        settle.set(&format!("SETTLE_PROVIDERS__{name}__URL"), &format!("http://{address}"));
        settle.set(&format!("SETTLE_PROVIDERS__{name}__SECRET"), "hush");
    }
    settle.run(&["migrate"]).ok();
    let ran = settle.run(&["ledger", "reconcile"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("away does not give its list"), "{ran:?}");
    assert!(ran.stdout.contains("sandbox: 0 operations listed"), "{ran:?}");
    settle.run(&["ledger", "reconcile", "sandbox"]).ok();
}
