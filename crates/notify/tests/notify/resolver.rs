//! The resolver against a name server in the test: what it asks, and how it reads the answers.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the message")]

mod name_server;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::{A, AAAA};
use name_server::{Reply, a, aaaa, alias, by_type, record, serve};
use settle_notify::guard::{
    DnsResolver, Guard, GuardPolicy, LocateFault, RESOLVE_TIMEOUT, Resolve, ResolveFault, UrlFault,
};

/// Long enough for a loopback answer on a loaded machine, short enough to wait for.
const SILENCE_LIMIT: Duration = Duration::from_millis(150);

async fn resolve(server: SocketAddr, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
    DnsResolver::new(&[server], RESOLVE_TIMEOUT).expect("a resolver").addresses(name).await
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().expect("an address")).collect()
}

#[tokio::test]
async fn both_types_are_asked_for_the_absolute_name_and_nothing_else() {
    let (server, questions) = serve(|query| {
        by_type(query, Reply::Records(vec![a("shop.example.")]), Reply::Records(vec![aaaa("shop.example.")]))
    })
    .await;
    assert_eq!(
        resolve(server, "shop.example").await,
        Ok(addresses(&["93.184.215.14", "2606:4700:4700::1111"]))
    );
    // A slow machine may ask twice, but never for anything else.
    let questions = questions.lock().unwrap().iter().cloned().collect::<BTreeSet<_>>();
    assert_eq!(questions.into_iter().collect::<Vec<_>>(), ["shop.example. A", "shop.example. AAAA"]);
}

#[tokio::test]
async fn a_name_with_records_of_one_type_only_resolves() {
    let (server, _) =
        serve(|query| by_type(query, Reply::Records(vec![a("four.example.")]), Reply::Records(vec![]))).await;
    assert_eq!(resolve(server, "four.example").await, Ok(addresses(&["93.184.215.14"])));
    let (server, _) =
        serve(|query| by_type(query, Reply::Records(vec![]), Reply::Records(vec![aaaa("six.example.")])))
            .await;
    assert_eq!(resolve(server, "six.example").await, Ok(addresses(&["2606:4700:4700::1111"])));
}

#[tokio::test]
async fn no_such_name_and_no_such_record_are_both_no_records() {
    let (server, _) = serve(|_| Reply::Code(ResponseCode::NXDomain)).await;
    assert_eq!(resolve(server, "nothing.example").await, Err(ResolveFault::NoRecords));
    let (server, _) = serve(|_| Reply::Records(vec![])).await;
    assert_eq!(resolve(server, "empty.example").await, Err(ResolveFault::NoRecords));
}

/// On a machine without a hosts file this test has nothing to check.
#[tokio::test]
async fn the_host_file_is_not_read() {
    let (server, _) = serve(|_| Reply::Code(ResponseCode::NXDomain)).await;
    let resolver = DnsResolver::new(&[server], RESOLVE_TIMEOUT).expect("a resolver");
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    // `localhost` itself never leaves the machine (RFC 6761); the guard refuses it earlier.
    let names = lines.flat_map(|line| line.split_whitespace().skip(1)).filter(|name| *name != "localhost");
    for name in names {
        assert_eq!(resolver.addresses(name).await, Err(ResolveFault::NoRecords), "{name}");
    }
}

#[tokio::test]
async fn aliases_are_followed_within_an_answer_and_across_answers() {
    let (server, _) = serve(|query| {
        let chain = vec![alias("www.example.", "host.example."), a("host.example.")];
        by_type(query, Reply::Records(chain), Reply::Records(vec![alias("www.example.", "host.example.")]))
    })
    .await;
    assert_eq!(resolve(server, "www.example").await, Ok(addresses(&["93.184.215.14"])));

    let (server, questions) = serve(|query| match query.name().to_ascii().as_str() {
        "first.example." => Reply::Records(vec![alias("first.example.", "second.example.")]),
        _ => by_type(query, Reply::Records(vec![a("second.example.")]), Reply::Records(vec![])),
    })
    .await;
    assert_eq!(resolve(server, "first.example").await, Ok(addresses(&["93.184.215.14"])));
    assert!(questions.lock().unwrap().contains(&"second.example. A".to_owned()));
}

