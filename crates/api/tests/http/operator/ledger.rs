//! `/operator/v1/ledger`.

use serde_json::{Value, json};
use settle_domain::ids::{MerchantId, OperationId, ReportId};
use settle_domain::ledger::{Account, Postings};
use settle_domain::reconciliation::FindingKind;
use settle_domain::time::Timestamp;
use settle_store::{Finding, Report};
use uuid::Uuid;

use super::client::{OperatorClient, details};
use crate::service::Setup;

on_both_stores! {
    balances_are_of_the_house_or_of_a_merchant,
    a_merchant_that_is_wrong_is_named,
    reports_are_listed_with_their_findings,
}

const BALANCES: &str = "/operator/v1/ledger/balances";
const REPORTS: &str = "/operator/v1/ledger/reports";

async fn post(client: &OperatorClient, merchant: MerchantId, amount: &str) {
    let (asset, amount) = ("BRL".parse().unwrap(), amount.parse().unwrap());
    let posted = Postings::none().and(asset, Account::Payer, Account::ClientFunds, amount).unwrap();
    let mut tx = client.service.store.begin().await.unwrap();
    let lock = tx.merchant_lock(&[merchant]).await.unwrap();
    tx.balance_post_many(&lock, &[(merchant, posted)]).await.unwrap();
    tx.commit().await.unwrap();
}

async fn balances_are_of_the_house_or_of_a_merchant(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    assert_eq!(client.call("GET", BALANCES, None).await.ok(), json!({ "balances": [] }));
    let (one, other) = (client.service.merchant().await.id, client.service.merchant().await.id);
    post(&client, one, "2.00").await;
    post(&client, other, "3.00").await;
    let balances = |payer: &str, funds: &str| {
        json!({ "balances": [
            { "account": "payer", "asset": "BRL", "amount": payer },
            { "account": "client_funds", "asset": "BRL", "amount": funds },
        ] })
    };
    assert_eq!(client.call("GET", BALANCES, None).await.ok(), balances("-5.00", "5.00"));
    let own = client.call("GET", &format!("{BALANCES}?merchant_id={one}"), None).await.ok();
    assert_eq!(own, balances("-2.00", "2.00"));
}

async fn a_merchant_that_is_wrong_is_named(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let nobody = Uuid::from_u128(7);
    client.call("GET", &format!("{BALANCES}?merchant_id={nobody}"), None).await.refused(404, "not_found");
    let wrong = client.call("GET", &format!("{BALANCES}?merchant_id=x"), None).await;
    let problem = "merchant_id: not a uuid such as 0190d3c4-7c00-7000-8000-000000000000";
    assert_eq!(details(&wrong, 422, "admin_validation_failed"), [problem]);
}

async fn reports_are_listed_with_their_findings(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let at = |second: i64| Timestamp::from_micros(1_700_000_000_000_000 + second * 1_000_000);
    let mut ids = Vec::new();
    for number in 1..=3 {
        let report = Report {
            report_id: ReportId(Uuid::from_u128(number)),
            provider: "bank".parse().unwrap(),
            since: at(0),
            started_at: at(1),
            ended_at: None,
            listed: 0,
            findings: 0,
        };
        let finding = Finding {
            operation_id: OperationId(Uuid::from_u128(9)),
            kind: FindingKind::UnknownToUs,
            merchant_id: None,
            payment_id: None,
            found_at: at(2),
            ours: None,
            theirs: Some(r#"{"status":"succeeded"}"#.to_owned()),
        };
        let mut tx = client.service.store.begin().await.unwrap();
        tx.report_begin(&report).await.unwrap();
        tx.report_add(report.report_id, &[OperationId(Uuid::from_u128(9))], &[finding]).await.unwrap();
        tx.report_end(report.report_id, at(3)).await.unwrap();
        tx.commit().await.unwrap();
        ids.push(report.report_id.to_string());
    }
    let page = client.call("GET", &format!("{REPORTS}?limit=2"), None).await.ok();
    let listed: Vec<&Value> =
        page["reports"].as_array().unwrap().iter().map(|row| &row["report_id"]).collect();
    assert_eq!(listed, [&json!(ids[2]), &json!(ids[1])]);
    let newest = &page["reports"][0];
    assert_eq!((&newest["listed"], &newest["findings"]), (&json!(1), &json!(1)));
    let after = page["next_after"].as_str().unwrap();
    let page = client.call("GET", &format!("{REPORTS}?limit=2&after={after}"), None).await.ok();
    assert_eq!((&page["reports"][0]["report_id"], &page["next_after"]), (&json!(ids[0]), &Value::Null));
    let findings = client.call("GET", &format!("{REPORTS}/{}/findings", ids[0]), None).await.ok();
    assert_eq!(findings["findings"][0]["kind"], "unknown_to_us");
    assert_eq!(findings["findings"][0]["theirs"], json!({ "status": "succeeded" }));
    assert_eq!(findings["findings"][0]["ours"], Value::Null);
    let nobody = Uuid::from_u128(7);
    client.call("GET", &format!("{REPORTS}/{nobody}/findings"), None).await.refused(404, "not_found");
}
