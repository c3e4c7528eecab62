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
    let fault = read::<Absence>(b"{\"operation_id\":\"0190d3c4-7c00-8000-8000-000000000001\"}");
    assert_eq!(fault.expect_err("a fault").to_string(), "`instance` is missing");
}

/// The path of a field that we do not know is the other side's text.
#[test]
fn a_fault_keeps_the_start_of_a_long_path() {
    let body = format!(r#"{{"{}":tru}}"#, "x".repeat(4_000));
    assert_eq!(field_at_fault(&body), "x".repeat(PROBLEM_CHARACTERS_MAX));
}

#[test]
fn a_fault_commands_no_terminal_and_breaks_no_line() {
    let hostile = "\u{1b}]0;owned\u{7}\n\u{9b}2J";
    for body in [with("status", hostile.into()), with("kind", hostile.into())] {
        let fault = read::<Operation>(body.as_bytes()).expect_err("a fault").to_string();
        assert!(fault.contains("owned") && !fault.chars().any(char::is_control), "{fault:?}");
    }
}

#[test]
fn what_cannot_be_read_of_a_page_leaves_the_rest() {
    let id = |unread: &UnreadableOperation| unread.operation_id.map(|id| id.as_u128() & 0xff);
    let wrong = [
        (with("reason", serde_json::json!("first\nsecond")), "operations[0].reason", Some(1)),
        (with("status", serde_json::json!("weighed")), "operations[0].status", Some(1)),
        (OPERATION.replace("wallet", "\\ud800"), "operations[0].destination_reference", Some(1)),
        (without("amount"), "operations[0].amount", Some(1)),
        (without("operation_id"), "operations[0].operation_id", None),
        ("7".to_owned(), "operations[0]", None),
    ];
    for (row, field, operation_id) in wrong {
        let body = format!(r#"{{"operations":[{row},{OPERATION}],"next":"2"}}"#);
        let page: OperationPage = read(body.as_bytes()).expect(field);
        assert_eq!((page.operations.len(), page.next.as_deref()), (1, Some("2")), "{field}");
        assert_eq!((page.unreadable[0].fault.field.as_str(), id(&page.unreadable[0])), (field, operation_id));
        assert_eq!(page.unreadable[0].told, row);
    }
    let long = format!(r#"{{"operations":["{}"]}}"#, "x".repeat(5_000));
    let page: OperationPage = read(long.as_bytes()).expect("a page");
    assert_eq!(page.unreadable[0].told.len(), 2_000);
}

#[test]
fn a_page_without_operations_or_with_a_wrong_next_is_none() {
    let next = format!(r#"{{"operations":[{OPERATION}],"next":7}}"#);
    for (body, field) in [(next.as_str(), "next"), (r#"{"next":null}"#, "operations")] {
        assert_eq!(read::<OperationPage>(body.as_bytes()).expect_err(body).field, field);
    }
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
