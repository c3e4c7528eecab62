//! `settle serve`: from an empty folder to an answer, and to an orderly stop.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use settle_testing::binary::{Settle, text};
use settle_testing::serving::{Serving, Signal, ask, get};

use crate::BINARY;
use crate::import::{line, lines};
use crate::sandbox::Running;

mod limits;

on_both_stores! {
    a_merchant_reads_what_was_imported,
    sigterm_and_sigint_stop_it_with_code_0,
    a_revocation_by_the_command_holds_at_the_next_request,
    a_key_and_a_settlement_made_meanwhile_are_seen_at_once,
    the_operators_listener_answers,
    an_operator_posts_settlements,
    a_provider_that_is_a_sandbox_is_told_of_loudly,
    readyz_says_draining_while_a_request_is_finished,
    roles_choose_what_runs,
    logs_are_json_with_request_ids_and_without_secrets,
    two_nodes_share_a_store,
    development_settings_are_said_loudly,
}

fn a_merchant_reads_what_was_imported(settle: &Settle) {
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let path = settle.write("import.jsonl", &lines(&merchant, 0..3));
    settle.run(&["settlement", "import", text(&path)]).ok();
    let (serving, api, _) = Serving::ready(settle);
    let answer = get(api, "/v1/settlements?limit=2", &key);
    assert_eq!(answer.status, 200, "{answer:?}");
    let page = answer.json();
    assert_eq!((&page["total"], page["settlements"].as_array().unwrap().len()), (&Value::from(3), 2));
    assert_eq!(page["settlements"][0]["payin_reference"], "payin-2");
    assert_eq!(get(api, "/v1/settlements", "").status, 401);
    assert_eq!(get(api, "/openapi.json", "").body, include_str!("../../../../openapi.json"));
    serving.stop();
}

fn sigterm_and_sigint_stop_it_with_code_0(settle: &Settle) {
    for signal in [Signal::TERM, Signal::INT] {
        let (serving, api, _) = Serving::ready(settle);
        serving.signal(signal);
        let (code, logged) = serving.stopped();
        assert_eq!(code, Some(0), "{logged:#?}");
        assert!(logged.iter().any(|line| line.contains("\"stopped\"")), "{logged:#?}");
        assert!(TcpStream::connect(api).is_err(), "nobody listens any more");
    }
}

/// "Revocation takes effect immediately": here another process revokes.
fn a_revocation_by_the_command_holds_at_the_next_request(settle: &Settle) {
    let merchant = settle.merchant();
    let (key_id, key) = settle.key(&merchant);
    let (_, other) = settle.key(&merchant);
    let (serving, api, _) = Serving::ready(settle);
    assert_eq!(get(api, "/v1/webhook", &key).status, 200);
    settle.run(&["key", "revoke", &key_id]).ok();
    assert_eq!(get(api, "/v1/webhook", &key).status, 401);
    assert_eq!(get(api, "/v1/webhook", &other).status, 200);
    serving.stop();
}

fn a_key_and_a_settlement_made_meanwhile_are_seen_at_once(settle: &Settle) {
    let (serving, api, _) = Serving::ready(settle);
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    assert_eq!(get(api, "/v1/settlements", &key).json()["total"], 0);
    settle.run_with(&["settlement", "import", "-"], &lines(&merchant, 0..1)).ok();
    assert_eq!(get(api, "/v1/settlements", &key).json()["total"], 1);
    serving.stop();
}

fn the_operators_listener_answers(settle: &Settle) {
    let (serving, api, operator) = Serving::ready(settle);
    assert_eq!(get(operator, "/healthz", "").json()["status"], "ok");
    assert_eq!(get(operator, "/readyz", "").json()["status"], "ready");
    get(api, "/v1/settlements", "");
    let metrics = get(operator, "/metrics", "");
    assert!(metrics.header("content-type").unwrap().starts_with("text/plain"), "{metrics:?}");
    let counted = "settle_http_requests_total{method=\"GET\",route=\"/v1/settlements\",status=\"401\"} 1";
    assert!(metrics.body.lines().any(|line| line == counted), "{}", metrics.body);
    assert!(metrics.body.contains("settle_http_request_duration_seconds_bucket"), "{}", metrics.body);
    assert_eq!(get(operator, "/v1/settlements", "").status, 404, "merchants are elsewhere");
    serving.stop();
}

