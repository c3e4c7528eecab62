//! The Settlement table of the specification, row by row.

use serde_json::{Value, json};

use crate::merchant::settlement;
use crate::service::Setup;

on_both_stores! {
    every_row_of_the_settlement_table,
    the_record_has_the_rows_of_the_table_and_no_other,
    fields_stand_in_the_order_of_the_table,
    nullable_keys_are_present_as_null,
    times_are_utc_with_offset_and_six_digits,
    amounts_have_the_scale_of_their_asset,
    fixed_side_is_incoming_or_outgoing,
    text_comes_back_as_it_went_in,
}

/// The type of a field, as a row of the table gives it.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Uuid,
    Text,
    DateTime,
    Decimal,
    FixedSide,
}

/// The rows: field, type, whether it can be null.
const ROWS: [(&str, Kind, bool); 15] = [
    ("settlement_id", Kind::Uuid, false),
    ("completed_at", Kind::DateTime, true),
    ("occurred_at", Kind::DateTime, false),
    ("payin_reference", Kind::Text, false),
    ("payout_reference", Kind::Text, true),
    ("destination_reference", Kind::Text, false),
    ("incoming_currency", Kind::Text, false),
    ("incoming_amount", Kind::Decimal, false),
    ("outgoing_currency", Kind::Text, false),
    ("outgoing_amount", Kind::Decimal, true),
    ("conversion_rate", Kind::Decimal, false),
    ("fixed_side", Kind::FixedSide, false),
    ("fee_percentage", Kind::Decimal, false),
    ("fee_percentage_amount", Kind::Decimal, true),
    ("fee_fixed", Kind::Decimal, false),
];

fn fits(kind: Kind, text: &str) -> bool {
    match kind {
        Kind::Uuid => uuid::Uuid::try_parse(text).is_ok_and(|id| id.to_string() == text),
        Kind::Text => !text.is_empty(),
        Kind::DateTime => is_date_time(text),
        Kind::Decimal => is_decimal(text),
        Kind::FixedSide => text == "incoming" || text == "outgoing",
    }
}

/// Whether the text has the form `2026-01-31T12:31:02.120000+00:00`, character by character.
fn is_date_time(text: &str) -> bool {
    let pattern = "dddd-dd-ddTdd:dd:dd.dddddd+00:00";
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(found, wanted)| match wanted {
            b'd' => found.is_ascii_digit(),
            _ => found == wanted,
        })
}

fn is_decimal(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(whole) && digits(fraction) && (whole == "0" || !whole.starts_with('0'))
}

/// Two settlements: one with every field, one with every nullable field null.
async fn listed(setup: Setup) -> (Value, Value) {
    let merchant = setup.merchant().await;
    let full = settlement(json!({}));
    let bare = settlement(json!({
        "completed_at": null,
        "occurred_at": "2026-01-30T00:00:00Z",
        "payout_reference": null,
        "outgoing_amount": null,
        "fee_percentage_amount": null,
    }));
    merchant.record([full, bare]).await;
    let page = merchant.get("/v1/settlements").await.ok();
    (page["settlements"][0].clone(), page["settlements"][1].clone())
}

async fn every_row_of_the_settlement_table(setup: Setup) {
    let (full, bare) = listed(setup).await;
    for (field, kind, nullable) in ROWS {
        let text = full[field].as_str().unwrap_or_else(|| panic!("{field} is {}", full[field]));
        assert!(fits(kind, text), "{field} is {text}, not {kind:?}");
        match bare[field].as_str() {
            None => assert!(nullable && bare[field].is_null(), "{field} is {}", bare[field]),
            Some(text) => assert!(!nullable && fits(kind, text), "{field} is {text}"),
        }
    }
}

/// "The record equals the settlement notification payload, without the `event` field."
async fn the_record_has_the_rows_of_the_table_and_no_other(setup: Setup) {
    let (full, bare) = listed(setup).await;
    for record in [&full, &bare] {
        let record = record.as_object().unwrap();
        assert_eq!(record.len(), ROWS.len());
        assert!(ROWS.iter().all(|(field, ..)| record.contains_key(*field)));
        assert!(!record.contains_key("event"));
    }
}

