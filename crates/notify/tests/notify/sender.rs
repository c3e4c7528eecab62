//! One delivery attempt against receivers that answer, refuse, hang, flood or lie.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod alerts;
mod receiver;
mod tls;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use receiver::{Behaviour, Receiver};
use settle_domain::event::EventType;
use settle_domain::ids::DeliveryId;
use settle_domain::signature::{TOLERANCE, verify};
use settle_domain::time::Timestamp;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::guard::stub::StubResolver;
use settle_notify::guard::{Guard, GuardPolicy, Resolve, ResolveFault};
use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, AttemptFault, SendError, Sender, Transport};

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Longer than any exchange that ends, also on a loaded machine.
const LONG: Duration = Duration::from_secs(30);
/// For exchanges that never end: short enough to wait for.
const SHORT: Duration = Duration::from_secs(1);

fn notification() -> Notification {
    let secret = WebhookSecret::parse("whsec".to_owned()).unwrap();
    let body = b"{\"event\":\"settlement.completed\"}".to_vec();
    Notification::sign(&secret, DeliveryId::NIL, EventType::SettlementCompleted, body, now())
}

fn now() -> Timestamp {
    Timestamp::from_micros(1_767_225_600_000_000)
}

/// A sender that resolves `merchant.example` to this machine.
fn sender(policy: GuardPolicy, roots: &str) -> Sender {
    sender_within(LONG, policy, roots)
}

fn sender_within(timeout: Duration, policy: GuardPolicy, roots: &str) -> Sender {
    let resolver = StubResolver::new().with("merchant.example", [LOOPBACK]).with("other.example", [LOOPBACK]);
    Sender::new(Guard::new(policy, Arc::new(resolver)), timeout, roots.as_bytes()).unwrap()
}

fn open_policy() -> GuardPolicy {
    GuardPolicy {
        allow_networks: vec!["127.0.0.0/8".parse().unwrap()],
        allow_http: true,
        ..GuardPolicy::default()
    }
}

async fn attempt(behaviour: Behaviour) -> (Attempt, Receiver) {
    attempt_within(LONG, behaviour).await
}

async fn attempt_within(timeout: Duration, behaviour: Behaviour) -> (Attempt, Receiver) {
    let receiver = Receiver::start(behaviour, None).await;
    let url = format!("http://{}/hook?token=1", receiver.address);
    (sender_within(timeout, open_policy(), "").attempt(&url, notification()).await.unwrap(), receiver)
}

