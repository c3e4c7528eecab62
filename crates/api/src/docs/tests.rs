//! Checks what the page must hold, and runs the receivers that it shows.

use minijinja::HtmlEscape;
use settle_domain::error_code::ErrorCode;
use settle_domain::money::Decimal;
use settle_domain::payment::StateName;
use settle_domain::quote::{FixedSide, QuoteInput, quote};
use settle_domain::reason::Reason;
use settle_domain::signature::sign;
use settle_domain::time::Timestamp;

use super::examples::{NOTIFICATION, answer};
use super::*;

mod receivers;
mod script;
mod structure;
mod style;

fn html() -> String {
    render::page().unwrap()
}

fn operator_html() -> String {
    let document = serde_json::from_str(crate::operator::text().unwrap()).unwrap();
    render::operator_page(&document).unwrap()
}

/// The pages of merchants and of operators.
fn pages() -> [String; 2] {
    [html(), operator_html()]
}

/// The values of an attribute.
fn values<'a>(html: &'a str, attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    html.split(start.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn every_operation_is_on_its_page() {
    let document = crate::openapi::document();
    assert_eq!(document.paths.paths.len(), 5);
    check_operations(&html(), &document);
    let document = serde_json::from_str(crate::operator::text().unwrap()).unwrap();
    check_operations(&operator_html(), &document);
}

fn check_operations(html: &str, document: &OpenApi) {
    for (path, item) in &document.paths.paths {
        assert!(html.contains(&format!("<code>{}</code>", HtmlEscape(path))), "{path}");
        for operation in [&item.get, &item.put, &item.post, &item.patch, &item.delete].into_iter().flatten() {
            let id = operation.operation_id.as_deref().unwrap();
            assert!(values(html, "id").contains(&id), "{id}");
        }
    }
}

#[test]
fn every_field_has_a_type_and_every_operation_a_sample_answer() {
    let html = html();
    assert!(html.contains("class=\"kind\">") && !html.contains("class=\"kind\"></td>"));
    assert!(!html.contains("language-json\"></code>"));
}

#[test]
fn every_code_is_listed_once_with_its_status() {
    let html = html();
    let rows = html.split("id=\"codes\"").nth(1).unwrap();
    assert_eq!(ErrorCode::ALL.len(), 47);
    for code in ErrorCode::ALL {
        let heads = rows.matches(&format!(" id=\"code-{code}\">")).count();
        assert_eq!(heads, 1, "{code}");
    }
    for row in [">404, 405<", ">400, 413, 415<", ">500, 503<"] {
        assert!(rows.contains(row), "{row}");
    }
}

#[test]
fn the_sample_answers_have_the_fields_of_their_schemas_in_their_order() {
    let document = crate::openapi::document();
    let schemas = &document.components.as_ref().unwrap().schemas;
    for (schema, sample) in schemas.keys().filter_map(|name| Some((name, answer(name)?))) {
        let inner = match schema.as_str() {
            "SettlementPage" => Some("Settlement"),
            "WebhookDeliveryPage" => Some("WebhookDelivery"),
            _ => None,
        };
        let mut expected = keys_of(&document, schema);
        if let Some(inner) = inner {
            expected.splice(1..1, keys_of(&document, inner));
        }
        assert_eq!(keys(sample), expected, "{schema}");
    }
    let mut expected = keys_of(&document, "Settlement");
    expected.insert(0, "event".to_owned());
    assert_eq!(keys(NOTIFICATION), expected);
}

fn keys_of(document: &OpenApi, schema: &str) -> Vec<String> {
    let found = &document.components.as_ref().unwrap().schemas[schema];
    let utoipa::openapi::RefOr::T(utoipa::openapi::Schema::Object(object)) = found else {
        panic!("{schema} is not an object")
    };
    object.properties.keys().cloned().collect()
}

/// The keys of a JSON text in the order they are written.
fn keys(text: &str) -> Vec<String> {
    let valid: Result<serde_json::Value, _> = serde_json::from_str(text);
    assert!(valid.is_ok(), "{text}");
    let key = |line: &str| Some(line.trim().strip_prefix('"')?.split_once("\": ")?.0.to_owned());
    text.lines().filter_map(key).collect()
}

#[test]
fn the_worked_examples_are_what_the_service_computes() {
    let html = html();
    let decimal = |text: &str| text.parse::<Decimal>().unwrap();
    for (fixed_side, amount) in [(FixedSide::Incoming, "1000.00"), (FixedSide::Outgoing, "100")] {
        let input = QuoteInput {
            fixed_side,
            amount: decimal(amount),
            incoming_decimals: 2,
            outgoing_decimals: 6,
            conversion_rate: decimal("5.43"),
            fee_percentage: decimal("1.5"),
            fee_fixed: decimal("0.25"),
        };
        let quote = quote(&input).unwrap();
        let shown = [quote.gross, quote.fee_percentage_amount, quote.fee_fixed, quote.outgoing_amount];
        for number in shown.map(|number| number.to_string()) {
            assert!(html.contains(&format!("{number}</td>")), "{number}");
        }
        assert!(html.contains(&format!("{} BRL", quote.incoming_amount)), "{}", quote.incoming_amount);
    }
}

#[test]
fn the_signature_to_check_against_is_what_the_service_signs() {
    let at = Timestamp::from_micros(1_767_225_600_000_000);
    let signature = sign(b"whsec", at, br#"{"event":"settlement.completed"}"#);
    assert!(html().contains(&signature));
}

/// Who is woken at night finds what each state and each reason means, and the picture of the states.
#[test]
fn operators_read_how_payments_are_settled() {
    let html = operator_html();
    assert!(values(&html, "src").contains(&"docs/settling.svg"), "the picture");
    for state in StateName::ALL {
        assert!(html.contains(&format!("<code>{state}</code>")), "{state}");
    }
    for reason in Reason::ALL {
        assert!(html.contains(&format!("<code>{reason}</code></th>")), "{reason}");
    }
    assert!(html.contains("Bearer $SETTLE_OPERATOR_TOKEN") && !html.contains("SETTLE_KEY"));
}

#[tokio::test]
async fn the_page_and_its_style_are_served_under_the_policy() {
    for (response, content_type) in [
        (page(HeaderMap::new()).await, "text/html; charset=utf-8"),
        (style(HeaderMap::new()).await, "text/css; charset=utf-8"),
    ] {
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], content_type);
        assert_eq!(response.headers()["content-security-policy"], POLICY.as_ref().unwrap());
        assert_eq!(response.headers()["referrer-policy"], "no-referrer");
    }
}
