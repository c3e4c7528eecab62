//! The reader of a URL on whatever an operator may set: nothing panics, and of a URL with several hosts
//! nothing is lost but what only several hosts need.

use proptest::prelude::*;

use super::*;

/// Pieces of URLs in any order, or any text.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
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
    let soup = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..12);
    prop_oneof![3 => soup.prop_map(|pieces| pieces.concat()), 1 => any::<String>()]
}

/// Parameters, each of them kept.
fn any_parameters() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[a-z]{1,8}(=[a-z0-9/,@]{0,8})?", 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_text_is_a_url_for_each_host_or_refused(text in any_text()) {
        let found = urls(&text);
        if let Ok(found) = &found {
            let scheme = text.split_once("://").map(|(scheme, _)| format!("{scheme}://")).unwrap_or_default();
            let is_kept = found.iter().all(|url| url.starts_with(&scheme));
            prop_assert!(!found.is_empty() && is_kept, "{:?}", found);
            prop_assert!(text.contains([',', '?']) || *found == [text.clone()], "{:?}", found);
        }
        if let Ok(hosts) = Hosts::parse(&text) {
            prop_assert_eq!(Some(hosts.hosts.len()), found.ok().map(|found| found.len()));
        }
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
