//! What operators send, on whatever they may send: the pages of lists here, bodies and filters beside what
//! reads them. Nothing panics; what is accepted reads the same after it is written; what is refused is
//! refused in a few words that name the field.
//!
//! The corpora are in `tests/data`, a body or a query a line. Add the text of a bug before you mend it.

use proptest::prelude::*;
use settle_domain::ids::MerchantId;
use settle_domain::page::LIMIT_MAX;
use settle_domain::settlement::parse_object;
use settle_testing::corpus::{lines, near};

use super::fields::Fields;
use super::ledger;
use super::pages::Asked;
use crate::error::{ApiError, BodyFault};

/// Queries of every list.
pub(super) const QUERIES: &str = include_str!("../../tests/data/fuzz_queries.txt");
/// Pieces of queries.
pub(super) const QUERY_PIECES: &[&str] = &[
    "&",
    "=",
    "%",
    "%2",
    "%00",
    "%C3%28",
    "+",
    "-1",
    "0",
    "1",
    "200",
    "201",
    "4294967296",
    "limit",
    "after",
    "state",
    "older_than",
    "merchant_id",
    ".",
    "15m",
    "１",
    "é",
];
/// Details of one refusal: the first twenty, and how many more there are.
const DETAILS_MAX: usize = 21;

/// The fields of a body, if it is an object.
pub(super) fn fields(body: &str) -> Option<Fields> {
    parse_object(body.as_bytes()).ok().map(Fields::of)
}

/// Each detail of a refusal is about one of these fields, or about one that nobody knows. A body that is no
/// object has none.
pub(super) fn assert_named(refusal: &ApiError, names: &[&str]) {
    let details = match refusal {
        ApiError::InvalidBody(BodyFault::Unreadable) => return,
        ApiError::AdminValidation(details) => details,
        other => panic!("{other:?}"),
    };
    assert!((1..=DETAILS_MAX).contains(&details.len()), "{details:?}");
    for detail in details {
        let element = detail.strip_prefix('[').and_then(|rest| rest.split_once("]."));
        let told = element.map_or(detail.as_str(), |(_, told)| told);
        let is_of = |name: &&str| told.strip_prefix(*name).is_some_and(|problem| problem.starts_with(": "));
        let is_about_all = told.starts_with("a list has 1 to ") || told.starts_with("and ");
        let is_named = names.iter().any(is_of) || told.contains(": is not a field of ");
        assert!(is_named || is_about_all, "{detail:?}");
    }
}

/// Whether the query names a page.
fn read_page(query: &str) -> bool {
    let asked = match Asked::<MerchantId>::parse(Some(query)) {
        Ok(asked) => asked,
        Err(refusal) => {
            assert_named(&refusal, &["limit", "after"]);
            return false;
        }
    };
    assert!((1..=LIMIT_MAX).contains(&asked.limit), "{query:?}");
    let after = asked.after.map_or_else(String::new, |after| format!("&after={after}"));
    let again = Asked::<MerchantId>::parse(Some(&format!("limit={}{after}", asked.limit)));
    assert_eq!(again.expect("what was read"), asked, "{query:?}");
    true
}

/// Whether the query names a merchant.
fn read_merchant(query: &str) -> bool {
    match ledger::merchant(Some(query)) {
        Ok(Some(merchant)) => {
            let again = ledger::merchant(Some(&format!("merchant_id={merchant}")));
            assert_eq!(again.expect("what was read"), Some(merchant), "{query:?}");
            true
        }
        Ok(None) => false,
        Err(refusal) => {
            assert_named(&refusal, &["merchant_id"]);
            false
        }
    }
}

#[test]
fn the_corpus() {
    let queries = lines(QUERIES);
    let pages = queries.iter().filter(|query| read_page(query)).count();
    let merchants = queries.iter().filter(|query| read_merchant(query)).count();
    assert!(pages >= 10 && merchants >= 2, "{pages} pages and {merchants} merchants were read");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_query_names_a_page_or_is_refused(query in near(lines(QUERIES), QUERY_PIECES)) {
        read_page(&query);
        read_merchant(&query);
    }
}
