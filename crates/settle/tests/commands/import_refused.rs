//! `settle settlement import`: bad input names the line and the field, and nothing is half imported.

use serde_json::{Value, json};
use settle_store::conformance::{fixtures, payments};
use settle_testing::binary::{Settle, block_on, text};

use crate::import::{array, line, lines, recorded};

on_both_stores! {
    every_bad_line_is_named_with_its_field,
    every_field_of_the_table_is_checked,
    an_amount_that_the_figures_do_not_allow_is_named_with_the_largest,
    a_line_that_is_no_object_is_named,
    a_key_that_stands_there_twice_is_named,
    a_conflict_names_the_line,
    a_conflict_in_a_later_batch_leaves_nothing,
    a_conflict_inside_the_file_names_the_line,
    a_payment_is_named_with_its_line,
    an_unknown_merchant_is_named_with_its_line,
    a_line_without_a_merchant_is_named,
    an_unknown_field_is_named,
    a_line_that_is_too_long_is_named,
    a_file_that_is_not_there_is_named,
    a_file_of_another_encoding_is_named,
    many_problems_are_listed_up_to_a_limit,
    what_is_wrong_in_an_array_is_named_with_its_element,
    an_array_that_is_broken_is_refused_whole,
}

/// Runs an import that must be refused, and checks that it recorded nothing.
#[track_caller]
fn refused(settle: &Settle, merchant: &str, contents: &str) -> String {
    let before = recorded(settle, merchant).0;
    let path = settle.write("import.jsonl", contents);
    let ran = settle.run(&["settlement", "import", text(&path), "--json"]);
    let reason = ran.failed().to_owned();
    assert_eq!(recorded(settle, merchant).0, before, "nothing is half imported");
    reason
}

fn every_bad_line_is_named_with_its_field(settle: &Settle) {
    let merchant = settle.merchant();
    let bad = |number: usize, field: &str, value: Value| {
        let mut fields = json!({});
        fields[field] = value;
        line(Some(&merchant), number, fields)
    };
    let contents = [
        lines(&merchant, 0..1),
        bad(1, "incoming_amount", json!("1e3")),
        "\n".to_owned(),
        bad(2, "fixed_side", json!("both")),
        lines(&merchant, 3..4),
    ];
    let reason = refused(settle, &merchant, &contents.concat());
    assert!(reason.contains("line 2: incoming_amount: "), "{reason}");
    assert!(reason.contains("line 4: fixed_side: "), "{reason}");
    assert!(reason.contains("nothing was imported"), "{reason}");
    assert_eq!(reason.matches("line ").count(), 2, "{reason}");
}

fn every_field_of_the_table_is_checked(settle: &Settle) {
    let merchant = settle.merchant();
    let cases = [
        ("settlement_id", json!("7")),
        ("completed_at", json!("yesterday")),
        ("occurred_at", json!("2026-01-31")),
        ("payin_reference", json!(7)),
        ("payout_reference", json!("a\nb")),
        ("destination_reference", Value::Null),
        ("incoming_currency", json!("")),
        ("incoming_amount", json!("1000.001")),
        ("outgoing_currency", json!("U S D")),
        ("outgoing_amount", json!("1.2345678")),
        ("conversion_rate", json!("0")),
        ("fixed_side", json!("neither")),
        ("fee_percentage", json!("100")),
        ("fee_percentage_amount", json!("-1")),
        ("fee_fixed", json!(0.25)),
        ("merchant_id", json!("nobody")),
        ("pricing", json!({ "provider_rate": "5.3" })),
    ];
    let bad = |(number, (field, value)): (usize, &(&str, Value))| {
        let mut fields = json!({});
        fields[*field] = value.clone();
        line(Some(&merchant), number, fields)
    };
    let contents: String = cases.iter().enumerate().map(bad).collect();
    let reason = refused(settle, &merchant, &contents);
    for (index, (field, _)) in cases.iter().enumerate() {
        let named = format!("line {}: {field}: ", index + 1);
        assert!(reason.contains(&named), "{named} is not in {reason}");
    }
}

