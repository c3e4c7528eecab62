//! The page's markup: what can be linked to, where links lead, what tables say of their cells.

use std::collections::HashSet;

use settle_domain::error_code::ErrorCode;

use super::{html, pages, values};

/// Headings that people have linked to. An id that is renamed breaks their links: keep it, or leave another
/// element in its place that has it.
const LINKED: [&str; 25] = [
    "overview",
    "quick-start",
    "authentication",
    "paging",
    "settlement-record",
    "numbers",
    "webhook",
    "webhook-refused",
    "notifications",
    "answering",
    "retries",
    "test-deliveries",
    "signatures",
    "reconciling",
    "errors",
    "what-to-retry",
    "rate-limits",
    "versions",
    "objects",
    "codes",
    "codes-used",
    "codes-other",
    "operations-settlements",
    "listSettlements",
    "listSettlements-parameters",
];

/// The elements of a name, each from its tag to its end.
fn elements<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
    let (start, end) = (format!("<{name} "), format!("</{name}>"));
    html.split(start.as_str()).skip(1).filter_map(|rest| rest.split(end.as_str()).next()).collect()
}

#[test]
fn every_heading_has_an_id_and_links_to_itself() {
    for html in pages() {
        check_headings(&html);
    }
    let html = html();
    let ids = values(&html, "id");
    for id in LINKED {
        assert!(ids.contains(&id), "{id}");
    }
}

fn check_headings(html: &str) {
    let mut count = 0;
    for level in 1..=4 {
        assert!(!html.contains(&format!("<h{level}>")), "a heading without an id");
        let headings = elements(html, &format!("h{level}"));
        count += headings.len();
        for heading in headings {
            let id = heading.strip_prefix("id=\"").and_then(|rest| rest.split('"').next()).unwrap();
            assert!(!id.is_empty() && !id.contains(' '), "{heading}");
            assert!(heading.contains(&format!("<a class=\"anchor\" href=\"#{id}\">")), "{heading}");
        }
    }
    assert!(count > 50, "{count}");
}

#[test]
fn every_code_can_be_linked_to_and_answers_do() {
    let html = html();
    let links = values(&html, "href");
    for code in ErrorCode::ALL {
        assert!(links.contains(&format!("#code-{code}").as_str()), "{code}");
    }
    let links_to = |target: &str| links.iter().filter(|link| **link == target).count();
    // Its own row, and every operation that answers with it.
    assert_eq!(links_to("#code-invalid_credentials"), 1 + 6);
}

#[test]
fn every_link_within_the_page_leads_somewhere_and_every_id_is_there_once() {
    for html in pages() {
        let ids = values(&html, "id");
        let distinct: HashSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len());
        let labels = values(&html, "for");
        let targets = values(&html, "href").into_iter().filter_map(|url| url.strip_prefix('#'));
        for target in targets.chain(labels) {
            assert!(distinct.contains(target), "{target}");
        }
    }
}

#[test]
fn both_contents_lead_to_every_section_in_the_order_of_the_page() {
    for html in pages() {
        let contents = elements(&html, "nav");
        assert_eq!(contents.len(), 2);
        let links = values(contents[0], "href");
        assert_eq!(values(contents[1], "href"), links);
        let place = |link: &&str| html.find(&format!(" id=\"{}\"", link.trim_start_matches('#'))).unwrap();
        assert!(links.iter().map(place).is_sorted(), "{links:?}");
        for section in elements(&html, "h2") {
            let id = section.split('"').nth(1).unwrap();
            assert!(links.contains(&format!("#{id}").as_str()), "{id}");
        }
    }
}

#[test]
fn every_cell_of_a_table_says_its_column() {
    for html in pages() {
        let tables = elements(&html, "table");
        let stacking: Vec<&str> =
            tables.iter().copied().filter(|table| table.starts_with("class=\"stacking\"")).collect();
        // The others are sums of the merchants' page: two columns that speak for themselves.
        let sums = usize::from(html.contains("SETTLE_KEY")) * 2;
        assert_eq!(tables.len() - stacking.len(), sums);
        for table in stacking {
            let (head, body) = table.split_once("</thead>").unwrap();
            let headings: Vec<&str> =
                head.split("scope=\"col\">").skip(1).map(|rest| rest.split('<').next().unwrap()).collect();
            let rows: Vec<&str> = body.split("<tr ").skip(1).collect();
            assert!(!rows.is_empty() && headings.len() >= 2, "{table}");
            for row in rows {
                assert_eq!(values(row, "data-label"), headings, "{row}");
                assert_eq!(
                    row.matches("<td ").count() + row.matches("<th ").count(),
                    headings.len(),
                    "{row}"
                );
            }
        }
    }
}

#[test]
fn samples_for_a_shell_can_be_pasted_into_any() {
    for html in pages() {
        let samples = html.split("language-sh\">").skip(1).filter_map(|rest| rest.split("</code>").next());
        let mut count = 0;
        for sample in samples {
            count += 1;
            // zsh takes a comment on the command line for arguments.
            assert!(!sample.contains("class=\"comment\""), "{sample}");
        }
        assert!(count > 10, "{count}");
    }
}

#[test]
fn the_page_has_no_inline_style_and_loads_nothing_from_elsewhere() {
    for html in pages() {
        let lower = html.to_lowercase();
        assert!(!lower.contains(" style=") && !lower.contains("javascript:") && !lower.contains(" onclick="));
        for attribute in ["href", "src"] {
            for url in values(&html, attribute) {
                let is_ours = ["#", "docs/style.css", "docs/settling.svg", "openapi.json", "data:image/png;"];
                assert!(is_ours.iter().any(|start| url.starts_with(start)), "{url}");
            }
        }
        let style = include_str!("../style.css");
        assert!(!style.contains("url(") && !style.contains("@import"));
    }
}
