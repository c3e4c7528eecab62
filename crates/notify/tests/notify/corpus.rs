//! The guard gives every line of the corpus its verdict, and asks no DNS for refusals that need none.
//!
//! A line holds, separated by tabs: the URL as a JSON string, the verdict, and the reason. A `dns=` in the
//! last column is the stubbed answer; `NODATA` is a name without addresses, `NXDOMAIN` an unknown name.

#![expect(clippy::expect_used, reason = "in a test a panic is the message")]

use std::sync::Arc;

use settle_notify::guard::stub::{StubAnswer, StubResolver};
use settle_notify::guard::{Guard, GuardPolicy, ResolveFault, UrlFault};

const CORPUS: &str = include_str!("../data/ssrf_corpus.tsv");

/// Makes sure that the loop below skips no line in silence.
const CASES: usize = 269;

/// A public address for names whose line stubs no answer.
const PUBLIC: &str = "93.184.215.14";

struct Case {
    url: String,
    verdict: String,
    dns: Option<StubAnswer>,
}

impl Case {
    fn read(line: &str) -> Self {
        let columns = line.split('\t').collect::<Vec<_>>();
        let [url, verdict, why] = columns[..] else { panic!("three columns: {line}") };
        let url = serde_json::from_str(&format!("\"{url}\"")).expect("a JSON string");
        let dns = why.split(' ').find_map(|word| word.strip_prefix("dns=")).map(read_answer);
        Self { url, verdict: verdict.to_owned(), dns }
    }

    /// What the line demands: for each stubbed answer the text that [`outcome`] gives.
    fn expectations(&self) -> Vec<(StubAnswer, String)> {
        let public = || read_answer(PUBLIC);
        let absent = || Err(ResolveFault::NoRecords);
        match (self.verdict.as_str(), self.dns.clone()) {
            ("accept", None) => vec![(absent(), "accept, 0 questions".into())],
            ("accept-if-resolves-public", dns) => vec![
                (dns.unwrap_or_else(public), "accept, 1 questions".into()),
                (absent(), "unresolvable_host, 1 questions".into()),
            ],
            // The stub would give a public address, so the refusal cannot come from the answer.
            (fault @ ("invalid_url" | "unsafe_url"), None) => {
                vec![(public(), format!("{fault}, 0 questions"))]
            }
            (fault @ ("unsafe_url" | "unresolvable_host"), Some(dns)) => {
                vec![(dns, format!("{fault}, 1 questions"))]
            }
            (verdict, _) => panic!("unknown verdict: {verdict}"),
        }
    }
}

fn read_answer(text: &str) -> StubAnswer {
    match text {
        "NODATA" => Ok(Vec::new()),
        "NXDOMAIN" => Err(ResolveFault::NoRecords),
        addresses => Ok(addresses.split(',').map(|address| address.parse().expect("an address")).collect()),
    }
}

async fn outcome(url: &str, answer: StubAnswer) -> String {
    let resolver = Arc::new(StubResolver::answering(answer));
    let guard = Guard::new(GuardPolicy::default(), resolver.clone());
    let verdict = match guard.judge(url).await {
        Ok(_) => "accept",
        Err(UrlFault::InvalidUrl) => "invalid_url",
        Err(UrlFault::UnsafeUrl) => "unsafe_url",
        Err(UrlFault::UnresolvableHost) => "unresolvable_host",
    };
    format!("{verdict}, {} questions", resolver.questions().len())
}

#[tokio::test]
async fn every_line_of_the_corpus_gets_its_verdict() {
    let mut checked = 0;
    let mut failures = Vec::new();
    for line in CORPUS.lines().filter(|line| !line.starts_with('#')) {
        let case = Case::read(line);
        checked += 1;
        for (answer, expected) in case.expectations() {
            let found = outcome(&case.url, answer.clone()).await;
            if found != expected {
                let url = case.url.chars().take(80).collect::<String>();
                failures.push(format!("{url:?} with DNS {answer:?}: expected {expected}; found {found}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert_eq!(checked, CASES);
}
