//! What a verdict gives to the connector, and what a policy allows.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use std::net::IpAddr;
use std::sync::Arc;

use settle_notify::guard::stub::StubResolver;
use settle_notify::guard::{ADDRESSES_MAX, Guard, GuardPolicy, LocateFault, ResolveFault, Scheme, UrlFault};

const PUBLIC: &str = "93.184.215.14";

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn guard(policy: GuardPolicy, resolver: &Arc<StubResolver>) -> Guard {
    Guard::new(policy, resolver.clone())
}

fn public_stub() -> Arc<StubResolver> {
    Arc::new(StubResolver::answering(Ok(vec![address(PUBLIC)])))
}

fn development() -> GuardPolicy {
    let allow_networks =
        vec!["127.0.0.0/8".parse().expect("a network"), "fd00::/8".parse().expect("a network")];
    GuardPolicy { allow_networks, allow_http: true, ..GuardPolicy::default() }
}

#[tokio::test]
async fn a_target_names_the_peer_without_its_trailing_dot_and_keeps_path_and_query() {
    let resolver = public_stub();
    let target = guard(GuardPolicy::default(), &resolver)
        .judge("HTTPS://B\u{fc}cher.Example.:8443/H\u{f6}ok/x?token=a%20b&c=/?")
        .await
        .expect("a good URL");
    assert_eq!(target.scheme(), Scheme::Https);
    assert_eq!(target.host(), "xn--bcher-kva.example");
    assert_eq!(target.authority(), "xn--bcher-kva.example:8443");
    assert_eq!(target.path_and_query(), "/H%C3%B6ok/x?token=a%20b&c=/?");
    assert_eq!(target.socket_addresses().collect::<Vec<_>>(), [(address(PUBLIC), 8443).into()]);
    assert_eq!(resolver.questions(), ["xn--bcher-kva.example"]);
    let printed = format!("{target:?}");
    assert!(printed.contains("xn--bcher-kva.example") && !printed.contains("token"), "{printed}");
}

#[tokio::test]
async fn a_literal_takes_the_same_path_with_the_address_as_its_name() {
    let resolver = public_stub();
    let guard = guard(GuardPolicy::default(), &resolver);
    let target = guard.judge("https://[2606:4700:4700:0::1111]:443").await.expect("a good URL");
    assert_eq!(target.host(), "2606:4700:4700::1111");
    assert_eq!(target.authority(), "[2606:4700:4700::1111]");
    assert_eq!(target.path_and_query(), "/");
    assert_eq!(target.addresses(), [address("2606:4700:4700::1111")]);
    let target = guard.judge("https://8.8.8.8:8443?a").await.expect("a good URL");
    assert_eq!((target.host(), target.port()), ("8.8.8.8", 8443));
    assert_eq!(target.authority(), "8.8.8.8:8443");
    assert_eq!(target.path_and_query(), "/?a");
    assert!(resolver.questions().is_empty());
}

#[tokio::test]
async fn every_attempt_is_judged_by_the_answer_of_its_time() {
    let resolver = Arc::new(StubResolver::new().with("rebind.example", [address(PUBLIC)]));
    let guard = guard(GuardPolicy::default(), &resolver);
    assert!(guard.judge("https://rebind.example/").await.is_ok());
    resolver.set("rebind.example", Ok(vec![address(PUBLIC), address("169.254.169.254")]));
    assert_eq!(guard.judge("https://rebind.example/").await, Err(UrlFault::UnsafeUrl));
    for fault in [ResolveFault::TimedOut, ResolveFault::Failed("refused".into())] {
        resolver.set("rebind.example", Err(fault));
        assert_eq!(guard.judge("https://rebind.example/").await, Err(UrlFault::UnresolvableHost));
    }
}

#[tokio::test]
async fn the_tail_of_a_long_answer_is_checked_before_it_is_cut() {
    let resolver = Arc::new(StubResolver::new());
    let guard = guard(GuardPolicy::default(), &resolver);
    let mut answer = vec![address(PUBLIC); ADDRESSES_MAX + 5];
    resolver.set("long.example", Ok(answer.clone()));
    let target = guard.judge("https://long.example/").await.expect("a good URL");
    assert_eq!(target.addresses().len(), ADDRESSES_MAX);
    answer.push(address("10.0.0.1"));
    resolver.set("long.example", Ok(answer));
    assert_eq!(guard.judge("https://long.example/").await, Err(UrlFault::UnsafeUrl));
}

#[tokio::test]
async fn names_that_cannot_resolve_are_not_asked_for() {
    let resolver = public_stub();
    let guard = guard(GuardPolicy::default(), &resolver);
    for url in ["https://a.onion/", "https://A.B.ONION./", "https://shop.invalid/"] {
        assert_eq!(guard.judge(url).await, Err(UrlFault::UnresolvableHost), "{url}");
    }
    // The port and the single label are checked earlier.
    for url in ["https://a.onion:22/", "https://onion/", "https://invalid./"] {
        assert_eq!(guard.judge(url).await, Err(UrlFault::UnsafeUrl), "{url}");
    }
    assert!(resolver.questions().is_empty());
}

