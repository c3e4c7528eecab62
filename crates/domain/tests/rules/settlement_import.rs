//! The form of an imported settlement, and how the parser refuses a bad one.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]
#![expect(clippy::needless_pass_by_value, reason = "so that a case reads `refused(json!(…))`")]

use serde_json::{Map, Value, json};
use settle_domain::error_code::ErrorCode;
use settle_domain::settlement::{CompletedSettlement, Origin, parse};

fn object(changes: Value) -> Map<String, Value> {
    let mut object = json!({
        "merchant_id": "0190d3c4-7c00-7000-8000-000000000001",
        "settlement_id": "0190d3c4-7c00-7000-8000-0000000000aa",
        "completed_at": "2026-01-31T09:31:00-03:00",
        "occurred_at": "2026-01-31T09:30:00-03:00",
        "payin_reference": "pix-1",
        "payout_reference": "tx-1",
        "destination_reference": "wallet-1",
        "incoming_currency": "BRL",
        "incoming_amount": "1000",
        "outgoing_currency": "USDC",
        "outgoing_amount": "181.149631",
        "conversion_rate": "5.430",
        "fixed_side": "incoming",
        "fee_percentage": "1.50",
        "fee_percentage_amount": "2.762431",
        "fee_fixed": "0.25",
    })
    .as_object()
    .unwrap()
    .clone();
    for (name, value) in changes.as_object().unwrap() {
        if value == "(absent)" {
            object.remove(name)
        } else {
            object.insert(name.clone(), value.clone())
        };
    }
    object
}

fn accepted(changes: Value) -> CompletedSettlement {
    parse(&object(changes)).unwrap()
}

fn refused(changes: Value) -> Vec<(String, ErrorCode)> {
    parse(&object(changes)).unwrap_err().into_iter().map(|problem| (problem.field, problem.code)).collect()
}

#[test]
fn amounts_take_the_scale_of_their_asset_and_rates_lose_trailing_zeros() {
    let record = accepted(json!({})).settlement.record().into_string();
    for expected in [
        r#""incoming_amount":"1000.00""#,
        r#""conversion_rate":"5.43""#,
        r#""fee_percentage":"1.5""#,
        r#""fee_fixed":"0.250000""#,
        r#""completed_at":"2026-01-31T12:31:00.000000+00:00""#,
    ] {
        assert!(record.contains(expected), "{expected} in {record}");
    }
}

#[test]
fn nullable_fields_may_be_null_or_absent() {
    for absent in [json!(null), json!("(absent)")] {
        let settlement = accepted(json!({
            "completed_at": absent, "payout_reference": absent, "outgoing_amount": absent, "fee_percentage_amount": absent,
        }))
        .settlement;
        assert_eq!(settlement.completed_at, None);
        assert_eq!(settlement.listed_at(), settlement.occurred_at);
        assert!(settlement.record().as_str().contains(r#""payout_reference":null"#));
    }
}

#[test]
fn every_required_field_is_named_when_it_is_missing() {
    for field in [
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
    ] {
        for absent in [json!("(absent)"), json!(null), json!("")] {
            assert_eq!(refused(json!({ field: absent })), [(field.to_owned(), ErrorCode::Required)]);
        }
        assert_eq!(refused(json!({ field: 7 })), [(field.to_owned(), ErrorCode::ValidationFailed)]);
    }
}

#[test]
fn bad_values_are_named() {
    for (field, value) in [
        ("settlement_id", json!("12")),
        ("completed_at", json!("yesterday")),
        ("payin_reference", json!("a\nb")),
        ("payin_reference", json!("x".repeat(513))),
        ("incoming_currency", json!("BRL $")),
        ("incoming_amount", json!("1000.001")),
        ("incoming_amount", json!("-1")),
        ("incoming_amount", json!("0")),
        ("incoming_amount", json!("1e3")),
        ("outgoing_amount", json!("181.1496315")),
        ("conversion_rate", json!("0")),
        ("fixed_side", json!("both")),
        ("fee_percentage", json!("100")),
        ("pricing", json!({ "provider_rate": "5" })),
        ("pricing", json!("5")),
        ("payout_refrence", json!("typo")),
        ("outgoing_amount", json!("181.149632")),
        ("outgoing_amount", json!("900")),
        ("unchecked", json!("true")),
        ("unchecked", json!(1)),
    ] {
        let problems = refused(json!({ field: value }));
        assert_eq!(problems, [(field.to_owned(), ErrorCode::ValidationFailed)], "{field} {value}");
    }
}

#[test]
fn all_problems_are_found_at_once() {
    let problems = refused(json!({ "settlement_id": "x", "incoming_amount": "x", "fee_fixed": "(absent)" }));
    let fields: Vec<&str> = problems.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["settlement_id", "incoming_amount", "fee_fixed"]);
}

#[test]
fn internal_pricing_is_read_and_stays_out_of_the_record() {
    let pricing = json!({ "provider_rate": "5.3", "spread_revenue": "4.5", "partner_commission": "0.1" });
    let completed = accepted(json!({ "pricing": pricing }));
    assert_eq!(completed.pricing.unwrap().provider_rate, "5.3".parse().unwrap());
    assert!(!completed.settlement.record().as_str().contains("5.3"));
}

#[test]
fn an_asset_we_do_not_know_keeps_the_scale_it_came_with() {
    let record =
        accepted(json!({ "outgoing_currency": "XPTO", "outgoing_amount": "1.230", "fee_fixed": "0.1" }));
    let record = record.settlement.record().into_string();
    assert!(record.contains(r#""outgoing_amount":"1.230""#) && record.contains(r#""fee_fixed":"0.1""#));
}

#[test]
fn an_amount_that_the_figures_do_not_allow_is_refused_with_the_largest() {
    for changes in [
        json!({ "outgoing_amount": "181.149632" }),
        json!({ "outgoing_amount": "900" }),
        json!({ "outgoing_amount": "900", "unchecked": false }),
        json!({ "outgoing_amount": "900", "unchecked": null }),
    ] {
        let problems = parse(&object(changes.clone())).unwrap_err();
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let expected = "outgoing_amount: is more than 181.149631, the most that incoming_amount, \
                        conversion_rate and the fees allow";
        assert_eq!(texts, [expected], "{changes}");
    }
    assert_eq!(refused(json!({ "fee_fixed": "0.250001" }))[0].0, "outgoing_amount");
    let both = refused(json!({ "outgoing_amount": "900", "payout_refrence": "typo" }));
    let fields: Vec<&str> = both.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(fields, ["payout_refrence", "outgoing_amount"], "with every other problem");
}

#[test]
fn unchecked_lets_an_amount_pass_and_is_remembered_where_it_mattered() {
    let unchecked = |outgoing| accepted(json!({ "outgoing_amount": outgoing, "unchecked": true }));
    assert_eq!(unchecked("900").origin, Origin::Unchecked);
    assert_eq!(unchecked("181.149631").origin, Origin::Hand);
    assert_eq!(accepted(json!({})).origin, Origin::Hand);
    assert!(!unchecked("900").settlement.record().as_str().contains("unchecked"));
}
