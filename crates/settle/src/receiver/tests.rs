//! Tests that need the receiver's internals: a behaviour that changes, and text that a terminal must not
//! obey.

use settle_domain::event::EventType;
use settle_domain::ids::DeliveryId;
use settle_domain::seams::ManualClock;
use settle_notify::notification::Notification;
use uuid::Uuid;

use super::*;

const BODY: &str = include_str!("../../../verify/tests/data/notification.json");

fn sent_at() -> Timestamp {
    "2026-01-31T12:31:02Z".parse().unwrap()
}

fn secret() -> WebhookSecret {
    WebhookSecret::parse("whsec".to_owned()).unwrap()
}

/// A receiver whose clock stands still, and the sender of its behaviour.
async fn running() -> (Running, watch::Sender<Behaviour>) {
    let (sender, behaviour) = watch::channel(Behaviour::default());
    let clock = Arc::new(ManualClock::at(sent_at()));
    let receiver = Receiver::bind(0, &secret(), behaviour, clock).await.unwrap();
    let (_, stopping) = watch::channel(false);
    (Running { desk: Arc::new(receiver.desk), show: Arc::new(|_| ()), app: None, stopping }, sender)
}

fn signed(number: u128, body: &str) -> Notification {
    let delivery = DeliveryId(Uuid::from_u128(number));
    Notification::sign(
        &secret(),
        delivery,
        EventType::SettlementCompleted,
        body.as_bytes().to_vec(),
        sent_at(),
    )
}

fn request(notification: Notification) -> Request {
    let mut request = Request::new(notification.body.into());
    *request.method_mut() = Method::POST;
    *request.headers_mut() = notification.headers;
    request
}

#[tokio::test]
async fn the_behaviour_can_be_changed_while_it_runs() {
    let (running, behaviour) = running().await;
    for (number, status) in [(1, 200), (2, 503), (3, 204)] {
        let status = StatusCode::from_u16(status).unwrap();
        behaviour.send_replace(Behaviour { status, delay: Duration::ZERO });
        assert_eq!(take(State(running.clone()), request(signed(number, BODY))).await.status(), status);
    }
    let refused = take(State(running.clone()), request(signed(4, "{}"))).await;
    assert_eq!(refused.status(), 400, "a refusal is a refusal whatever the behaviour");
    assert_eq!(running.desk.tally().to_string(), "4 received: 3 new, 0 duplicate, 0 test, 1 refused");
}

#[tokio::test]
async fn a_terminal_is_shown_nothing_that_it_would_obey() {
    let (running, _behaviour) = running().await;
    let notification = signed(1, &BODY.replace("carteira-são", "\\u001b[2J\\nx \\\"são\\\" \\u202e"));
    let body = Ok(notification.body.into());
    let shown = running.desk.judge(&notification.headers, body, Behaviour::default()).to_string();
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(
        lines,
        [
            "2026-01-31T12:31:02.000000+00:00  NEW        00000000-0000-0000-0000-000000000001  attempt 1  answer 200",
            "    1000.00 BRL → 181.149631 USDC  settlement 0190d3c4-7c00-7000-8000-0000000000a1",
            "    payin E18236120202601311230s0a1b2c3d4e  payout -  destination \\u{1b}[2J\\nx \"são\" \\u{202e}",
        ]
    );
}
