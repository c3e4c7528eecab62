//! Who may call the operator API: operators, and nobody else.

use std::num::NonZeroU32;

use serde_json::json;
use settle_api::Guessing;
use settle_api::http::Lookups;
use settle_domain::credential::{Credential, CredentialKind, CredentialSeal};
use settle_domain::ids::OperatorId;
use settle_domain::seams::Clock;
use settle_store::{NewOperator, Operator};

use super::client::{OperatorClient, SETTLEMENTS, completed, hold, new_operator, seen, send};
use crate::contract::Contract;
use crate::raw::Connection;
use crate::service::{Service, Setup};

on_both_stores! {
    without_a_token,
    with_what_is_no_token,
    with_an_unknown_token,
    a_revocation_holds_from_the_next_request_on,
    a_planted_operator_is_refused,
    merchants_and_operators_cannot_pass_for_each_other,
    the_scheme_is_read_in_any_case,
    the_token_is_judged_before_anything_else,
    a_known_path_asks_for_the_token_whatever_the_method,
    every_operation_asks_for_the_token,
    an_unknown_path_is_a_404_without_a_token,
    a_store_that_is_away_cannot_judge_a_token,
    too_many_wrong_tokens_are_a_429_and_a_right_token_still_works,
}

async fn without_a_token(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let one = completed(&merchant, json!({}));
    for body in [one.clone(), json!([one])] {
        send(client.ask("POST", SETTLEMENTS).json(&body)).await.refused(401, "access_token_missing");
    }
    let path = format!("{SETTLEMENTS}?access_token={}", client.token);
    send(client.ask("POST", &path).json(&json!([]))).await.refused(401, "access_token_missing");
    assert_eq!(seen(&merchant).await, (0, 0));
}

async fn with_what_is_no_token(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let token = &client.token;
    let digits = token.trim_start_matches("op_");
    for value in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer op_".to_owned(),
        "Bearer op_xyz".to_owned(),
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer {digits}"),
        format!("Bearer sk_{digits}"),
        format!("Bearer OP_{digits}"),
        format!("Bearer op_{}", digits.to_uppercase()),
        format!("Bearer {token},"),
        format!("Bearer {token} {token}"),
        format!("Bearer {token}é"),
        format!("Bearer op_{}", "a".repeat(1_000)),
    ] {
        let ask = client.ask("POST", SETTLEMENTS).header_bytes("authorization", value.as_bytes());
        let answer = send(ask.json(&json!([]))).await;
        assert_eq!(answer.status, 401, "{value}");
        answer.refused(401, "access_token_malformed");
    }
    for second in [format!("Bearer {token}"), "Basic eA==".to_owned(), String::new()] {
        let answer = send(client.authorized().header("authorization", &second).json(&json!([]))).await;
        answer.refused(401, "access_token_malformed");
    }
}

async fn with_an_unknown_token(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let mut almost = client.token.clone();
    let last = if almost.pop() == Some('0') { '1' } else { '0' };
    almost.push(last);
    for token in ["op_00ff".to_owned(), almost, format!("{}0", client.token)] {
        let ask = client.ask("POST", SETTLEMENTS).header("authorization", &format!("Bearer {token}"));
        send(ask.json(&json!([]))).await.refused(401, "access_token_invalid");
    }
}

async fn revoke(client: &OperatorClient) {
    let service: &Service = &client.service;
    let mut tx = service.store.begin().await.expect("a transaction");
    tx.operator_revoke(client.operator_id, service.clock.now()).await.expect("a revocation");
    tx.commit().await.expect("a commit");
}

async fn a_revocation_holds_from_the_next_request_on(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let (_, other) = new_operator(&client.service, "Grace").await;
    client.post(&completed(&merchant, json!({}))).await.ok();
    revoke(&client).await;
    client.post(&completed(&merchant, json!({}))).await.refused(401, "access_token_invalid");
    assert_eq!(seen(&merchant).await, (1, 0));
    let ask = client.ask("POST", SETTLEMENTS).header("authorization", &format!("Bearer {other}"));
    send(ask.json(&completed(&merchant, json!({})))).await.ok();
}

async fn merchants_and_operators_cannot_pass_for_each_other(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    let key = format!("Bearer {}", merchant.key);
    let ask = client.ask("POST", SETTLEMENTS).header("authorization", &key);
    send(ask.json(&completed(&merchant, json!({})))).await.refused(401, "access_token_malformed");
    let token = format!("Bearer {}", client.token);
    let answer = client.service.ask("GET", "/v1/settlements").header("authorization", &token).send().await;
    answer.refused(401, "invalid_credentials");
    // The digits of a key do not make a token, nor those of a token a key.
    let crossed = [merchant.key.replace("sk_", "op_"), client.token.replace("op_", "sk_")];
    let ask = client.ask("POST", SETTLEMENTS).header("authorization", &format!("Bearer {}", crossed[0]));
    send(ask.json(&json!([]))).await.refused(401, "access_token_invalid");
    let ask = client.service.ask("GET", "/v1/settlements");
    let answer = ask.header("authorization", &format!("Bearer {}", crossed[1])).send().await;
    answer.refused(401, "invalid_credentials");
    assert_eq!(seen(&merchant).await, (0, 0));
}

