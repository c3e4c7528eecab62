//! Bounds on what a caller may request, how often, and how slowly.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use settle_api::Limits;
use settle_api::server::ServerLimits;

use crate::answer::Answer;
use crate::merchant::Merchant;
use crate::raw::Connection;
use crate::service::Setup;

on_both_stores! {
    too_many_requests_are_a_429_that_says_when_to_come_back,
    the_rate_is_counted_per_merchant,
    a_rate_of_0_is_unlimited,
    a_refused_key_spends_nothing,
    a_head_that_never_ends_is_cut_off,
    a_connection_that_says_nothing_is_cut_off,
    a_body_that_never_ends_is_a_400,
    an_answer_that_takes_too_long_is_a_503,
    an_answer_left_unread_frees_its_place,
    pages_that_a_merchant_does_not_read_are_bounded,
    a_client_that_has_said_all_still_gets_its_answer,
}

/// Values of `limit` that are refused.
pub const BAD_LIMITS: [&str; 13] = [
    "0",
    "201",
    "-1",
    "abc",
    "",
    "1.0",
    "+5",
    "%2B5",
    "1e2",
    "%201",
    "0x10",
    "9223372036854775808",
    "99999999999999999999999999",
];
/// Values of `offset` that are refused.
pub const BAD_OFFSETS: [&str; 9] =
    ["-1", "10001", "abc", "", "1.0", "+5", "%2B5", "9223372036854775808", "99999999999999999999999999"];

/// The time after which the service cuts off the slow clients of these tests.
const SHORT: Duration = Duration::from_millis(200);

fn number(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).expect("not zero")
}

#[test]
fn the_defaults_are_those_of_the_decisions() {
    let limits = Limits::default();
    assert_eq!((limits.requests_per_second, limits.requests_burst), (Some(number(1_000)), number(2_000)));
    assert_eq!(limits.body_bytes_max, 64 * 1_024);
    assert_eq!(ServerLimits::default().header_timeout, Duration::from_secs(5));
}

/// One request per second, and this many at once.
fn limited(mut setup: Setup, burst: u32) -> Setup {
    setup.limits.requests_per_second = Some(number(1));
    setup.limits.requests_burst = number(burst);
    setup
}

async fn too_many_requests_are_a_429_that_says_when_to_come_back(setup: Setup) {
    let merchant = limited(setup, 3).merchant().await;
    let (admitted, refused) = exhaust(&merchant).await;
    assert!(admitted >= 3, "the burst is admitted: {admitted}");
    refused.refused(429, "locked");
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_eq!(refused.header("ratelimit"), Some("\"merchant\";r=0;t=1"));
    assert_eq!(refused.header("ratelimit-policy"), Some("\"merchant\";q=3;w=3"));
    // Who asks again at once is answered late, and cannot keep the service busy with refusals.
    let asked = Instant::now();
    merchant.get("/v1/webhook").await.refused(429, "locked");
    assert!(asked.elapsed() >= Duration::from_millis(200), "{:?}", asked.elapsed());
}

/// Sends requests until one is refused: returns how many were admitted, and the refusal.
async fn exhaust(merchant: &Merchant) -> (usize, Answer) {
    const REQUESTS_MAX: usize = 1_000;
    for admitted in 0..REQUESTS_MAX {
        let answer = merchant.get("/v1/webhook").await;
        if answer.status == 429 {
            return (admitted, answer);
        }
    }
    panic!("never refused");
}

async fn the_rate_is_counted_per_merchant(setup: Setup) {
    let merchant = limited(setup, 2).merchant().await;
    let (key_id, key) = merchant.service.new_key(merchant.id).await;
    let same = Merchant { service: merchant.service.clone(), id: merchant.id, key_id, key };
    let other = merchant.service.merchant().await;
    exhaust(&merchant).await;
    same.get("/v1/webhook").await.refused(429, "locked");
    other.get("/v1/webhook").await.ok();
}

async fn a_rate_of_0_is_unlimited(setup: Setup) {
    let mut setup = limited(setup, 1);
    setup.limits.requests_per_second = None;
    let merchant = setup.merchant().await;
    for _ in 0..50 {
        merchant.get("/v1/webhook").await.ok();
    }
}

