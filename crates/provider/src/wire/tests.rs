//! What a body must have, and which field a fault names.

use super::*;

const OPERATION: &str = r#"{"operation_id":"0190d3c4-7c00-8000-8000-000000000001","instance":"one",
    "kind":"payout","status":"succeeded","provider_reference":"p-1","asset":"USDC","amount":"181.149631",
    "bought_asset":null,"bought_amount":null,"destination_reference":"wallet","code":null,"reason":null,
    "tomorrow":{"more":[1]}}"#;

/// The operation with one field changed, as text.
fn with(field: &str, value: serde_json::Value) -> String {
    let mut body: serde_json::Value = serde_json::from_str(OPERATION).expect("JSON");
    body[field] = value;
    body.to_string()
}

/// The operation without a field.
fn without(field: &str) -> String {
    let mut body: serde_json::Value = serde_json::from_str(OPERATION).expect("JSON");
    body.as_object_mut().expect("an object").remove(field).expect("it was there");
    body.to_string()
}

fn field_at_fault(body: &str) -> String {
    read::<Operation>(body.as_bytes()).expect_err(body).field
}

#[test]
fn an_operation_is_read_with_its_amount_exact_and_unknown_fields_ignored() {
    let operation: Operation = read(OPERATION.as_bytes()).expect("an operation");
    assert_eq!(operation.amount.map(|amount| amount.to_string()).as_deref(), Some("181.149631"));
    assert_eq!((operation.kind, operation.status), (Some(OperationKind::Payout), OperationStatus::Succeeded));
}

#[test]
fn a_missing_or_wrong_field_is_named() {
    for field in ["operation_id", "instance", "kind", "status", "asset", "amount"] {
        assert_eq!(field_at_fault(&without(field)), field);
    }
    for (field, wrong) in [
        ("amount", serde_json::json!(181.149_631)),
        ("amount", serde_json::json!("1e3")),
        ("amount", serde_json::json!("-1")),
        ("status", serde_json::json!("done")),
        ("kind", serde_json::json!("gift")),
        ("operation_id", serde_json::json!("1")),
        ("asset", serde_json::json!("")),
        ("provider_reference", serde_json::json!("a\u{0}b")),
        ("reason", serde_json::json!("x".repeat(TEXT_BYTES_MAX + 1))),
    ] {
        assert_eq!(field_at_fault(&with(field, wrong)), field);
    }
    let page = format!(r#"{{"operations":[{OPERATION},{}],"next":null}}"#, without("amount"));
    assert_eq!(read::<OperationPage>(page.as_bytes()).expect_err("a fault").field, "operations[1].amount");
    let fault = read::<Absence>(b"{\"operation_id\":\"0190d3c4-7c00-8000-8000-000000000001\"}");
    assert_eq!(fault.expect_err("a fault").to_string(), "`instance` is missing");
}

#[test]
fn a_conversion_that_is_done_says_what_it_bought() {
    let conversion = with("kind", serde_json::json!("conversion"));
    assert_eq!(field_at_fault(&conversion), "bought_asset");
    let pending = conversion.replace("succeeded", "pending");
    assert!(read::<Operation>(pending.as_bytes()).is_ok());
}

#[test]
fn what_was_voided_before_it_came_has_neither_kind_nor_amount() {
    let voided =
        r#"{"operation_id":"0190d3c4-7c00-8000-8000-000000000001","instance":"one","status":"refused"}"#;
    assert!(read::<Operation>(voided.as_bytes()).is_ok());
    assert_eq!(field_at_fault(&voided.replace("refused", "pending")), "kind");
}

#[test]
fn what_is_no_json_or_more_than_one_value_is_a_fault() {
    for body in ["", "null", "[]", "{", "hello", &format!("{OPERATION}{OPERATION}")] {
        assert!(read::<Operation>(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn every_code_is_read_as_it_is_written_and_others_are_kept() {
    for code in ProblemCode::KNOWN {
        assert_eq!(code.as_str().parse(), Ok(code.clone()));
    }
    let problem: Problem = read(br#"{"code":"moon_phase"}"#).expect("a problem");
    assert_eq!(problem.code, ProblemCode::Other("moon_phase".to_owned()));
    assert!(!problem.code.is_refusal() && !ProblemCode::Conflict.is_refusal());
}