fn an_amount_that_the_figures_do_not_allow_is_named_with_the_largest(settle: &Settle) {
    let merchant = settle.merchant();
    let bad = line(Some(&merchant), 1, json!({ "outgoing_amount": "181.149632" }));
    let contents = lines(&merchant, 0..1) + &bad;
    let reason = refused(settle, &merchant, &contents);
    assert!(reason.contains("line 2: outgoing_amount: is more than 181.149631, "), "{reason}");
    assert_eq!(reason.matches("line ").count(), 1, "{reason}");
    let many = lines(&merchant, 0..1_500) + &line(Some(&merchant), 1_500, json!({ "fee_fixed": "0.3" }));
    let reason = refused(settle, &merchant, &many);
    assert!(reason.contains("line 1501: outgoing_amount: is more than 181.099631, "), "{reason}");
}

fn a_line_that_is_no_object_is_named(settle: &Settle) {
    let merchant = settle.merchant();
    for bad in ["{\"settlement_id\":", "[]", "7", "null", "settlement"] {
        let contents = format!("{}{bad}\n", lines(&merchant, 0..2));
        let reason = refused(settle, &merchant, &contents);
        assert!(reason.contains("line 3: not a JSON object"), "{bad}: {reason}");
    }
}

fn a_conflict_names_the_line(settle: &Settle) {
    let merchant = settle.merchant();
    let path = settle.write("first.jsonl", &lines(&merchant, 0..1));
    settle.run(&["settlement", "import", text(&path)]).ok();
    let other = line(Some(&merchant), 0, json!({ "incoming_amount": "1000.01" }));
    let contents = lines(&merchant, 1..2) + &other + &lines(&merchant, 2..3);
    let reason = refused(settle, &merchant, &contents);
    assert!(reason.contains("line 2: settlement_id: 0190d3c4-7c00-7000-8000-000000000000"), "{reason}");
    assert!(reason.contains("nothing was imported"), "{reason}");
    assert_eq!(recorded(settle, &merchant).1[0]["incoming_amount"], "1000.00", "it is as it was");
}

fn a_conflict_in_a_later_batch_leaves_nothing(settle: &Settle) {
    let merchant = settle.merchant();
    let path = settle.write("first.jsonl", &lines(&merchant, 9_999..10_000));
    settle.run(&["settlement", "import", text(&path)]).ok();
    let other = line(Some(&merchant), 9_999, json!({ "fee_fixed": "0" }));
    let reason = refused(settle, &merchant, &(lines(&merchant, 0..1_500) + &other));
    assert!(reason.contains("line 1501: settlement_id: "), "{reason}");
}

fn a_conflict_inside_the_file_names_the_line(settle: &Settle) {
    let merchant = settle.merchant();
    let other = line(Some(&merchant), 0, json!({ "payin_reference": "another" }));
    let reason = refused(settle, &merchant, &(lines(&merchant, 0..2) + &other));
    assert!(reason.contains("line 3: settlement_id: "), "{reason}");
}

/// In one transaction and in steps.
fn a_payment_is_named_with_its_line(settle: &Settle) {
    let merchant = settle.merchant();
    let payment = payments::payment_of(merchant.parse().unwrap(), "payin-1", fixtures::at(0));
    block_on(async { payments::create(&*settle.store(), std::slice::from_ref(&payment)).await });
    for lines in [lines(&merchant, 0..3), lines(&merchant, 0..1_500)] {
        let reason = refused(settle, &merchant, &lines);
        assert!(reason.contains("line 2: settlement_id: "), "{reason}");
        assert!(reason.contains("payin_reference of a payment"), "{reason}");
    }
}

fn an_unknown_merchant_is_named_with_its_line(settle: &Settle) {
    let merchant = settle.merchant();
    let unknown = "0190d3c4-7c00-7000-8000-0000000000ab";
    let contents = lines(&merchant, 0..1) + &lines(unknown, 1..3);
    let reason = refused(settle, &merchant, &contents);
    assert!(reason.contains(&format!("line 2: merchant_id: there is no merchant {unknown}")), "{reason}");
}

