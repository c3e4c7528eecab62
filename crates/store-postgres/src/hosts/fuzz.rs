//! The reader of a URL on whatever an operator may set: nothing panics, and of a URL with several hosts
//! nothing is lost but what only several hosts need.
//!
//! The corpus is `tests/data/fuzz_urls.txt`, a URL a line. Add the text of a bug before you mend it.

use proptest::prelude::*;
use settle_testing::corpus::{lines, near};

use super::*;

const CORPUS: &str = include_str!("../../tests/data/fuzz_urls.txt");
const PIECES: &[&str] = &[
    "postgres://",
    "postgresql://",
    "://",
    "ada",
    ":",
    "p,w",
    "@",
    "a",
    "[::1]",
    "[",
    ":5432",
    ":99999",
    ",",
    "/",
    "settle",
    "?",
    "&",
    "=",
    "target_session_attrs=read-write",
    "target_session_attrs=standby",
    "target_session_attrs",
    "sslmode=disable",
    "options[search_path]=x",
    "host=/tmp",
    "%",
    "%00",
    "%ff",
    "#",
    "\u{0}",
    "é",
];

/// How many hosts the text names, each with a URL of its own; `None` if it is no URL.
fn read(text: &str) -> Option<usize> {
    let found = urls(text);
    if let Ok(found) = &found {
        let scheme = text.split_once("://").map(|(scheme, _)| format!("{scheme}://")).unwrap_or_default();
        let is_kept = found.iter().all(|url| url.starts_with(&scheme));
        assert!(!found.is_empty() && is_kept, "{found:?}");
        assert!(text.contains([',', '?']) || *found == [text], "{found:?}");
        // What a URL of one host names is that host.
        for url in found {
            assert!(urls(url).is_ok_and(|again| again == [url.as_str()]), "{text:?}: {url:?}");
        }
    }
    let hosts = Hosts::parse(text).ok()?;
    assert_eq!(Some(hosts.hosts.len()), found.ok().map(|found| found.len()), "{text:?}");
    Some(hosts.hosts.len())
}

/// Parameters, each of them kept.
fn any_parameters() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z]{1,8}(=[a-z0-9/,@]{0,8})?", 0..3)
}

#[test]
fn the_corpus() {
    let hosts: Vec<usize> = lines(CORPUS).iter().filter_map(|text| read(text)).collect();
    let with_several = hosts.iter().filter(|hosts| **hosts > 1).count();
    assert!(hosts.len() >= 12 && with_several >= 4, "{hosts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_text_is_a_url_for_each_host_or_refused(text in near(lines(CORPUS), PIECES)) {
        read(&text);
    }

    #[test]
    fn each_host_has_all_that_the_url_says(
        user in prop::option::of("[a-z]{1,4}(:[a-z,:@%]{0,8})?"),
        hosts in prop::collection::vec("([a-z.]{0,8}|\\[::1\\])(:[0-9]{1,4})?", 1..4),
        path in "(/[a-z,@]{0,8})?",
        before in any_parameters(),
        wanted in prop::option::of(prop::sample::select(ATTRIBUTES_KNOWN.to_vec())),
        after in any_parameters(),
    ) {
        let user = user.map_or(String::new(), |user| format!("{user}@"));
        let with = |parameters: Vec<String>| {
            if parameters.is_empty() { path.clone() } else { format!("{path}?{}", parameters.join("&")) }
        };
        let attributes = wanted.map(|wanted| format!("{ATTRIBUTES}={wanted}"));
        let given = with([before.clone(), attributes.into_iter().collect(), after.clone()].concat());
        let kept = with([before, after].concat());
        let expected: Vec<String> =
            hosts.iter().map(|host| format!("postgres://{user}{host}{kept}")).collect();
        let url = format!("postgres://{user}{}{given}", hosts.join(","));
        prop_assert_eq!(urls(&url).ok(), Some(expected), "{}", url);
    }
}
