//! Keys, voids, quotes, lists and signatures.

use std::time::Duration;

use http::HeaderMap;
use settle_provider::provider::Provider;
use settle_provider::seen::{AnswerFault, Seen};
use settle_provider::signing;
use settle_provider::wire::{OperationStatus, Problem, ProblemCode};

use crate::stage::{SECRET, Stage, client, id, secret};
use crate::{refusal, status};

#[tokio::test]
async fn the_same_operation_again_is_executed_once_and_answered_alike() {
    let stage = Stage::start().await;
    let first = stage.pay_out(1, "wallet").await;
    // Another notation of the same amount is the same request.
    assert_eq!(stage.pay(1, "wallet", "1.5").await, first);
    assert_eq!(stage.times(1).await, 1);
}

#[tokio::test]
async fn another_body_under_a_known_key_is_a_conflict() {
    let stage = Stage::start().await;
    let first = stage.pay_out(1, "wallet").await;
    for other in
        [stage.pay(1, "wallet", "1.6").await, stage.pay_out(1, "thief").await, stage.refund(1, "payin").await]
    {
        assert!(
            matches!(&other, Seen::Conflict(problem) if problem.operation_id == Some(id(1))),
            "{other:?}"
        );
    }
    assert_eq!(stage.look_up(1).await, first);
    assert_eq!((stage.executions().await.len(), stage.times(1).await), (1, 1));
}

