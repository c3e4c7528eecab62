//! What the client says it has seen, for whatever a provider can do to it.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

mod stand;

use std::sync::Arc;
use std::time::Duration;

use settle_domain::seams::ManualClock;
use settle_domain::signature::SignatureFault;
use settle_domain::time::Timestamp;
use settle_provider::client::{ANSWER_BYTES_MAX, Client, ClientSettings, Endpoint, PAGE_BYTES_MAX};
use settle_provider::provider::Provider;
use settle_provider::seen::{AnswerFault, LostFault, NotSentFault, Seen};
use settle_provider::signing::{ProviderSecret, SigningFault};
use settle_provider::wire::{Operation, OperationKind, OperationStatus, ProblemCode, QuoteRequest};
use stand::{Script, Stand, raw, signed};
use uuid::Uuid;

const SECRET: &str = "hush";
const ID: Uuid = Uuid::from_u128(0x0190_d3c4_7c00_8000_8000_0000_0000_0001);
const NOW: Timestamp = Timestamp::from_micros(1_767_225_600_000_000);
const TIMEOUT: Duration = Duration::from_secs(30);
const PAYOUT: &str =
    r#"{"operation_id":"0190d3c4-7c00-8000-8000-000000000001","asset":"USDC","amount":"1.5"}"#;

fn client(url: &str) -> Client {
    let settings = ClientSettings {
        endpoint: Endpoint::parse(url).expect("a URL"),
        secret: ProviderSecret::parse(SECRET.to_owned()).expect("a secret"),
        timeout: TIMEOUT,
        extra_roots_pem: Vec::new(),
    };
    Client::new(settings, Arc::new(ManualClock::at(NOW))).expect("a client")
}

fn client_of(stand: &Stand) -> Client {
    client(&format!("http://{}", stand.address))
}

fn operation(id: Uuid) -> String {
    format!(
        r#"{{"operation_id":"{id}","instance":"one","kind":"payout","status":"succeeded","asset":"USDC","amount":"1.500000"}}"#
    )
}

fn ok(body: &str) -> String {
    signed(200, body, SECRET, NOW)
}

async fn pay_out(client: &Client) -> Seen<Operation> {
    client.send(OperationKind::Payout, ID, PAYOUT.into(), NOW).await
}

/// What a payout sees when it is answered with this.
async fn payout_answered(answer: String) -> Seen<Operation> {
    let stand = Stand::start([Script::Say(answer)]).await;
    pay_out(&client_of(&stand)).await
}

fn unusable(status: u16, fault: AnswerFault) -> Seen<Operation> {
    Seen::Unusable { status, fault }
}

#[tokio::test]
async fn a_request_carries_its_key_and_a_signature_over_the_very_bytes() {
    let stand = Stand::start([Script::Say(ok(&operation(ID)))]).await;
    let Seen::Answered(operation) = pay_out(&client_of(&stand)).await else { panic!("an answer") };
    assert_eq!(operation.status, OperationStatus::Succeeded);
    let [request] = &stand.requests()[..] else { panic!("one request") };
    let (head, body) = request.split_once("\r\n\r\n").expect("a head and a body");
    assert_eq!(body, PAYOUT);
    let expected = settle_domain::signature::sign(SECRET.as_bytes(), NOW, PAYOUT.as_bytes());
    for line in [
        "POST /payouts HTTP/1.1",
        &format!("host: {}", stand.address),
        "idempotency-key: 0190d3c4-7c00-8000-8000-000000000001",
        "service-timestamp: 1767225600",
        &format!("service-signature: {expected}"),
        "content-type: application/json",
    ] {
        assert!(head.lines().any(|found| found == line), "{line} in {head}");
    }
}