#[tokio::test]
async fn an_error_on_one_type_refuses_the_name_even_if_the_other_is_good() {
    for code in [ResponseCode::ServFail, ResponseCode::Refused, ResponseCode::NotImp] {
        let (server, _) =
            serve(move |query| by_type(query, Reply::Records(vec![a("half.example.")]), Reply::Code(code)))
                .await;
        let fault = resolve(server, "half.example").await.expect_err("half an answer");
        assert!(matches!(fault, ResolveFault::Failed(_)), "{code}: {fault:?}");
    }
}

#[tokio::test]
async fn silence_times_out_whole_or_half() {
    let (server, _) = serve(|_| Reply::Silence).await;
    let resolver = DnsResolver::new(&[server], SILENCE_LIMIT).expect("a resolver");
    assert_eq!(resolver.addresses("silent.example").await, Err(ResolveFault::TimedOut));

    let (server, _) =
        serve(|query| by_type(query, Reply::Records(vec![a("half.example.")]), Reply::Silence)).await;
    let resolver = DnsResolver::new(&[server], SILENCE_LIMIT).expect("a resolver");
    assert_eq!(resolver.addresses("half.example").await, Err(ResolveFault::TimedOut));
}

/// No single question takes too long here, only all of them together.
#[tokio::test]
async fn the_limit_covers_a_whole_chain_of_slow_aliases() {
    let heard = Mutex::new(BTreeSet::new());
    let (server, _) = serve(move |query| {
        let name = query.name().to_ascii();
        // The server drops every question once, so every alias costs a repetition.
        if heard.lock().unwrap().insert((name.clone(), query.query_type().to_string())) {
            return Reply::Silence;
        }
        Reply::Records(vec![alias(&name, &format!("next.{name}"))])
    })
    .await;
    let resolver = DnsResolver::new(&[server], SILENCE_LIMIT).expect("a resolver");
    assert_eq!(resolver.addresses("chain.example").await, Err(ResolveFault::TimedOut));
}

#[tokio::test]
async fn a_lost_question_is_repeated_within_the_limit() {
    let lost = Mutex::new(2);
    let (server, _) = serve(move |query| {
        let mut lost = lost.lock().unwrap();
        if *lost > 0 {
            *lost -= 1;
            return Reply::Silence;
        }
        by_type(query, Reply::Records(vec![a("late.example.")]), Reply::Records(vec![]))
    })
    .await;
    assert_eq!(resolve(server, "late.example").await, Ok(addresses(&["93.184.215.14"])));
}

/// The name's own servers fail: ours say so, and answer for other names.
#[tokio::test]
async fn a_name_without_an_answer_is_not_name_servers_without_one() {
    for answer in [ResponseCode::NoError, ResponseCode::NXDomain] {
        let (server, _) = serve(move |query| match query.name().to_ascii().as_str() {
            "a.root-servers.net." => Reply::Code(answer),
            _ => Reply::Code(ResponseCode::ServFail),
        })
        .await;
        let resolver = DnsResolver::new(&[server], RESOLVE_TIMEOUT).expect("a resolver");
        let guard = Guard::new(GuardPolicy::default(), Arc::new(resolver));
        let located = guard.locate("https://lame.example/").await;
        assert_eq!(located, Err(LocateFault::Url(UrlFault::UnresolvableHost)), "{answer}");
    }
}

