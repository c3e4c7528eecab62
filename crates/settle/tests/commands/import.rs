//! `settle settlement import`: what it records.

use serde_json::{Value, json};
use settle_domain::delivery::DeliveryStatus;
use settle_domain::ids::MerchantId;
use settle_domain::page::PageRequest;
use settle_store::conformance::fixtures;
use settle_testing::binary::{Settle, block_on, text};

on_both_stores! {
    settlements_are_recorded,
    the_example_file_can_be_imported,
    the_same_again_changes_nothing,
    a_dry_run_changes_nothing,
    a_mark_before_the_first_line_is_fine,
    an_array_is_recorded_as_lines_are,
    standard_input_is_read,
    what_can_be_read_once_is_read,
    merchant_is_for_lines_that_name_none,
    blank_lines_and_a_missing_last_newline_are_fine,
    a_repetition_inside_the_file_counts_once,
    notify_enqueues_for_merchants_with_a_webhook,
    without_notify_nothing_is_enqueued,
    pricing_is_taken_and_not_shown,
    what_is_unchecked_is_recorded_and_remembered,
    more_than_one_batch_is_recorded,
}

/// One line of an import file.
pub fn line(merchant: Option<&str>, number: usize, fields: Value) -> String {
    let mut settlement = json!({
        "settlement_id": format!("0190d3c4-7c00-7000-8000-{number:012x}"),
        "completed_at": "2026-01-31T12:31:02.120000+00:00",
        "occurred_at": "2026-01-31T12:30:55.000000+00:00",
        "payin_reference": format!("payin-{number}"),
        "payout_reference": null,
        "destination_reference": "wallet-main",
        "incoming_currency": "BRL",
        "incoming_amount": "1000.00",
        "outgoing_currency": "USDC",
        "outgoing_amount": "181.149631",
        "conversion_rate": "5.43",
        "fixed_side": "incoming",
        "fee_percentage": "1.5",
        "fee_percentage_amount": "2.762431",
        "fee_fixed": "0.250000",
    });
    let object = settlement.as_object_mut().unwrap();
    object.extend(merchant.map(|merchant| ("merchant_id".to_owned(), json!(merchant))));
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    object.extend(fields);
    format!("{settlement}\n")
}

/// Lines of one merchant, numbered.
pub fn lines(merchant: &str, numbers: std::ops::Range<usize>) -> String {
    numbers.map(|number| line(Some(merchant), number, json!({}))).collect()
}

/// The settlements of a merchant: how many, and the newest ones.
pub fn recorded(settle: &Settle, merchant: &str) -> (u64, Vec<Value>) {
    let merchant: MerchantId = merchant.parse().unwrap();
    let page = PageRequest::new(200, 0).unwrap();
    let page = block_on(async { settle.store().settlement_page(merchant, page).await.unwrap() });
    (page.total, serde_json::from_str(&format!("[{}]", page.records)).unwrap())
}

fn import(settle: &Settle, contents: &str, options: &[&str]) -> Value {
    let path = settle.write("import.jsonl", contents);
    let arguments: Vec<&str> =
        ["settlement", "import", text(&path), "--json"].iter().chain(options).copied().collect();
    settle.run(&arguments).json()
}

fn settlements_are_recorded(settle: &Settle) {
    let (first, second) = (settle.merchant(), settle.merchant());
    let contents = lines(&first, 0..2) + &lines(&second, 2..3);
    let done = import(settle, &contents, &[]);
    assert_eq!(done, json!({ "recorded": 3, "unchanged": 0, "notified": 0 }));
    assert_eq!((recorded(settle, &first).0, recorded(settle, &second).0), (2, 1));
    let path = settle.write("again.jsonl", &contents);
    let ran = settle.run(&["settlement", "import", text(&path)]);
    assert_eq!(ran.ok(), "0 settlements recorded, 3 were there already.\n");
}

fn the_example_file_can_be_imported(settle: &Settle) {
    let merchant = settle.merchant();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/settlements.jsonl");
    settle.run(&["settlement", "import", example, "--merchant", &merchant]).ok();
    assert_eq!(recorded(settle, &merchant).0, 3);
}