fn response(head: &str, body: &str) -> Behaviour {
    Behaviour::Answer(format!("HTTP/1.1 {head}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes())
}

fn failed(response_status: Option<u16>, fault: AttemptFault) -> Attempt {
    Attempt { response_status, fault: Some(fault) }
}

#[tokio::test]
async fn any_2xx_is_delivered_and_the_request_is_what_was_signed() {
    for status in ["200 OK", "201 Created", "204 No Content", "299 Fine"] {
        let (attempt, receiver) = attempt(response(status, "")).await;
        assert!(attempt.is_delivered(), "{status}: {attempt:?}");
        let request = receiver.requests().remove(0);
        assert!(request.starts_with("POST /hook?token=1 HTTP/1.1\r\n"), "{request}");
        let header = |name: &str| {
            let line = request.lines().find_map(|line| line.strip_prefix(&format!("{name}: "))).unwrap();
            line.to_owned()
        };
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let (stamp, signature) = (header("service-timestamp"), header("service-signature"));
        assert_eq!(verify(b"whsec", &stamp, &signature, body.as_bytes(), now(), TOLERANCE), Ok(()));
        assert_eq!(header("service-event"), "settlement.completed");
        assert_eq!(header("service-delivery-id"), DeliveryId::NIL.to_string());
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("host"), receiver.address.to_string());
    }
}

/// What is written in few bytes takes more on the way.
#[tokio::test]
async fn a_url_that_is_longer_once_it_is_encoded_is_delivered_to() {
    let receiver = Receiver::start(response("200 OK", ""), None).await;
    let url = format!("http://{}/{}", receiver.address, "\u{fc}".repeat(900));
    let guard = Guard::new(open_policy(), Arc::new(StubResolver::new()));
    guard.accept(&url).await.unwrap();
    let attempt = sender(open_policy(), "").attempt(&url, notification()).await.unwrap();
    assert!(attempt.is_delivered(), "{attempt:?}");
    assert!(receiver.requests()[0].starts_with(&format!("POST /{} HTTP/1.1", "%C3%BC".repeat(900))));
}

/// That a URL was delivered to says nothing of where its name leads now.
#[tokio::test]
async fn a_name_that_leads_elsewhere_is_judged_again() {
    let answer = response("200 OK\r\nconnection: close", "");
    let receiver = Receiver::start(answer, None).await;
    let url = format!("http://merchant.example:{}/", receiver.address.port());
    let resolver = Arc::new(StubResolver::new().with("merchant.example", [LOOPBACK]));
    let sender = Sender::new(Guard::new(open_policy(), resolver.clone()), LONG, b"").unwrap();
    assert!(sender.attempt(&url, notification()).await.unwrap().is_delivered());
    resolver.set("merchant.example", Ok(vec!["169.254.169.254".parse().unwrap()]));
    let elsewhere = sender.attempt(&url, notification()).await.unwrap();
    assert_eq!(elsewhere, failed(None, AttemptFault::UnsafeAddress));
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn anything_but_2xx_is_a_failure_and_redirects_are_not_followed() {
    for status in [302, 304, 400, 401, 404, 410, 429, 500, 503] {
        let (attempt, receiver) = attempt(response(&format!("{status} No\r\nlocation: /other"), "no")).await;
        assert_eq!(attempt, failed(Some(status), AttemptFault::Status(status)));
        assert_eq!(receiver.requests().len(), 1, "{status} was followed");
    }
}

#[tokio::test]
async fn a_response_that_does_not_complete_in_time_is_a_timeout() {
    let partial = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf";
    for (sent, status) in [("", None), ("HTTP/1.1 200 OK\r\n", None), (partial, Some(200))] {
        let (attempt, _receiver) = attempt_within(SHORT, Behaviour::Hang(sent.as_bytes().to_vec())).await;
        assert_eq!(attempt, failed(status, AttemptFault::Timeout(SHORT)), "{sent}");
    }
}

#[tokio::test]
async fn of_an_endless_body_64_kib_are_read_and_then_it_counts_as_complete() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
    let (attempt, _receiver) = attempt(Behaviour::Flood(head.as_bytes().to_vec())).await;
    assert!(attempt.is_delivered(), "{attempt:?}");
}

#[tokio::test]
async fn a_closed_connection_or_garbage_is_a_broken_response() {
    let broken = failed(None, AttemptFault::Broken);
    assert_eq!(attempt(Behaviour::Close).await.0, broken);
    assert_eq!(attempt(Behaviour::Answer(b"220 smtp.example ESMTP\r\n".to_vec())).await.0, broken);
}

#[tokio::test]
async fn nobody_listening_is_a_refused_connection() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let attempt = sender(open_policy(), "").attempt(&url, notification()).await.unwrap();
    assert_eq!(attempt.fault.unwrap().to_string(), "connection: refused");
}

#[tokio::test]
async fn connections_are_kept_for_the_next_notification() {
    let receiver = Receiver::start(response("200 OK", ""), None).await;
    let sender = sender(open_policy(), "");
    let url = format!("http://{}/", receiver.address);
    for _ in 0..5 {
        assert!(sender.attempt(&url, notification()).await.unwrap().is_delivered());
    }
    assert_eq!((receiver.connections(), receiver.requests().len()), (1, 5));
}

/// The other side ends a kept connection while a request is on its way: nobody can tell whether it arrived.
/// It spends no attempt, so a metric must tell of it.
#[tokio::test]
async fn a_kept_connection_that_ends_without_an_answer_is_replaced_once() {
    for turn in ["answers over a new one", "fails over a new one too"] {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _counting = metrics::set_default_local_recorder(&recorder);
        let answers = if turn.starts_with("answers") { vec![response("200 OK", "")] } else { Vec::new() };
        let first = vec![response("200 OK", ""), Behaviour::Close];
        let receiver = Receiver::script([first, answers].concat()).await;
        let sender = sender(open_policy(), "");
        let url = format!("http://{}/", receiver.address);
        assert!(sender.attempt(&url, notification()).await.unwrap().is_delivered());
        let second = sender.attempt(&url, notification()).await.unwrap();
        let expected = if turn.starts_with("answers") {
            Attempt { response_status: Some(200), fault: None }
        } else {
            failed(None, AttemptFault::Broken)
        };
        assert_eq!(second, expected, "{turn}");
        assert_eq!((receiver.connections(), receiver.requests().len()), (2, 3), "{turn}");
        let counts = recorder.handle().render();
        let counted = "settle_delivery_faults_total{cause=\"kept_connection\"} 1";
        assert!(counts.lines().any(|line| line == counted), "{turn}: {counts}");
    }
}