async fn fields_stand_in_the_order_of_the_table(setup: Setup) {
    let merchant = setup.merchant().await;
    merchant.record([settlement(json!({}))]).await;
    let text = merchant.get("/v1/settlements").await.text;
    let positions: Vec<usize> = ROWS
        .iter()
        .map(|(field, ..)| text.find(&format!("\"{field}\":")).expect("every field is there"))
        .collect();
    assert!(positions.is_sorted(), "{text}");
}

async fn nullable_keys_are_present_as_null(setup: Setup) {
    let (_, bare) = listed(setup).await;
    for (field, _, nullable) in ROWS {
        if nullable {
            assert_eq!(bare.get(field), Some(&Value::Null), "{field}");
        }
    }
}

async fn times_are_utc_with_offset_and_six_digits(setup: Setup) {
    let merchant = setup.merchant().await;
    let fields = json!({
        "completed_at": "2026-03-01T12:00:00.1234567-03:00",
        "occurred_at": "2026-03-01T15:00:00Z",
    });
    merchant.record([settlement(fields)]).await;
    let page = merchant.get("/v1/settlements").await.ok();
    let record = &page["settlements"][0];
    assert_eq!(record["completed_at"], "2026-03-01T15:00:00.123456+00:00");
    assert_eq!(record["occurred_at"], "2026-03-01T15:00:00.000000+00:00");
}

/// The row `outgoing_amount`: "only the decimals the destination asset can transfer (six for USDC)".
async fn amounts_have_the_scale_of_their_asset(setup: Setup) {
    let merchant = setup.merchant().await;
    let dollars = json!({
        "completed_at": "2026-01-31T12:00:02Z",
        "incoming_amount": "1000",
        "outgoing_amount": "181.1",
        "fee_percentage_amount": "2",
        "fee_fixed": "0.25",
        "conversion_rate": "5.4300",
        "fee_percentage": "1.50",
    });
    let yen = json!({
        "completed_at": "2026-01-31T12:00:01Z",
        "outgoing_currency": "JPY",
        "outgoing_amount": "10000",
        "conversion_rate": "0.0355",
        "fee_percentage_amount": null,
        "fee_fixed": "0",
    });
    merchant.record([settlement(dollars), settlement(yen)]).await;
    let page = merchant.get("/v1/settlements").await.ok();
    let (dollars, yen) = (&page["settlements"][0], &page["settlements"][1]);
    for (field, text) in [
        ("incoming_amount", "1000.00"),
        ("outgoing_amount", "181.100000"),
        ("fee_percentage_amount", "2.000000"),
        ("fee_fixed", "0.250000"),
        ("conversion_rate", "5.43"),
        ("fee_percentage", "1.5"),
    ] {
        assert_eq!(dollars[field], text, "{field}");
    }
    assert_eq!((&yen["outgoing_amount"], &yen["fee_fixed"]), (&json!("10000"), &json!("0")));
}

async fn fixed_side_is_incoming_or_outgoing(setup: Setup) {
    let merchant = setup.merchant().await;
    for side in ["incoming", "outgoing"] {
        merchant.record([settlement(json!({ "fixed_side": side, "payin_reference": side }))]).await;
    }
    let page = merchant.get("/v1/settlements").await.ok();
    for record in page["settlements"].as_array().unwrap() {
        assert_eq!(record["fixed_side"], record["payin_reference"]);
    }
}

async fn text_comes_back_as_it_went_in(setup: Setup) {
    let merchant = setup.merchant().await;
    let text = "pix “1” \"2\" \\ </script> é 🏦";
    let fields = json!({ "payin_reference": text, "destination_reference": text, "payout_reference": text });
    merchant.record([settlement(fields)]).await;
    let page = merchant.get("/v1/settlements").await.ok();
    for field in ["payin_reference", "destination_reference", "payout_reference"] {
        assert_eq!(page["settlements"][0][field], text);
    }
}