fn the_same_again_changes_nothing(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = lines(&merchant, 0..3);
    import(settle, &contents, &[]);
    let done = import(settle, &contents, &[]);
    assert_eq!(done, json!({ "recorded": 0, "unchanged": 3, "notified": 0 }));
    assert_eq!(recorded(settle, &merchant).0, 3);
}

fn a_dry_run_changes_nothing(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = lines(&merchant, 0..3);
    let done = import(settle, &contents, &["--dry-run"]);
    assert_eq!(done, json!({ "recorded": 3, "unchanged": 0, "notified": 0 }));
    assert_eq!(recorded(settle, &merchant).0, 0);
    let text = settle.run_with(&["settlement", "import", "-", "--dry-run"], &contents);
    let told =
        "3 settlements would be recorded, 0 were there already. Nothing was changed: this was a dry run.\n";
    assert_eq!(text.ok(), told);
}

/// Spreadsheets write a byte order mark.
fn a_mark_before_the_first_line_is_fine(settle: &Settle) {
    let merchant = settle.merchant();
    assert_eq!(import(settle, &format!("\u{feff}{}", lines(&merchant, 0..2)), &[])["recorded"], 2);
}

/// A JSON array of these lines, written as a person would.
pub fn array(lines: &str) -> String {
    let objects: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    serde_json::to_string_pretty(&objects).unwrap()
}

fn an_array_is_recorded_as_lines_are(settle: &Settle) {
    let (first, second) = (settle.merchant(), settle.merchant());
    let contents = lines(&first, 0..1_200) + &line(None, 1_200, json!({ "payin_reference": "a, b] \"c\"" }));
    let done = import(settle, &array(&contents), &["--merchant", &second]);
    assert_eq!(done, json!({ "recorded": 1_201, "unchanged": 0, "notified": 0 }));
    assert_eq!(recorded(settle, &first).0, 1_200);
    assert_eq!(recorded(settle, &second).1[0]["payin_reference"], "a, b] \"c\"");
    assert_eq!(import(settle, &contents, &["--merchant", &second])["unchanged"], 1_201, "the same as lines");
    for (empty, unchanged) in [("[]", 0), ("\u{feff} \n[ ]\n", 0), (array(&lines(&first, 0..1)).as_str(), 1)]
    {
        let done = import(settle, empty, &[]);
        assert_eq!(done, json!({ "recorded": 0, "unchanged": unchanged, "notified": 0 }), "{empty}");
    }
    let piped = settle.run_with(&["settlement", "import", "-", "--json"], &array(&lines(&first, 0..2)));
    assert_eq!(piped.json()["unchanged"], 2);
}

fn standard_input_is_read(settle: &Settle) {
    let merchant = settle.merchant();
    let ran = settle.run_with(&["settlement", "import", "-", "--json"], &lines(&merchant, 0..2));
    assert_eq!(ran.json()["recorded"], 2);
    assert_eq!(recorded(settle, &merchant).0, 2);
}

fn what_can_be_read_once_is_read(settle: &Settle) {
    let merchant = settle.merchant();
    let ran = settle.run_with(&["settlement", "import", "/dev/stdin", "--json"], &lines(&merchant, 0..3));
    assert_eq!(ran.json()["recorded"], 3);
}

fn merchant_is_for_lines_that_name_none(settle: &Settle) {
    let (named, given) = (settle.merchant(), settle.merchant());
    let contents = line(None, 0, json!({})) + &line(Some(&named), 1, json!({}));
    import(settle, &contents, &["--merchant", &given]);
    assert_eq!((recorded(settle, &given).0, recorded(settle, &named).0), (1, 1));
}

fn blank_lines_and_a_missing_last_newline_are_fine(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = format!("\n  \n{}\r\n\n{}", lines(&merchant, 0..1).trim(), lines(&merchant, 1..2).trim());
    assert_eq!(import(settle, &contents, &[])["recorded"], 2);
    assert_eq!(import(settle, "", &[])["recorded"], 0, "an empty file is fine too");
}

fn a_repetition_inside_the_file_counts_once(settle: &Settle) {
    let merchant = settle.merchant();
    let contents = lines(&merchant, 0..1).repeat(3);
    let done = import(settle, &contents, &[]);
    assert_eq!(done, json!({ "recorded": 1, "unchanged": 2, "notified": 0 }));
    let merchant = settle.merchant();
    with_webhook(settle, &merchant);
    let done = import(settle, &lines(&merchant, 1..2).repeat(3), &["--notify"]);
    assert_eq!(done, json!({ "recorded": 1, "unchanged": 2, "notified": 1 }));
    assert_eq!(pending(settle, &merchant).0, 1);
}