fn an_operator_posts_settlements(settle: &mut Settle) {
    settle.set("SETTLE_LOG__LEVEL", "trace");
    settle.set("SETTLE_WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8");
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let made = settle.run(&["operator", "create", "Ada", "--json"]).json();
    let (operator_id, token) = (made["operator_id"].as_str().unwrap(), made["token"].as_str().unwrap());
    let (serving, api, operator) = Serving::ready(settle);
    let body = r#"{"webhook_url":"https://127.0.0.1:9443/hook","webhook_secret":"hush"}"#;
    assert_eq!(ask(api, "PUT", "/v1/webhook", &key, body).status, 200);
    let settlement = line(Some(&merchant), 7, json!({}));
    let post = |token: &str| ask(operator, "POST", "/operator/v1/settlements", token, &settlement);
    let answer = post(token);
    assert_eq!(answer.json(), json!({ "recorded": 1, "unchanged": 0, "notified": 1 }), "{answer:?}");
    let id = answer.header("x-request-id").expect("an id").to_owned();
    assert_eq!(get(api, "/v1/settlements", &key).json()["settlements"][0]["payin_reference"], "payin-7");
    assert_eq!(get(api, "/v1/webhook/deliveries", &key).json()["deliveries"][0]["status"], "pending");
    settle.run(&["operator", "revoke", operator_id]).ok();
    assert_eq!(post(token).status, 401, "another process has revoked it");
    let logged = serving.stop();
    let answered = logged.iter().find(|line| line.contains("\"answered\"") && line.contains(&id));
    let answered = answered.expect("the request is logged under its id");
    assert!(answered.contains(operator_id), "and under its operator: {answered}");
    assert!(!logged.iter().any(|line| line.contains(&token[3..])), "{logged:#?}");
}

fn a_provider_that_is_a_sandbox_is_told_of_loudly(settle: &mut Settle) {
    let sandbox = Running::start(settle, &["--secret", "hush"]);
    settle.set("SETTLE_PROVIDERS__BANK__URL", &format!("http://{}", sandbox.address));
    settle.set("SETTLE_PROVIDERS__BANK__SECRET", "hush");
    let (mut serving, ..) = Serving::ready(settle);
    let words = "THE PROVIDER IS A SANDBOX: what it pays out is not real money";
    serving.wait_for_once(words);
    let logged = serving.stop();
    let line = logged.iter().find(|line| line.contains(words)).expect("it was waited for");
    let line: Value = serde_json::from_str(line).expect("a line of the log is JSON");
    assert_eq!((&line["level"], &line["provider"]), (&json!("WARN"), &json!("bank")), "{line}");
}

fn readyz_says_draining_while_a_request_is_finished(settle: &Settle) {
    let (mut serving, api, operator) = Serving::ready(settle);
    let (_, key) = settle.key(&settle.merchant());
    let mut request = TcpStream::connect(api).expect("the service listens");
    let head = format!(
        "PUT /v1/webhook HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {key}\r\ncontent-length: 2\r\n\
         expect: 100-continue\r\nconnection: close\r\n\r\n"
    );
    request.write_all(head.as_bytes()).expect("the service reads");
    // The service sends this when the handler asks for the body: now the request is under way.
    let mut go_ahead = [0; 25];
    request.read_exact(&mut go_ahead).expect("the service wants the body");
    assert_eq!(&go_ahead, b"HTTP/1.1 100 Continue\r\n\r\n");
    serving.signal(Signal::TERM);
    serving.wait_for("stopping");
    let ready = get(operator, "/readyz", "");
    assert_eq!((ready.status, &ready.json()["reason"]), (503, &json!("draining")));
    request.write_all(b"{}").expect("the service still reads");
    let mut answer = String::new();
    request.read_to_string(&mut answer).expect("the service answers");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(serving.stopped().0, Some(0));
}

