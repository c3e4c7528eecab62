//! One attempt to post an alert: no guard, but the limits of a delivery attempt.

use std::time::Duration;

use rcgen::SanType;
use settle_notify::alerts::{AlertError, AlertSender, AlertTransport};
use settle_notify::sender::AttemptFault;
use tokio::net::TcpListener;

use super::receiver::{Behaviour, Receiver};
use super::tls::Authority;
use super::{LONG, SHORT, response};

const BODY: &str = "{\"event\":\"deliveries.dead\"}";

async fn post(url: &str, timeout: Duration, roots: &str) -> Result<(), AlertError> {
    let sender = AlertSender::new(url.parse().unwrap(), timeout, roots.as_bytes()).unwrap();
    sender.post(BODY.as_bytes().to_vec()).await
}

async fn post_to(receiver: &Receiver, timeout: Duration) -> Result<(), AlertError> {
    post(&format!("http://ops:secret@{}/hook?token=1", receiver.address), timeout, "").await
}

#[tokio::test]
async fn an_alert_is_posted_to_a_private_address_over_plain_http() {
    let receiver = Receiver::start(response("202 Accepted", "thanks"), None).await;
    assert_eq!(post_to(&receiver, LONG).await, Ok(()));
    let request = receiver.requests().remove(0);
    assert!(request.starts_with("POST /hook?token=1 HTTP/1.1\r\n"), "{request}");
    for line in [
        "content-type: application/json",
        // `ops:secret`
        "authorization: Basic b3BzOnNlY3JldA==",
        &format!("host: {}", receiver.address),
    ] {
        assert!(request.lines().any(|header| header == line), "{line}: {request}");
    }
    assert!(request.ends_with(&format!("\r\n\r\n{BODY}")), "{request}");
}

#[tokio::test]
async fn anything_but_2xx_is_a_fault_and_redirects_are_not_followed() {
    for status in [302, 404, 500] {
        let receiver =
            Receiver::start(response(&format!("{status} No\r\nlocation: /other"), "no"), None).await;
        assert_eq!(post_to(&receiver, LONG).await, Err(AttemptFault::Status(status).into()));
        assert_eq!(receiver.requests().len(), 1, "{status} was followed");
    }
}

#[tokio::test]
async fn nobody_there_no_answer_and_no_such_host_are_faults() {
    let hanging = Receiver::start(Behaviour::Hang(Vec::new()), None).await;
    assert_eq!(post_to(&hanging, SHORT).await, Err(AttemptFault::Timeout(SHORT).into()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    let refused = AttemptFault::Connect(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(post(&format!("http://{free}/"), LONG, "").await, Err(refused.into()));
    assert_eq!(post("http://nobody.invalid/", LONG, "").await, Err(AttemptFault::Dns.into()));
}

#[tokio::test]
async fn a_certificate_of_the_operators_own_is_trusted_when_it_is_given() {
    let authority = Authority::new();
    let name = SanType::DnsName("localhost".try_into().unwrap());
    let receiver = authority.receiver(|params| params.subject_alt_names = vec![name]).await;
    let url = format!("https://localhost:{}/hook", receiver.address.port());
    assert_eq!(post(&url, LONG, &authority.root()).await, Ok(()));
    assert!(matches!(post(&url, LONG, "").await, Err(AlertError::Receiver(AttemptFault::Tls(_)))));
    assert_eq!(receiver.requests().len(), 1);
}
