//! Every reason for a refusal, what the answer says about it, and that nothing is half done.

use serde_json::{Value, json};
use settle_domain::ids::ImportId;
use settle_store::conformance::{fixtures, payments};

use crate::operator::client::{OperatorClient, completed, details, seen, send};
use crate::service::Setup;

on_both_stores! {
    what_cannot_be_read_is_a_400,
    another_type_is_a_415,
    bad_fields_are_named,
    an_amount_that_the_figures_do_not_allow_is_refused_with_the_largest,
    every_field_that_is_missing_is_named,
    many_problems_are_counted,
    an_empty_list_is_refused,
    an_unknown_merchant_is_named,
    other_content_is_a_conflict,
    other_content_than_an_import_has_staged_is_refused,
    a_payments_id_or_pay_in_is_a_conflict,
    two_contents_in_one_list_are_a_conflict,
    one_bad_settlement_keeps_all_others_out,
    refusals_are_translated_and_details_are_not,
}

const NOBODY: &str = "0190d3c4-7c00-7000-8000-00000000dead";

async fn what_cannot_be_read_is_a_400(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let good = completed(&merchant, json!({})).to_string();
    let twice = good.replacen('{', "{\"fee_fixed\":\"1\",", 1);
    let (comma, number) = (format!("[{good},]"), format!("[{good},7]"));
    let bodies: [&[u8]; 15] = [
        b"",
        b"x",
        b"1",
        b"null",
        b"\"text\"",
        b"{",
        b"[1]",
        b"[null]",
        b"[[]]",
        b"{\"a\":\"\xff\"}",
        b"\xef\xbb\xbf{}",
        &[good.as_bytes(), good.as_bytes()].concat(),
        comma.as_bytes(),
        number.as_bytes(),
        twice.as_bytes(),
    ];
    for body in bodies {
        let answer = client.post_text(body).await;
        assert_eq!(answer.status, 400, "{}: {}", String::from_utf8_lossy(body), answer.text);
        answer.refused(400, "invalid_body");
    }
    assert_eq!(seen(&merchant).await, (0, 0));
}

async fn another_type_is_a_415(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let one = completed(&merchant, json!({}));
    for body in [one.clone(), json!([one])] {
        for kind in ["text/plain", "application/x-ndjson", "multipart/form-data", ""] {
            let ask = client.authorized().header("content-type", kind).body(body.to_string());
            send(ask).await.refused(415, "invalid_body");
        }
    }
    assert_eq!(seen(&merchant).await, (0, 0));
}

async fn bad_fields_are_named(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let bad = completed(
        &merchant,
        json!({
            "settlement_id": "7",
            "incoming_amount": 1000,
            "outgoing_amount": "1.1234567",
            "fee_percentage": "100",
            "fixed_side": "",
            "fee_fxied": "0",
            "pricing": { "provider_rate": "5" },
        }),
    );
    let expected = [
        "fee_fxied: is not a field of a settlement",
        "settlement_id: ",
        "incoming_amount: must be a string",
        "outgoing_amount: does not fit USDC: at most 6 decimals",
        "fixed_side: is required",
        "fee_percentage: must be less than 100 percent",
        "pricing: missing field `spread_revenue`",
    ];
    let found = details(&client.post(&bad).await, 422, "admin_validation_failed");
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "{found} is not {expected}");
    }
    let good = completed(&merchant, json!({}));
    let found = details(&client.post(&json!([good, bad, good])).await, 422, "admin_validation_failed");
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(&format!("[1].{expected}")), "{found} is not {expected}");
    }
    assert_eq!(seen(&merchant).await, (0, 0));
}

/// 1,000 BRL at 5.43 less 1.5 percent and 0.25 are 181.149631 USDC, rounded down.
async fn an_amount_that_the_figures_do_not_allow_is_refused_with_the_largest(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let expected = "outgoing_amount: is more than 181.149631, the most that incoming_amount, \
                    conversion_rate and the fees allow";
    let pays = |amount: &str| completed(&merchant, json!({ "outgoing_amount": amount }));
    for amount in ["181.149632", "900"] {
        let found = details(&client.post(&pays(amount)).await, 422, "admin_validation_failed");
        assert_eq!(found, [expected]);
    }
    let list = json!([pays("181.149631"), pays("900"), pays("181.149632")]);
    let found = details(&client.post(&list).await, 422, "admin_validation_failed");
    assert_eq!(found, [format!("[1].{expected}"), format!("[2].{expected}")]);
    assert_eq!(seen(&merchant).await, (0, 0));
    client.post(&pays("181.149631")).await.ok();
}