#[tokio::test]
async fn name_servers_that_answer_nothing_are_away_and_are_asked_once_for_many_names() {
    type Answer = fn() -> Reply;
    let answers: [Answer; 2] = [|| Reply::Code(ResponseCode::ServFail), || Reply::Silence];
    for answer in answers {
        let (server, questions) = serve(move |_| answer()).await;
        let resolver = DnsResolver::new(&[server], SILENCE_LIMIT).expect("a resolver");
        let guard = Guard::new(GuardPolicy::default(), Arc::new(resolver));
        let located = futures::future::join_all((0..20).map(|number| {
            let guard = guard.clone();
            async move { guard.locate(&format!("https://shop{number}.example/")).await }
        }));
        for located in located.await {
            assert_eq!(located, Err(LocateFault::ResolverAway));
        }
        assert_eq!(guard.judge("https://shop.example/").await, Err(UrlFault::UnresolvableHost));
        let questions = questions.lock().unwrap();
        let probes = questions.iter().filter(|question| question.as_str() == "a.root-servers.net. A").count();
        // One question, which the resolver repeats.
        assert!((1..=3).contains(&probes), "{probes}");
    }
    // Nobody is there.
    let free = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let resolver = DnsResolver::new(&[free], RESOLVE_TIMEOUT).expect("a resolver");
    let guard = Guard::new(GuardPolicy::default(), Arc::new(resolver));
    assert_eq!(guard.locate("https://shop.example/").await, Err(LocateFault::ResolverAway));
}

#[tokio::test]
async fn no_such_name_is_the_names_own_fault_and_needs_no_further_question() {
    let (server, questions) = serve(|_| Reply::Code(ResponseCode::NXDomain)).await;
    let resolver = DnsResolver::new(&[server], RESOLVE_TIMEOUT).expect("a resolver");
    let guard = Guard::new(GuardPolicy::default(), Arc::new(resolver));
    let located = guard.locate("https://nothing.example/").await;
    assert_eq!(located, Err(LocateFault::Url(UrlFault::UnresolvableHost)));
    assert!(questions.lock().unwrap().iter().all(|question| question.starts_with("nothing.example.")));
}

#[tokio::test]
async fn no_answer_is_kept_for_the_next_attempt() {
    let present = Arc::new(Mutex::new(None));
    let current = present.clone();
    let (server, _) = serve(move |query| match *current.lock().unwrap() {
        None => Reply::Code(ResponseCode::NXDomain),
        Some(data) => {
            let found = record("moving.example.", RData::A(data));
            by_type(query, Reply::Records(vec![found]), Reply::Records(vec![]))
        }
    })
    .await;
    let resolver = DnsResolver::new(&[server], RESOLVE_TIMEOUT).expect("a resolver");
    let guard = Guard::new(GuardPolicy::default(), Arc::new(resolver));
    let url = "https://moving.example/";
    assert_eq!(guard.judge(url).await, Err(UrlFault::UnresolvableHost));
    *present.lock().unwrap() = Some(A::new(93, 184, 215, 14));
    assert!(guard.judge(url).await.is_ok());
    *present.lock().unwrap() = Some(A::new(169, 254, 169, 254));
    assert_eq!(guard.judge(url).await, Err(UrlFault::UnsafeUrl));
}

#[tokio::test]
async fn a_private_aaaa_beside_a_public_a_refuses_the_name() {
    let (server, _) = serve(|query| {
        let loopback = record("mixed.example.", RData::AAAA(AAAA::new(0, 0, 0, 0, 0, 0, 0, 1)));
        by_type(query, Reply::Records(vec![a("mixed.example.")]), Reply::Records(vec![loopback]))
    })
    .await;
    let resolver = DnsResolver::new(&[server], RESOLVE_TIMEOUT).expect("a resolver");
    let guard = Guard::new(GuardPolicy::default(), Arc::new(resolver));
    assert_eq!(guard.judge("https://mixed.example/").await, Err(UrlFault::UnsafeUrl));
}

/// The name that every machine knows without a name server.
#[tokio::test]
async fn private_names_are_asked_for_as_every_program_here_does() {
    let (server, questions) = serve(|_| Reply::Code(ResponseCode::NXDomain)).await;
    let resolver = DnsResolver::new(&[server], RESOLVE_TIMEOUT).expect("a resolver");
    let found = resolver.private_addresses("localhost").await.expect("an address");
    assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    assert!(questions.lock().unwrap().is_empty());
}