#[tokio::test]
async fn allowed_networks_open_literals_and_answers_inside_them_only() {
    let resolver =
        Arc::new(StubResolver::new().with("dev.example", [address("127.0.0.2"), address("fd00::2")]));
    let guard = guard(development(), &resolver);
    for url in
        ["https://127.0.0.1:9443/", "http://127.0.0.1:9000/", "https://[fd00::1]/", "https://dev.example/"]
    {
        assert!(guard.judge(url).await.is_ok(), "{url}");
    }
    for url in
        ["https://10.0.0.1/", "https://[::ffff:127.0.0.1]/", "https://[::1]/", "https://169.254.169.254/"]
    {
        assert_eq!(guard.judge(url).await, Err(UrlFault::UnsafeUrl), "{url}");
    }
    resolver.set("dev.example", Ok(vec![address("127.0.0.2"), address("10.0.0.1")]));
    assert_eq!(guard.judge("https://dev.example/").await, Err(UrlFault::UnsafeUrl));
}

#[tokio::test]
async fn a_policy_opens_no_disguise_and_no_other_port() {
    let resolver = Arc::new(StubResolver::answering(Ok(vec![address("127.0.0.1")])));
    let guard = guard(development(), &resolver);
    for url in [
        "https://127.1/",
        "https://2130706433/",
        "http://127.0.0.1:22/",
        "https://127.0.0.1:80/",
        "http://127.0.0.1:6000/",
    ] {
        assert_eq!(guard.judge(url).await, Err(UrlFault::UnsafeUrl), "{url}");
    }
    for url in ["http://u@127.0.0.1:9000/", "http:/127.0.0.1/", "ftp://127.0.0.1/", "http://127.0.0.1/#"] {
        assert_eq!(guard.judge(url).await, Err(UrlFault::InvalidUrl), "{url}");
    }
    assert!(resolver.questions().is_empty());
    let target = guard.judge("http://127.0.0.1/").await.expect("port 80 comes with http");
    assert_eq!((target.scheme(), target.port()), (Scheme::Http, 80));
    assert_eq!(target.authority(), "127.0.0.1");
}

#[tokio::test]
async fn with_allowed_networks_private_names_are_judged_by_their_addresses() {
    let inside = address("127.0.0.1");
    let resolver = Arc::new(StubResolver::answering(Ok(vec![inside])));
    let guard = guard(development(), &resolver);
    let urls = ["http://localhost:9000/", "https://api.internal/", "https://db/", "http://hook.svc/"];
    for url in urls {
        assert_eq!(guard.judge(url).await.expect("it is inside").addresses(), [inside], "{url}");
    }
    for answer in ["10.0.0.1", "169.254.169.254", PUBLIC] {
        let resolver = Arc::new(StubResolver::answering(Ok(vec![inside, address(answer)])));
        let guard = self::guard(development(), &resolver);
        assert_eq!(guard.judge("https://api.internal/").await, Err(UrlFault::UnsafeUrl), "{answer}");
    }
    let strict = self::guard(GuardPolicy { allow_http: true, ..GuardPolicy::default() }, &resolver);
    for url in urls {
        assert_eq!(strict.judge(url).await, Err(UrlFault::UnsafeUrl), "{url}");
    }
}

#[tokio::test]
async fn a_name_that_does_not_resolve_here_can_be_set_but_not_called() {
    let resolver = Arc::new(StubResolver::new());
    let lenient = guard(GuardPolicy { allow_unresolved: true, ..GuardPolicy::default() }, &resolver);
    assert_eq!(lenient.accept("https://hooks.example/").await, Ok(()));
    assert_eq!(lenient.judge("https://hooks.example/").await, Err(UrlFault::UnresolvableHost));
    assert!(lenient.locate("https://hooks.example/").await.is_err());
    assert_eq!(lenient.accept("https://10.0.0.1/").await, Err(UrlFault::UnsafeUrl));
    let strict = guard(GuardPolicy::default(), &resolver);
    assert_eq!(strict.accept("https://hooks.example/").await, Err(UrlFault::UnresolvableHost));
}

/// Only a resolver that knows better says that our own name servers are away.
#[tokio::test]
async fn a_name_without_an_answer_is_the_names_fault() {
    for fault in [ResolveFault::NoRecords, ResolveFault::TimedOut, ResolveFault::Failed("refused".into())] {
        let resolver = Arc::new(StubResolver::answering(Err(fault)));
        let located = guard(GuardPolicy::default(), &resolver).locate("https://hooks.example/").await;
        assert_eq!(located, Err(LocateFault::Url(UrlFault::UnresolvableHost)));
    }
}

#[test]
fn a_guard_shows_its_policy_and_gives_a_url_to_a_client() {
    let guard = guard(development(), &public_stub());
    assert!(guard.policy().allow_http && guard.policy().allow_networks.len() == 2);
    assert!(format!("{guard:?}").contains("allow_http: true"), "{guard:?}");
    let uri = guard.uri("HTTPS://B\u{fc}cher.Example.:8443/a%20b");
    assert_eq!(uri.expect("a good URL"), "https://xn--bcher-kva.example:8443/a%20b");
    assert_eq!(guard.uri("https://8.8.8.8:25/"), Err(UrlFault::UnsafeUrl));
}