async fn every_field_that_is_missing_is_named(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let required = [
        "merchant_id",
        "settlement_id",
        "occurred_at",
        "payin_reference",
        "destination_reference",
        "incoming_currency",
        "incoming_amount",
        "outgoing_currency",
        "conversion_rate",
        "fixed_side",
        "fee_percentage",
        "fee_fixed",
    ];
    let found = details(&client.post(&json!({})).await, 422, "admin_validation_failed");
    assert_eq!(found, required.map(|field| format!("{field}: is required")));
    let found = details(&client.post(&json!([{}])).await, 422, "admin_validation_failed");
    assert_eq!(found, required.map(|field| format!("[0].{field}: is required")));
}

async fn many_problems_are_counted(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let bad = |number: usize| -> Value {
        (0..number).map(|_| completed(&merchant, json!({ "fixed_side": "neither" }))).collect()
    };
    let found = details(&client.post(&bad(20)).await, 422, "admin_validation_failed");
    assert_eq!(found.len(), 20);
    assert!(found[19].starts_with("[19].fixed_side: "), "{found:#?}");
    let found = details(&client.post(&bad(1_000)).await, 422, "admin_validation_failed");
    assert_eq!((found.len(), found[20].as_str()), (21, "and 980 more"));
}

async fn an_empty_list_is_refused(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let found = details(&client.post(&json!([])).await, 422, "admin_validation_failed");
    assert_eq!(found, ["a list has 1 to 1000 settlements, not 0"]);
}

async fn an_unknown_merchant_is_named(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let good = completed(&merchant, json!({}));
    let bad = || completed(&merchant, json!({ "merchant_id": NOBODY }));
    let found = details(&client.post(&bad()).await, 422, "admin_validation_failed");
    assert_eq!(found, [format!("merchant_id: there is no merchant {NOBODY}")]);
    let other = NOBODY.replace("dead", "beef");
    let list = json!([good, bad(), completed(&merchant, json!({ "merchant_id": other })), bad()]);
    let found = details(&client.post(&list).await, 422, "admin_validation_failed");
    let expected = [
        format!("[1].merchant_id: there is no merchant {NOBODY}"),
        format!("[2].merchant_id: there is no merchant {other}"),
        format!("[3].merchant_id: there is no merchant {NOBODY}"),
    ];
    assert_eq!(found, expected);
    let many: Value = (0..25).map(|_| bad()).collect();
    let found = details(&client.post(&many).await, 422, "admin_validation_failed");
    assert_eq!((found.len(), found[20].as_str()), (21, "and 5 more"));
    assert_eq!(seen(&merchant).await, (0, 0));
}

async fn other_content_is_a_conflict(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let known = completed(&merchant, json!({}));
    client.post(&known).await.ok();
    let before = merchant.get("/v1/settlements").await.text;
    let mut other = known.clone();
    other["incoming_amount"] = json!("1000.01");
    let (id, merchant_id) = (known["settlement_id"].as_str().unwrap(), merchant.id);
    let text =
        format!("settlement_id: settlement {id} of merchant {merchant_id} is there with other content");
    assert_eq!(details(&client.post(&other).await, 409, "conflict"), [text.as_str()]);
    let list = json!([completed(&merchant, json!({})), known, other]);
    // Both elements have the id; the caller must know which one it means.
    let found = details(&client.post(&list).await, 409, "conflict");
    assert_eq!(found, [format!("[1].{text}"), format!("[2].{text}")]);
    assert_eq!(merchant.get("/v1/settlements").await.text, before, "nothing was changed or added");
    assert_eq!(seen(&merchant).await, (1, 1));
    // Ids are unique per merchant: another merchant may use the same.
    let stranger = client.service.merchant().await;
    other["merchant_id"] = json!(stranger.id.to_string());
    client.post(&other).await.ok();
}