#[tokio::test]
async fn every_call_goes_to_its_path_and_a_void_names_its_operation() {
    let absent = format!(r#"{{"operation_id":"{ID}","instance":"one","code":"not_found"}}"#);
    let quote = r#"{"quote_id":"q","sell_amount":"1000.00","buy_amount":"184.162061","rate":"5.43","expires_at":"2026-01-01T00:01:00Z"}"#;
    let capabilities =
        r#"{"instance":"one","sandbox":true,"pairs":[],"assets":["BRL"],"idempotency_window_seconds":86400}"#;
    let answers = [ok(quote), signed(404, &absent, SECRET, NOW), ok(&operation(ID)), ok(capabilities)];
    let page = ok(r#"{"operations":[],"next":null}"#);
    let stand = Stand::start(answers.into_iter().chain([page]).map(Script::Say)).await;
    let client = client_of(&stand);
    let amount = "1000.00".parse().expect("a decimal");
    let (sell, buy) = ("BRL".to_owned(), "USDC".to_owned());
    let question = QuoteRequest { payin_reference: "p".to_owned(), sell, sell_amount: amount, buy };
    assert!(matches!(client.quote(&question, NOW).await, Seen::Answered(_)));
    assert!(matches!(client.look_up(ID, NOW).await, Seen::Absent(absent) if absent.instance == "one"));
    assert!(matches!(client.void(ID, NOW).await, Seen::Answered(_)));
    assert!(matches!(client.capabilities(NOW).await, Seen::Answered(found) if found.sandbox));
    assert!(matches!(client.changes(NOW, Some("a b"), NOW).await, Seen::Answered(_)));
    let requests = stand.requests();
    let lines: Vec<&str> = requests.iter().filter_map(|request| request.lines().next()).collect();
    assert_eq!(
        lines,
        [
            "POST /quotes HTTP/1.1",
            "GET /operations/0190d3c4-7c00-8000-8000-000000000001 HTTP/1.1",
            "POST /operations/0190d3c4-7c00-8000-8000-000000000001/void HTTP/1.1",
            "GET /capabilities HTTP/1.1",
            "GET /operations?updated_since=2026-01-01T00%3A00%3A00.000000%2B00%3A00&after=a+b HTTP/1.1",
        ]
    );
    assert!(requests[2].ends_with(r#"{"operation_id":"0190d3c4-7c00-8000-8000-000000000001"}"#));
    assert_eq!(stand.connections(), 1, "a connection is kept");
}

#[tokio::test]
async fn what_is_not_signed_by_the_secret_now_is_not_believed() {
    let signature = |fault| unusable(200, AnswerFault::Signature(SigningFault::Signature(fault)));
    let body = operation(ID);
    let missing = AnswerFault::Signature(SigningFault::Header("service-timestamp"));
    assert_eq!(payout_answered(raw(200, "", &body)).await, unusable(200, missing));
    let forged = payout_answered(signed(200, &body, "other", NOW)).await;
    assert_eq!(forged, signature(SignatureFault::Mismatch));
    let old = payout_answered(signed(200, &body, SECRET, NOW.minus(Duration::from_secs(301)))).await;
    assert_eq!(old, signature(SignatureFault::Stale));
    let changed = payout_answered(ok(&body).replace("1.500000", "1.600000")).await;
    assert_eq!(changed, signature(SignatureFault::Mismatch));
}

#[tokio::test]
async fn a_signed_answer_that_is_not_the_protocols_is_unusable() {
    let other = payout_answered(ok(&operation(Uuid::nil()))).await;
    assert_eq!(other, unusable(200, AnswerFault::Other));
    let Seen::Unusable { status: 200, fault: AnswerFault::Body(fault) } =
        payout_answered(ok(&operation(ID).replace("\"1.500000\"", "1.5"))).await
    else {
        panic!("an amount that is a number")
    };
    assert_eq!(fault.field, "amount");
    for body in ["hello", r#"{"status":"succeeded"}"#] {
        let seen = payout_answered(ok(body)).await;
        assert!(matches!(seen, Seen::Unusable { fault: AnswerFault::Body(_), .. }), "{seen:?}");
    }
    for status in [300, 302, 400, 404, 500, 502] {
        let seen = payout_answered(signed(status, r#"{"code":"internal_error"}"#, SECRET, NOW)).await;
        assert_eq!(seen, unusable(status, AnswerFault::Status(status)));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let stand = Stand::start([]).await;
    let redirect = raw(307, &format!("location: http://{}/payouts\r\n", stand.address), "");
    assert!(matches!(payout_answered(redirect).await, Seen::Unusable { status: 307, .. }));
    assert_eq!(stand.connections(), 0);
}

#[tokio::test]
async fn problems_are_told_apart_by_status_code_and_signature() {
    let problem = |code: &str| format!(r#"{{"code":"{code}","reason":"because","operation_id":"{ID}"}}"#);
    for (status, code) in [(409, "rail_inactive"), (429, "locked"), (503, "provider_unavailable")] {
        let seen = payout_answered(signed(status, &problem(code), SECRET, NOW)).await;
        let Seen::Blocked { status: seen_status, problem: seen } = seen else { panic!("{seen:?}") };
        assert_eq!(
            (seen_status, seen.code.as_str(), seen.reason.as_deref()),
            (status, code, Some("because"))
        );
        let unsigned = payout_answered(raw(status, "", &problem(code))).await;
        assert!(matches!(unsigned, Seen::Unusable { .. }), "{unsigned:?}");
    }
    for code in ["payout_refused", "conversion_refused", "quote_refused", "sender_not_registered"] {
        let seen = payout_answered(signed(422, &problem(code), SECRET, NOW)).await;
        assert!(matches!(&seen, Seen::Refused(seen) if seen.code.as_str() == code), "{seen:?}");
        assert!(matches!(payout_answered(raw(422, "", &problem(code))).await, Seen::Unusable { .. }));
    }
    let conflict = payout_answered(signed(422, &problem("conflict"), SECRET, NOW)).await;
    assert!(matches!(&conflict, Seen::Conflict(seen) if seen.code == ProblemCode::Conflict), "{conflict:?}");
    for body in [problem("rail_inactive"), problem("moon_phase"), "{}".to_owned()] {
        let seen = payout_answered(signed(422, &body, SECRET, NOW)).await;
        assert!(matches!(seen, Seen::Unusable { fault: AnswerFault::Body(_), .. }), "{seen:?}");
    }
    let other = problem("payout_refused").replace("000000000001", "000000000002");
    assert_eq!(payout_answered(signed(422, &other, SECRET, NOW)).await, unusable(422, AnswerFault::Other));
    for status in [401, 403] {
        let seen = payout_answered(raw(status, "", "<html>")).await;
        assert_eq!(seen, Seen::TurnedAway { status, problem: None });
        let seen = payout_answered(signed(status, &problem("forbidden"), SECRET, NOW)).await;
        assert!(matches!(&seen, Seen::TurnedAway { problem: Some(_), .. }), "{seen:?}");
    }
}

#[tokio::test]
async fn only_a_signed_404_that_names_the_operation_says_absent() {
    let absent = |id: Uuid| format!(r#"{{"operation_id":"{id}","instance":"one"}}"#);
    for (answer, fault) in [
        (signed(404, &absent(Uuid::nil()), SECRET, NOW), Some(AnswerFault::Other)),
        (raw(404, "", &absent(ID)), None),
        (signed(404, r#"{"instance":"one"}"#, SECRET, NOW), None),
        (signed(404, "", SECRET, NOW), None),
    ] {
        let stand = Stand::start([Script::Say(answer)]).await;
        let seen = client_of(&stand).look_up(ID, NOW).await;
        let Seen::Unusable { status: 404, fault: found } = seen else { panic!("{seen:?}") };
        assert!(fault.is_none_or(|fault| fault == found), "{found:?}");
    }
}

#[tokio::test]
async fn an_answer_longer_than_its_bound_is_cut_off() {
    let spaces = |body: &str, bytes: usize| format!("{body}{}", " ".repeat(bytes - body.len()));
    let page = r#"{"operations":[]}"#;
    let fits = [ok(&spaces(&operation(ID), ANSWER_BYTES_MAX)), ok(&spaces(page, PAGE_BYTES_MAX))];
    let stand = Stand::start(fits.map(Script::Say)).await;
    let client = client_of(&stand);
    assert!(matches!(pay_out(&client).await, Seen::Answered(_)));
    assert!(matches!(client.changes(NOW, None, NOW).await, Seen::Answered(_)));

    let too_long = ok(&spaces(&operation(ID), ANSWER_BYTES_MAX + 1));
    let page_too_long = ok(&spaces(page, PAGE_BYTES_MAX + 1));
    let stand = Stand::start([too_long, page_too_long].map(Script::SayAndClose)).await;
    let client = client_of(&stand);
    assert_eq!(pay_out(&client).await, unusable(200, AnswerFault::TooLong(ANSWER_BYTES_MAX)));
    let seen = client.changes(NOW, None, NOW).await;
    assert_eq!(seen, Seen::Unusable { status: 200, fault: AnswerFault::TooLong(PAGE_BYTES_MAX) });
}

#[tokio::test]
async fn a_connection_that_ends_after_the_request_is_no_answer_and_nothing_is_repeated() {
    let whole = ok(&operation(ID));
    let parts = ["", "HTTP/1.1 200", &whole[..whole.len() - 1], "SSH-2.0-OpenSSH\r\n\r\n"];
    for part in parts {
        let stand = Stand::start([Script::SayAndClose(part.to_owned())]).await;
        assert_eq!(pay_out(&client_of(&stand)).await, Seen::NoAnswer(LostFault::Closed), "{part}");
        assert_eq!((stand.requests().len(), stand.connections()), (1, 1), "{part}");
    }
}

#[tokio::test]
async fn a_kept_connection_that_dies_with_the_request_is_no_answer_either() {
    let scripts = [Script::Say(ok(&operation(ID))), Script::SayAndClose(String::new())];
    let stand = Stand::start(scripts).await;
    let client = client_of(&stand);
    assert!(matches!(pay_out(&client).await, Seen::Answered(_)));
    assert_eq!(pay_out(&client).await, Seen::NoAnswer(LostFault::Closed));
    assert_eq!((stand.requests().len(), stand.connections()), (2, 1), "sent once, over the kept connection");
}

#[tokio::test]
async fn a_kept_connection_that_ended_before_the_request_costs_nothing() {
    let scripts = [Script::SayAndClose(ok(&operation(ID))), Script::Say(ok(&operation(ID)))];
    let stand = Stand::start(scripts).await;
    let client = client_of(&stand);
    assert!(matches!(pay_out(&client).await, Seen::Answered(_)));
    // The stand has closed its end before this: the connection's task sees it in its next turn.
    stand.closed.notified().await;
    tokio::task::yield_now().await;
    assert!(matches!(pay_out(&client).await, Seen::Answered(_)));
    assert_eq!((stand.requests().len(), stand.connections()), (2, 2));
}

#[tokio::test]
async fn a_provider_that_says_nothing_is_no_answer_when_the_time_is_up() {
    let whole = ok(&operation(ID));
    let half = whole[..whole.len() - 1].to_owned();
    for script in [Script::Hang, Script::Say(half)] {
        let stand = Stand::start([script]).await;
        let (client, came) = (client_of(&stand), stand.came.clone());
        let (seen, ()) = tokio::join!(pay_out(&client), async {
            came.notified().await;
            tokio::time::pause();
            tokio::time::advance(TIMEOUT).await;
            tokio::time::resume();
        });
        assert_eq!(seen, Seen::NoAnswer(LostFault::Timeout(TIMEOUT)));
    }
}

#[tokio::test]
async fn without_a_connection_no_byte_has_left() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = taken.local_addr().expect("an address");
    drop(taken);
    let refused = pay_out(&client(&format!("http://{address}"))).await;
    assert_eq!(refused, Seen::NotSent(NotSentFault::Connect(std::io::ErrorKind::ConnectionRefused)));

    // It speaks no TLS.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let speaking = async {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n").await.expect("it reads");
    };
    let client_over_tls = client(&url);
    let (seen, ()) = tokio::join!(pay_out(&client_over_tls), speaking);
    assert!(matches!(seen, Seen::NotSent(NotSentFault::Tls(_))), "{seen:?}");

    // It lets the handshake wait for ever.
    let waiting = async {
        let kept = listener.accept().await.expect("a connection");
        tokio::time::pause();
        tokio::time::advance(TIMEOUT).await;
        tokio::time::resume();
        kept
    };
    let client_over_tls = client(&url);
    let (seen, _kept) = tokio::join!(pay_out(&client_over_tls), waiting);
    assert_eq!(seen, Seen::NotSent(NotSentFault::Timeout(TIMEOUT)));
}