async fn the_scheme_is_read_in_any_case(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let merchant = client.service.merchant().await;
    for scheme in ["Bearer", "bearer", "BEARER", "bEaReR "] {
        let value = format!("{scheme} {}", client.token);
        let ask = client.ask("POST", SETTLEMENTS).header("authorization", &value);
        send(ask.json(&completed(&merchant, json!({})))).await.ok();
    }
}

async fn the_token_is_judged_before_anything_else(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let ask = || client.ask("POST", SETTLEMENTS);
    send(ask().header("content-type", "text/plain").body("x")).await.refused(401, "access_token_missing");
    send(ask().body("{")).await.refused(401, "access_token_missing");
    // The service does not even ask for the body.
    let mut connection = Connection::to(client.listener.address).await;
    let head = format!(
        "POST {SETTLEMENTS} HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer op_00\r\n\
         expect: 100-continue\r\ncontent-length: 9\r\n\r\n"
    );
    connection.write(head).await;
    let answer = connection.next().await;
    hold(&answer);
    answer.refused(401, "access_token_invalid");
}

async fn a_known_path_asks_for_the_token_whatever_the_method(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let token = format!("Bearer {}", client.token);
    for method in ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"] {
        send(client.ask(method, SETTLEMENTS)).await.refused(401, "access_token_missing");
        let answer = send(client.ask(method, SETTLEMENTS).header("authorization", &token)).await;
        answer.refused(405, "not_found");
        assert_eq!(answer.header("allow"), Some("POST"));
    }
}

/// The operations come from the document, so a new one is tested as soon as it is documented.
async fn every_operation_asks_for_the_token(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let operations = Contract::with_operators().operations();
    let guarded = operations.iter().filter(|known| known.template.starts_with("/operator/"));
    // A provider signs what it says, and always gets the same answer.
    let guarded: Vec<_> = guarded.filter(|known| !known.template.ends_with("/callback")).collect();
    assert_eq!(guarded.len(), 26);
    for operation in guarded {
        let path = operation.path("0190d3c4-7c00-7000-8000-0000000000ab");
        let ask = || client.ask(&operation.method, &path);
        send(ask()).await.refused(401, "access_token_missing");
        send(ask().header("authorization", "Bearer x")).await.refused(401, "access_token_malformed");
        send(ask().header("authorization", "Bearer op_00")).await.refused(401, "access_token_invalid");
    }
}

async fn an_unknown_path_is_a_404_without_a_token(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    for path in ["/operator", "/operator/v1", "/operator/v2/settlements", "/operator/v1/settlements/"] {
        let answer = send(client.ask("POST", path)).await;
        answer.refused(404, "not_found");
        assert_eq!(answer.header("www-authenticate"), None, "{path}");
    }
}

/// The store cannot be reached, so no token can be checked and nobody is let in.
async fn a_store_that_is_away_cannot_judge_a_token(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    client.service.store.close().await;
    client.post(&json!([])).await.refused(503, "access_verification_unavailable");
    send(client.ask("POST", SETTLEMENTS)).await.refused(401, "access_token_missing");
}

async fn too_many_wrong_tokens_are_a_429_and_a_right_token_still_works(setup: Setup) {
    let guessing = Guessing { per_second: NonZeroU32::new(1), burst: NonZeroU32::MIN };
    let client = OperatorClient::start_with(setup, |state| state.operators = Lookups::new(guessing)).await;
    let merchant = client.service.merchant().await;
    let guess = async || send(client.ask("POST", SETTLEMENTS).header("authorization", "Bearer op_00")).await;
    guess().await.refused(401, "access_token_invalid");
    let mut last = guess().await;
    for _ in 0..100 {
        if last.status == 429 {
            break;
        }
        last = guess().await;
    }
    last.refused(429, "locked");
    assert_eq!(last.header("retry-after"), Some("1"));
    client.post(&completed(&merchant, json!({}))).await.ok();
}

/// Somebody who can write to the table, but has no master key.
async fn a_planted_operator_is_refused(setup: Setup) {
    let client = OperatorClient::start(setup).await;
    let service = &client.service;
    let token = Credential::generate(CredentialKind::OperatorToken, &*service.entropy);
    let operator = Operator {
        operator_id: OperatorId::new(service.clock.now(), &*service.entropy),
        name: "mallory".to_owned(),
        created_at: service.clock.now(),
        revoked_at: None,
    };
    let new = NewOperator { operator, hash: token.hash(), seal: CredentialSeal(vec![0; 36]) };
    let mut tx = service.store.begin().await.expect("a transaction");
    tx.operator_create(&new).await.expect("a row");
    tx.commit().await.expect("a commit");
    let bearer = format!("Bearer {}", token.expose());
    let ask = client.ask("POST", SETTLEMENTS).header_bytes("authorization", bearer.as_bytes());
    send(ask.json(&json!([]))).await.refused(401, "access_token_invalid");
}