/// For now while the import may still be discarded, for good once it is accepted.
async fn other_content_than_an_import_has_staged_is_refused(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let posted = completed(&merchant, json!({}));
    let id = posted["settlement_id"].as_str().unwrap().parse().unwrap();
    let staged = fixtures::settlement(merchant.id, id, fixtures::at(0));
    let (store, import) = (&client.service.store, ImportId(fixtures::unique_uuid()));
    let mut tx = store.begin().await.unwrap();
    assert!(tx.import_begin(import, false, fixtures::at(0)).await.unwrap());
    let lock = tx.merchant_lock(&[merchant.id]).await.unwrap();
    tx.import_stage(&lock, import, &[staged], fixtures::at(0)).await.unwrap();
    tx.commit().await.unwrap();
    client.post(&posted).await.refused(503, "internal_error");
    let mut tx = store.begin().await.unwrap();
    assert!(tx.import_accept(import, 1, fixtures::at(0)).await.unwrap());
    tx.commit().await.unwrap();
    client.post(&posted).await.refused(409, "conflict");
    assert_eq!(seen(&merchant).await, (0, 0));
}

/// What the engine settles, nobody records by hand.
async fn a_payments_id_or_pay_in_is_a_conflict(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let (merchant, stranger) = (client.notified_merchant().await, client.service.merchant().await);
    let payment = payments::payment_of(merchant.id, "pix 4711", fixtures::at(0));
    payments::create(&*client.service.store, std::slice::from_ref(&payment)).await;
    let with_id = completed(&merchant, json!({ "settlement_id": payment.payment_id.to_string() }));
    let with_payin = completed(&merchant, json!({ "payin_reference": "pix 4711" }));
    let free = completed(&merchant, json!({ "payin_reference": "pix 4712" }));
    let text = |one: &Value| {
        let id = one["settlement_id"].as_str().unwrap();
        format!(
            "settlement_id: settlement {id} of merchant {} has the id or the payin_reference of a payment, \
             which the engine settles",
            merchant.id
        )
    };
    for one in [&with_id, &with_payin] {
        assert_eq!(details(&client.post(one).await, 409, "conflict"), [text(one)]);
    }
    let found = details(&client.post(&json!([free, with_payin])).await, 409, "conflict");
    assert_eq!(found, [format!("[1].{}", text(&with_payin))]);
    assert_eq!(seen(&merchant).await, (0, 0));
    client.post(&free).await.ok();
    client.post(&completed(&stranger, json!({ "payin_reference": "pix 4711" }))).await.ok();
}

async fn two_contents_in_one_list_are_a_conflict(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let one = completed(&merchant, json!({}));
    let mut other = one.clone();
    other["payin_reference"] = json!("another");
    let found = details(&client.post(&json!([one, other])).await, 409, "conflict");
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(found[0].starts_with("[0].settlement_id: ") && found[1].starts_with("[1].settlement_id: "));
    assert_eq!(seen(&merchant).await, (0, 0));
}

async fn one_bad_settlement_keeps_all_others_out(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.notified_merchant().await;
    let known = completed(&merchant, json!({}));
    client.post(&known).await.ok();
    let mut conflicting = known.clone();
    conflicting["fee_fixed"] = json!("0.2");
    for (bad, status) in [
        (completed(&merchant, json!({ "fee_fixed": "-1" })), 422),
        (completed(&merchant, json!({ "merchant_id": NOBODY })), 422),
        (conflicting, 409),
        (json!([]), 400),
    ] {
        let mut list: Vec<Value> = (0..5).map(|_| completed(&merchant, json!({}))).collect();
        list.insert(3, bad);
        assert_eq!(client.post(&json!(list)).await.status, status);
        assert_eq!(seen(&merchant).await, (1, 1));
    }
}

async fn refusals_are_translated_and_details_are_not(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let said = [
        ("en", "The administrative request contains values that are not valid."),
        ("pt-BR", "A requisição administrativa contém valores inválidos."),
        ("es", "La solicitud administrativa contiene valores no válidos."),
        ("de", "Die administrative Anfrage enthält ungültige Werte."),
    ];
    for (language, message) in said {
        let ask = client.authorized().header("accept-language", language).json(&json!([]));
        let answer = send(ask).await;
        assert_eq!(answer.header("content-language"), Some(language));
        assert_eq!(answer.json()["error"]["message"], message);
        let found = details(&answer, 422, "admin_validation_failed");
        assert_eq!(found, ["a list has 1 to 1000 settlements, not 0"]);
    }
    let answer = send(client.ask("POST", "/operator/v1/settlements").header("accept-language", "de")).await;
    assert_eq!(answer.json()["error"]["message"], "Das Zugriffstoken fehlt.");
}