fn a_line_without_a_merchant_is_named(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = lines(&merchant, 0..1) + &line(None, 1, json!({}));
    let reason = refused(settle, &merchant, &contents);
    assert!(reason.contains("line 2: merchant_id: is required"), "{reason}");
}

fn an_unknown_field_is_named(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = line(Some(&merchant), 0, json!({ "payout_refrence": "x" }));
    let reason = refused(settle, &merchant, &contents);
    assert!(reason.contains("line 1: payout_refrence: "), "{reason}");
}

fn a_line_that_is_too_long_is_named(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = lines(&merchant, 0..1) + &"x".repeat(70_000) + "\n";
    let reason = refused(settle, &merchant, &contents);
    assert!(reason.contains("line 2: "), "{reason}");
}

fn a_file_of_another_encoding_is_named(settle: &Settle) {
    let path = settle.write("wide.jsonl", "");
    let wide: Vec<u8> = "\u{feff}{}\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(&path, wide).unwrap();
    let ran = settle.run(&["settlement", "import", text(&path)]);
    assert!(ran.failed().contains("wide.jsonl: it is UTF-16: save it as UTF-8"), "{ran:?}");
}

fn a_file_that_is_not_there_is_named(settle: &Settle) {
    let ran = settle.run(&["settlement", "import", "nowhere.jsonl"]);
    assert!(ran.failed().contains("nowhere.jsonl"), "{ran:?}");
}

fn many_problems_are_listed_up_to_a_limit(settle: &Settle) {
    let merchant = settle.merchant();
    let reason = refused(settle, &merchant, &"{}\n".repeat(1_000));
    assert!(reason.lines().count() < 100, "{} lines", reason.lines().count());
    assert!(reason.contains("more problems"), "{reason}");
}

fn a_key_that_stands_there_twice_is_named(settle: &Settle) {
    let merchant = settle.merchant();
    let good = lines(&merchant, 0..1);
    let twice = good.trim_end().replacen('{', "{\"incoming_amount\":\"9.00\",", 1);
    let words = refused(settle, &merchant, &twice);
    assert!(words.contains("line 1: ") && words.contains("incoming_amount stands there twice"), "{words}");
}

fn what_is_wrong_in_an_array_is_named_with_its_element(settle: &Settle) {
    let merchant = settle.merchant();
    let unknown = "0190d3c4-7c00-7000-8000-0000000000ab";
    let bad = line(Some(&merchant), 1, json!({ "incoming_amount": "1e3" }));
    let reason = refused(settle, &merchant, &array(&(lines(&merchant, 0..1) + &bad + &bad)));
    assert!(reason.contains("element 2: incoming_amount: "), "{reason}");
    assert!(reason.contains("element 3: incoming_amount: "), "{reason}");
    let reason = refused(settle, &merchant, &array(&(lines(&merchant, 0..1) + &lines(unknown, 1..2))));
    assert!(reason.contains(&format!("element 2: merchant_id: there is no merchant {unknown}")), "{reason}");
    let other = line(Some(&merchant), 0, json!({ "payin_reference": "another" }));
    let reason = refused(settle, &merchant, &array(&(lines(&merchant, 0..2) + &other)));
    assert!(reason.contains("element 3: settlement_id: "), "{reason}");
}

fn an_array_that_is_broken_is_refused_whole(settle: &Settle) {
    let merchant = settle.merchant();
    let good = lines(&merchant, 0..1);
    let long = line(Some(&merchant), 1, json!({ "payin_reference": "x".repeat(70_000) }));
    for (contents, problem) in [
        (format!("[{good}"), "element 1: the array does not end"),
        (format!("[{good},7]"), "element 2: not a JSON object"),
        (format!("[{good},{{\"a\":]"), "element 2: the array does not end"),
        (format!("[{good},]"), "element 2: there is nothing between the commas"),
        (format!("[{good},{long}]"), "element 2: is longer than 65536 bytes"),
        (format!("[{good}]\n{good}"), "something follows the array"),
    ] {
        let reason = refused(settle, &merchant, &contents);
        assert!(reason.contains(problem), "{problem} is not in {reason}");
    }
}