/// Once a byte of an answer has come, the request has arrived: the answer is the endpoint's own.
#[tokio::test]
async fn a_kept_connection_that_ends_within_an_answer_has_failed() {
    let half = Behaviour::AnswerAndClose(b"HTTP/1.1 200 OK\r\ncontent-".to_vec());
    let receiver = Receiver::script(vec![response("200 OK", ""), half]).await;
    let sender = sender(open_policy(), "");
    let url = format!("http://{}/", receiver.address);
    assert!(sender.attempt(&url, notification()).await.unwrap().is_delivered());
    assert_eq!(sender.attempt(&url, notification()).await, Ok(failed(None, AttemptFault::Broken)));
    assert_eq!((receiver.connections(), receiver.requests().len()), (1, 2));
}

/// The second answer must not become the answer to the next request.
#[tokio::test]
async fn an_answer_that_nobody_asked_for_ends_its_connection() {
    let Behaviour::Answer(mut two) = response("200 OK", "") else { panic!("an answer") };
    two.extend_from_slice(b"HTTP/1.1 299 Smuggled\r\ncontent-length: 0\r\n\r\n");
    let receiver = Receiver::script(vec![Behaviour::Answer(two), response("204 No Content", "")]).await;
    let sender = sender(open_policy(), "");
    let url = format!("http://{}/", receiver.address);
    let mut statuses = Vec::new();
    for _ in 0..2 {
        statuses.push(sender.attempt(&url, notification()).await.unwrap().response_status);
    }
    assert_eq!(statuses, [Some(200), Some(204)]);
    assert_eq!((receiver.connections(), receiver.requests().len()), (2, 2));
}

#[tokio::test]
async fn of_a_head_32_kib_and_100_headers_are_read() {
    let head = |headers: usize, bytes: usize| {
        let line = |number| format!("x-{number}: {}\r\n", "y".repeat(bytes));
        let lines: String = (0..headers).map(line).collect();
        Behaviour::Answer(format!("HTTP/1.1 200 OK\r\n{lines}content-length: 0\r\n\r\n").into_bytes())
    };
    assert!(attempt(head(99, 300)).await.0.is_delivered(), "100 headers, less than 32 KiB");
    assert_eq!(attempt(head(100, 1)).await.0, failed(None, AttemptFault::Broken), "101 headers");
    assert_eq!(attempt(head(10, 4_000)).await.0, failed(None, AttemptFault::Broken), "40 KB");
}

/// Whatever the name: it says nothing about any of them.
#[tokio::test]
async fn name_servers_of_ours_that_do_not_answer_are_no_fault_of_the_endpoint() {
    struct Away;

    #[async_trait::async_trait]
    impl Resolve for Away {
        async fn addresses(&self, _name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
            Err(ResolveFault::TimedOut)
        }

        async fn is_away(&self) -> bool {
            true
        }
    }

    let sender = Sender::new(Guard::new(open_policy(), Arc::new(Away)), LONG, b"").unwrap();
    let attempt = sender.attempt("https://merchant.example/", notification()).await;
    assert_eq!(attempt, Err(SendError::Resolver));
}

#[tokio::test]
async fn an_address_that_is_not_public_is_never_connected_to() {
    let receiver = Receiver::start(response("200 OK", ""), None).await;
    let port = receiver.address.port();
    let strict = GuardPolicy { allow_http: true, ..GuardPolicy::default() };
    let sender = sender(strict, "");
    // A name that has come to lead here since the merchant set it, and literal addresses.
    for host in ["merchant.example", "127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"] {
        let attempt = sender.attempt(&format!("http://{host}:{port}/"), notification()).await.unwrap();
        assert_eq!(attempt, failed(None, AttemptFault::UnsafeAddress), "{host}");
    }
    assert_eq!(receiver.connections(), 0);
}

#[tokio::test]
async fn a_name_without_an_address_is_a_dns_failure() {
    let attempt = sender(open_policy(), "").attempt("https://gone.example/", notification()).await.unwrap();
    assert_eq!(attempt, failed(None, AttemptFault::Dns));
}