fn roles_choose_what_runs(settle: &Settle) {
    for (role, listens, not) in [
        ("api", "the merchant API listens", "the operator's listener listens"),
        ("operator", "the operator's listener listens", "the merchant API listens"),
    ] {
        let mut serving = Serving::start(settle, &["--role", role]);
        serving.listens(listens);
        let logged = serving.stop();
        assert!(!logged.iter().any(|line| line.contains(not)), "{logged:#?}");
    }
    let ran = settle.run(&["serve", "--role", "cook"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

fn logs_are_json_with_request_ids_and_without_secrets(settle: &mut Settle) {
    settle.set("SETTLE_LOG__LEVEL", "trace");
    let merchant = settle.merchant();
    let (_, key) = settle.key(&merchant);
    let (serving, api, _) = Serving::ready(settle);
    let secret = "whsec-distinctive-0f1e2d3c";
    let body = format!(r#"{{"webhook_url":"https://93.184.215.14/hook","webhook_secret":"{secret}"}}"#);
    let answer = ask(api, "PUT", "/v1/webhook", &key, &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let id = answer.header("x-request-id").expect("an id").to_owned();
    let logged = serving.stop();
    let line = logged.iter().find(|line| line.contains("\"answered\"") && line.contains(&id));
    let line: Value = serde_json::from_str(line.expect("the request is logged under its id")).unwrap();
    assert_eq!((&line["status"], &line["level"]), (&Value::from(200), &Value::from("INFO")));
    assert!(line.to_string().contains(&merchant), "and under its merchant: {line}");
    let master_key = std::fs::read_to_string(settle.data().join("master.key")).unwrap();
    for line in &logged {
        assert!(serde_json::from_str::<Value>(line).is_ok(), "{line}");
        for unwanted in [&key[3..], secret, master_key.trim()] {
            assert!(!line.contains(unwanted), "{line}");
        }
    }
}

fn two_nodes_share_a_store(settle: &Settle) {
    let (first, one, _) = Serving::ready(settle);
    let (second, two, _) = Serving::ready(settle);
    let (_, key) = settle.key(&settle.merchant());
    let body = r#"{"webhook_url":"https://93.184.215.14/hook","webhook_secret":"hush"}"#;
    assert_eq!(ask(one, "PUT", "/v1/webhook", &key, body).status, 200);
    assert_eq!(get(two, "/v1/webhook", &key).json()["webhook_url"], "https://93.184.215.14/hook");
    first.stop();
    assert_eq!(get(two, "/v1/webhook", &key).status, 200);
    second.stop();
}

fn development_settings_are_said_loudly(settle: &mut Settle) {
    settle.set("SETTLE_WEBHOOK__ALLOW_HTTP", "true");
    let (_, key) = settle.key(&settle.merchant());
    let (serving, api, _) = Serving::ready(settle);
    let body = r#"{"webhook_url":"http://93.184.215.14/hook","webhook_secret":"hush"}"#;
    assert_eq!(ask(api, "PUT", "/v1/webhook", &key, body).status, 200);
    let logged = serving.stop();
    assert!(logged.iter().any(|line| line.contains("\"WARN\"") && line.contains("GUARD")), "{logged:#?}");
}

#[test]
fn an_address_that_is_taken_is_named_with_its_setting() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let settle = Settle::sqlite(BINARY).with("SETTLE_API__LISTEN", &address);
    let ran = settle.run(&["serve", "--role", "api"]);
    assert!(ran.stderr.contains("api.listen") && ran.stderr.contains(&address), "{ran:?}");
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

#[test]
fn a_database_that_is_away_ends_it_with_a_reason() {
    let url = "postgres://settle:hunter2@127.0.0.1:9/settle";
    let ran = Settle::sqlite(BINARY).with("SETTLE_DATABASE_URL", url).run(&["serve"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("unavailable") && !ran.stderr.contains("hunter2"), "{ran:?}");
}

#[test]
fn the_rate_limit_of_the_settings_holds() {
    let settle = Settle::sqlite(BINARY)
        .with("SETTLE_API__REQUESTS_PER_SECOND", "1")
        .with("SETTLE_API__REQUESTS_BURST", "1");
    let (_, key) = settle.key(&settle.merchant());
    let (serving, api, _) = Serving::ready(&settle);
    let statuses: Vec<u16> = (0..50).map(|_| get(api, "/v1/webhook", &key).status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    serving.stop();
}

/// What Prometheus's own tool says of the metrics; and what an operator finds before anything has happened.
#[test]
fn the_metrics_are_described_and_start_at_zero() {
    let settle = Settle::sqlite(BINARY)
        .with("SETTLE_PROVIDERS__BANK__URL", "http://127.0.0.1:9")
        .with("SETTLE_PROVIDERS__BANK__SECRET", "sandbox");
    let (serving, _, operator) = Serving::ready(&settle);
    let printed = get(operator, "/metrics", "").body;
    serving.stop();
    let families: BTreeSet<&str> =
        printed.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    for family in &families {
        assert!(printed.contains(&format!("# HELP {family} ")), "{family} is not described");
    }
    for line in [
        "settle_delivery_attempts_total{outcome=\"timeout\"} 0",
        "settle_delivery_faults_total{cause=\"resolver\"} 0",
        "settle_deliveries_died_total 0",
        "settle_alerts_raised_total 0",
        "settle_dispatcher_state{state=\"standing by\"} 0",
        "settle_delivery_attempt_duration_seconds_count 0",
        "settle_delivery_delay_seconds_count 0",
        "settle_provider_call_duration_seconds_count{provider=\"bank\",call=\"send\"} 0",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
    }
    assert!(printed.contains("settle_build_info{version=\"0.1.0\""), "{printed}");
    for family in ["process_cpu_seconds_total", "settle_database_journal_bytes"] {
        assert!(families.contains(family), "{families:?}");
    }
    let mut tool = Command::new("promtool");
    let tool =
        tool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped()).stdout(Stdio::piped());
    let mut tool = tool.spawn().expect("promtool: run ./test, which fetches it");
    tool.stdin.take().unwrap().write_all(printed.as_bytes()).unwrap();
    let said = tool.wait_with_output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty() && said.stdout.is_empty(), "{said:?}");
}