/// The number of a merchant's pending deliveries, and the newest one's URL.
fn pending(settle: &Settle, merchant: &str) -> (u64, Option<String>) {
    let merchant: MerchantId = merchant.parse().unwrap();
    let page = block_on(async {
        let store = settle.store();
        fixtures::deliveries(&*store, merchant, Some(DeliveryStatus::Pending)).await
    });
    (page.total, page.rows.first().map(|delivery| delivery.url.clone()))
}

fn with_webhook(settle: &Settle, merchant: &str) -> String {
    let endpoint = fixtures::endpoint(b"sealed");
    let id = merchant.parse().unwrap();
    block_on(async { fixtures::put_endpoint(&*settle.store(), id, &endpoint).await });
    endpoint.url
}

fn notify_enqueues_for_merchants_with_a_webhook(settle: &Settle) {
    let (with, without) = (settle.merchant(), settle.merchant());
    let url = with_webhook(settle, &with);
    import(settle, &lines(&with, 0..1), &[]);
    let contents = lines(&with, 0..3) + &lines(&without, 3..4);
    let done = import(settle, &contents, &["--notify"]);
    assert_eq!(done, json!({ "recorded": 3, "unchanged": 1, "notified": 2 }), "only what is new");
    assert_eq!(pending(settle, &with), (2, Some(url)));
    assert_eq!(pending(settle, &without), (0, None));
    assert_eq!(import(settle, &contents, &["--notify"])["notified"], 0, "never twice");
}

fn without_notify_nothing_is_enqueued(settle: &Settle) {
    let merchant = settle.merchant();
    with_webhook(settle, &merchant);
    assert_eq!(import(settle, &lines(&merchant, 0..1), &[])["notified"], 0);
    assert_eq!(pending(settle, &merchant), (0, None));
}

fn pricing_is_taken_and_not_shown(settle: &Settle) {
    let merchant = settle.merchant();
    let pricing = json!({
        "provider_rate": "5.3141592",
        "spread_revenue": "2718.281828",
        "partner_commission": "0.577215",
    });
    let contents = line(Some(&merchant), 0, json!({ "pricing": pricing }));
    import(settle, &contents, &[]);
    let (_, records) = recorded(settle, &merchant);
    assert!(!records[0].to_string().contains("3141592"), "{records:?}");
    assert_eq!(records[0].as_object().unwrap().len(), 15);
}

fn what_is_unchecked_is_recorded_and_remembered(settle: &Settle) {
    let merchant = settle.merchant();
    let pays = |number, fields| line(Some(&merchant), number, fields);
    let rounded = pays(1, json!({ "outgoing_amount": "181.149632" }));
    let own_word = pays(2, json!({ "outgoing_amount": "900", "unchecked": true }));
    let done = import(settle, &(lines(&merchant, 0..1) + &own_word), &[]);
    assert_eq!(done, json!({ "recorded": 2, "unchanged": 0, "notified": 0 }));
    let many = lines(&merchant, 10..1_500) + &rounded + &own_word;
    let done = import(settle, &many, &["--unchecked"]);
    assert_eq!(done, json!({ "recorded": 1_491, "unchanged": 1, "notified": 0 }));
    let owner: MerchantId = merchant.parse().unwrap();
    let remembered = block_on(async { settle.store().settlement_unchecked(owner, None, 10).await.unwrap() });
    let remembered: Vec<String> = remembered.iter().map(ToString::to_string).collect();
    assert_eq!(remembered, [1, 2].map(|number| format!("0190d3c4-7c00-7000-8000-{number:012x}")));
    assert!(recorded(settle, &merchant).1.iter().all(|record| record.get("unchecked").is_none()));
}

fn more_than_one_batch_is_recorded(settle: &Settle) {
    let merchant = settle.merchant();
    assert_eq!(import(settle, &lines(&merchant, 0..2_500), &[])["recorded"], 2_500);
    assert_eq!(recorded(settle, &merchant).0, 2_500);
}