#[tokio::test]
async fn a_void_holds_against_a_request_that_comes_later() {
    let stage = Stage::start().await;
    let Seen::Answered(voided) = stage.void(1).await else { panic!("an operation") };
    assert_eq!((voided.status, voided.kind), (OperationStatus::Refused, None));
    assert_eq!(
        refusal(&stage.pay_out(1, "wallet").await),
        ("payout_refused".to_owned(), "voided".to_owned())
    );
    assert_eq!(status(&stage.look_up(1).await), OperationStatus::Refused);
    assert_eq!(stage.executions().await, []);
    // What was begun stays as it stands.
    let paid = stage.pay_out(2, "wallet").await;
    assert_eq!(stage.void(2).await, paid);
    let (code, _) = stage.say(&signed(&stage, "POST", &format!("/operations/{}/void", id(3)), "")).await;
    assert_eq!(code, 200, "a body is not needed");
    let other = format!(r#"{{"operation_id":"{}"}}"#, id(5));
    let (code, _) = stage.say(&signed(&stage, "POST", &format!("/operations/{}/void", id(4)), &other)).await;
    assert_eq!(code, 400, "but it must not name another operation");
    assert!(matches!(stage.look_up(4).await, Seen::Absent(_)));
}

#[tokio::test]
async fn a_quote_holds_until_it_expires_and_for_its_own_conversion() {
    let stage = Stage::start().await;
    let Seen::Answered(quote) = stage.quote("payin").await else { panic!("a quote") };
    assert_eq!(quote.rate.map(|rate| rate.to_string()).as_deref(), Some("5.43"));
    let other = stage.convert_at(1, "another", quote.quote_id.clone()).await;
    assert_eq!(refusal(&other), ("conversion_refused".to_owned(), "quote_unknown".to_owned()));
    stage.clock.set(quote.expires_at);
    let late = stage.convert_at(2, "payin", quote.quote_id).await;
    assert_eq!(refusal(&late), ("conversion_refused".to_owned(), Problem::QUOTE_EXPIRED.to_owned()));
    assert_eq!(stage.executions().await, []);
}

#[tokio::test]
async fn a_rate_can_be_set() {
    let stage = Stage::start().await;
    assert_eq!(stage.ask("PUT", "/sandbox/rates/BRL/USDC", r#"{"rate":"5.5"}"#).await.0, 200);
    let Seen::Answered(quote) = stage.quote("payin").await else { panic!("a quote") };
    assert_eq!(quote.buy_amount.to_string(), "181.818181");
    for (path, body) in [
        ("/sandbox/rates/BRL/USDC", r#"{"rate":"0"}"#),
        ("/sandbox/rates/BRL/USDC", r#"{"rate":5.5}"#),
        ("/sandbox/rates/BRL/BRL", r#"{"rate":"1"}"#),
        ("/sandbox/rates/BRL/ABC", r#"{"rate":"1"}"#),
        ("/sandbox/gas", "{}"),
    ] {
        assert_eq!(stage.ask("PUT", path, body).await.0, 422, "{path} {body}");
    }
}

#[tokio::test]
async fn what_it_cannot_pay_is_refused() {
    let stage = Stage::start().await;
    let reason = |seen| refusal(&seen).1;
    assert_eq!(reason(stage.pay(1, "wallet", "0.0000001").await), "amount_invalid");
    assert_eq!(reason(stage.pay(2, "wallet", "0").await), "amount_invalid");
    assert_eq!(stage.executions().await, []);
}

#[tokio::test]
async fn the_list_has_every_change_once_and_as_it_stands() {
    let stage = Stage::start().await;
    stage.pay_out(1, "sandbox:pending:1h").await;
    stage.pay_out(2, "wallet").await;
    stage.pay_out(3, "sandbox:late:1h").await;
    let listed = async |since| {
        let Seen::Answered(page) = stage.client.changes(since, None, stage.now()).await else {
            panic!("a page")
        };
        assert_eq!(page.next, None);
        let known = |operation: settle_provider::wire::Operation| {
            (operation.operation_id.as_u128(), operation.status)
        };
        page.operations.into_iter().map(known).collect::<Vec<_>>()
    };
    let start = stage.now();
    assert_eq!(listed(start).await, [(1, OperationStatus::Pending), (2, OperationStatus::Succeeded)]);
    stage.pass(Duration::from_hours(1));
    assert_eq!(
        listed(start).await,
        [(2, OperationStatus::Succeeded), (1, OperationStatus::Succeeded), (3, OperationStatus::Succeeded)]
    );
    assert_eq!(listed(stage.now()).await, [(1, OperationStatus::Succeeded), (3, OperationStatus::Succeeded)]);
    stage.pass(Duration::from_secs(1));
    assert_eq!(listed(stage.now()).await, []);
}

#[tokio::test]
async fn long_lists_come_in_pages() {
    let stage = Stage::start().await;
    // A few at a time: one after the other they would take the longest of all tests.
    let numbers: Vec<u128> = (1..=1_001).collect();
    for few in numbers.chunks(32) {
        futures::future::join_all(few.iter().map(|number| stage.pay_out(*number, "wallet"))).await;
    }
    let start = stage.now();
    let Seen::Answered(page) = stage.client.changes(start, None, start).await else { panic!("a page") };
    assert_eq!((page.operations.len(), page.next.as_deref()), (1_000, Some("1000")));
    let mut found: Vec<_> = page.operations.iter().map(|operation| operation.operation_id).collect();
    let Seen::Answered(page) = stage.client.changes(start, Some("1000"), start).await else {
        panic!("a page")
    };
    assert_eq!((page.operations.len(), page.next), (1, None));
    found.extend(page.operations.iter().map(|operation| operation.operation_id));
    found.sort_unstable();
    assert!(found.iter().copied().eq(numbers.iter().map(|number| id(*number))), "every one, once");

    let (_, page) = stage.ask("GET", "/sandbox/executions", "").await;
    assert_eq!((page["executions"].as_array().map(Vec::len), &page["next"]), (Some(1_000), &"1000".into()));
    let (_, page) = stage.ask("GET", "/sandbox/executions?after=1000", "").await;
    assert_eq!((page["executions"].as_array().map(Vec::len), page["next"].is_null()), (Some(1), true));
    assert_eq!(stage.ask("GET", "/sandbox/executions?after=x", "").await.0, 422);
}

#[tokio::test]
async fn capabilities_name_the_instance_and_every_pair() {
    let stage = Stage::start().await;
    let Seen::Answered(found) = stage.client.capabilities(stage.now()).await else { panic!("capabilities") };
    assert!(found.sandbox && found.idempotency_window_seconds == 86_400);
    assert_eq!((found.assets.len(), found.pairs.len()), (16, 16 * 15));
    let Seen::Absent(absence) = stage.look_up(1).await else { panic!("absent") };
    assert_eq!(absence.instance, found.instance);
}

/// A signed request as text.
fn signed(stage: &Stage, method: &str, path: &str, body: &str) -> String {
    signed_at(stage.now(), method, path, body)
}

fn signed_at(at: settle_domain::time::Timestamp, method: &str, path: &str, body: &str) -> String {
    let mut headers = HeaderMap::new();
    signing::sign(&mut headers, &secret(SECRET), at, body.as_bytes());
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: sandbox\r\nconnection: close\r\n");
    for (name, value) in &headers {
        head = format!("{head}{name}: {}\r\n", value.to_str().expect("text"));
    }
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

#[tokio::test]
async fn what_is_not_signed_by_the_secret_now_is_turned_away() {
    let stage = Stage::start().await;
    let stranger = client(stage.address, "other", stage.clock.clone());
    let body = format!(
        r#"{{"operation_id":"{}","asset":"USDC","amount":"1","destination_reference":"wallet"}}"#,
        id(1)
    );
    let kind = settle_provider::wire::OperationKind::Payout;
    let seen = stranger.send(kind, id(1), body.clone().into(), stage.now()).await;
    // The stranger cannot verify the answer either.
    assert_eq!(seen, Seen::TurnedAway { status: 403, problem: None });
    for age in [Duration::from_secs(301), Duration::from_hours(24)] {
        let seen = stage.client.send(kind, id(1), body.clone().into(), stage.now().minus(age)).await;
        let Seen::TurnedAway { status: 401, problem: Some(problem) } = seen else { panic!("{seen:?}") };
        assert_eq!(problem.code, ProblemCode::Unauthenticated);
    }
    assert_eq!(stage.ask("POST", "/payouts", &body).await.0, 401);
    assert_eq!(stage.ask("GET", &format!("/operations/{}", id(1)), "").await.0, 401);
    let tampered = signed(&stage, "POST", "/payouts", &body).replace("wallet", "thieve");
    assert_eq!(stage.say(&tampered).await.0, 403);
    assert!(matches!(stage.look_up(1).await, Seen::Absent(_)));
    let seen = stage.client.send(kind, id(1), body.into(), stage.now().minus(Duration::from_mins(5))).await;
    assert_eq!(status(&seen), OperationStatus::Succeeded, "300 seconds are not too old");
}

#[tokio::test]
async fn what_is_not_the_protocols_is_named() {
    let stage = Stage::start().await;
    let kind = settle_provider::wire::OperationKind::Payout;
    let seen = stage.client.send(kind, id(1), "{}".into(), stage.now()).await;
    assert_eq!(seen, Seen::Unusable { status: 400, fault: AnswerFault::Status(400) });
    for (method, path, body, expected) in [
        ("POST", "/payouts", "{}", (400, "`operation_id` is missing")),
        ("POST", "/quotes", "hello", (400, "")),
        ("GET", "/operations?updated_since=yesterday", "", (400, "`updated_since` is not an RFC 3339")),
        ("GET", "/operations?after=x", "", (400, "`after` is not from a page before")),
        ("GET", "/operations/1", "", (404, "there is nothing at this path")),
        ("GET", "/nothing", "", (404, "there is nothing at this path")),
    ] {
        let (code, answer) = stage.say(&signed(&stage, method, path, body)).await;
        let reason = answer["reason"].as_str().unwrap_or_default();
        assert!(code == expected.0 && reason.starts_with(expected.1), "{path}: {code} {answer}");
    }
    let body = format!(
        r#"{{"operation_id":"{}","asset":"USDC","amount":"1","destination_reference":"wallet"}}"#,
        id(1)
    );
    let keyed = signed(&stage, "POST", "/payouts", &body)
        .replace("host: sandbox", &format!("host: sandbox\r\nidempotency-key: {}", id(2)));
    assert_eq!(stage.say(&keyed).await.0, 400);
    assert_eq!(stage.executions().await, []);
}