async fn a_refused_key_spends_nothing(setup: Setup) {
    let merchant = limited(setup, 1).merchant().await;
    for _ in 0..5 {
        let ask = merchant.service.ask("GET", "/v1/webhook").header("authorization", "Bearer sk_00");
        ask.send().await.refused(401, "invalid_credentials");
    }
    merchant.get("/v1/webhook").await.ok();
}

async fn a_head_that_never_ends_is_cut_off(mut setup: Setup) {
    setup.server.header_timeout = SHORT;
    let service = setup.start().await;
    let mut connection = Connection::open(&service).await;
    connection.write("GET /v1/webhook HTTP/1.1\r\nhost: settle\r\nauthor").await;
    connection.read_to_close().await;
}

async fn a_connection_that_says_nothing_is_cut_off(mut setup: Setup) {
    setup.server.header_timeout = SHORT;
    let service = setup.start().await;
    let mut connection = Connection::open(&service).await;
    assert_eq!(connection.read_to_close().await, b"");
}

async fn a_body_that_never_ends_is_a_400(mut setup: Setup) {
    setup.limits.body_timeout = SHORT;
    let merchant = setup.merchant().await;
    let mut connection = Connection::open(&merchant.service).await;
    let head = format!(
        "PUT /v1/webhook HTTP/1.1\r\nhost: settle\r\nauthorization: Bearer {}\r\ncontent-length: 9\r\n\r\n{{",
        merchant.key
    );
    connection.write(head).await;
    connection.answer("PUT", "/v1/webhook").await.refused(400, "invalid_body");
}

/// A resolver that never answers.
struct Silent;

#[async_trait::async_trait]
impl settle_notify::guard::Resolve for Silent {
    async fn addresses(
        &self,
        _name: &str,
    ) -> Result<Vec<std::net::IpAddr>, settle_notify::guard::ResolveFault> {
        std::future::pending().await
    }
}

async fn an_answer_that_takes_too_long_is_a_503(mut setup: Setup) {
    setup.limits.request_timeout = SHORT;
    setup.resolver = Some(std::sync::Arc::new(Silent));
    let merchant = setup.merchant().await;
    let body = serde_json::json!({ "webhook_url": "https://merchant.example/", "webhook_secret": "x" });
    merchant.put("/v1/webhook", &body).await.refused(503, "internal_error");
}

async fn pages_that_a_merchant_does_not_read_are_bounded(mut setup: Setup) {
    // Not even an empty page has room.
    setup.limits.unread_bytes_max = 10;
    let merchant = setup.merchant().await;
    for path in ["/v1/settlements", "/v1/webhook/deliveries"] {
        let refused = merchant.get(path).await;
        refused.refused(429, "locked");
        assert_eq!(refused.header("retry-after"), Some("1"));
        assert_eq!(refused.header("ratelimit"), Some("\"unread-answers\";r=0;t=1"));
        let policy = "\"unread-answers\";q=10;qu=\"content-bytes\"";
        assert_eq!(refused.header("ratelimit-policy"), Some(policy));
    }
    merchant.get("/v1/webhook").await.ok();
}

async fn an_answer_left_unread_frees_its_place(mut setup: Setup) {
    setup.server.connections_max = 1;
    setup.server.write_timeout = SHORT;
    let merchant = setup.merchant().await;
    // More answers than the buffers of the sockets hold, and nobody reads them.
    let mut unread = Connection::open(&merchant.service).await;
    unread.write("GET /openapi.json HTTP/1.1\r\nhost: settle\r\n\r\n".repeat(200)).await;
    merchant.get("/v1/webhook").await.ok();
    drop(unread);
}

async fn a_client_that_has_said_all_still_gets_its_answer(setup: Setup) {
    let service = setup.start().await;
    let mut connection = Connection::open(&service).await;
    connection.write("GET /v1/webhook HTTP/1.1\r\nhost: settle\r\n\r\n").await;
    connection.close_half().await;
    connection.answer("GET", "/v1/webhook").await.refused(401, "invalid_credentials");
}
