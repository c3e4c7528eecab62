//! The script in the page: the one that the policy names, and what it does in a document made of doubles.

use std::process::Command;

use base64::Engine;
use sha2::{Digest, Sha256};

use super::{BASE64, POLICY, SCRIPT, html};

#[test]
fn the_page_has_one_script_and_the_policy_allows_it_alone() {
    let html = html();
    assert_eq!(html.to_lowercase().matches("<script").count(), 1);
    let script = html.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let hash = BASE64.encode(Sha256::digest(script));
    let policy = POLICY.as_ref().unwrap().to_str().unwrap();
    let directives: Vec<&str> = policy.split("; ").collect();
    assert!(directives.contains(&"default-src 'none'"), "{policy}");
    assert!(directives.contains(&format!("script-src 'sha256-{hash}'").as_str()), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
}

#[test]
fn nothing_on_the_page_needs_the_script() {
    let html = html();
    assert!(!html.contains("<button"), "a button that does nothing without it");
    assert!(
        html.contains("<details class=\"contents-narrow\">\n<summary>"),
        "contents that open by themselves"
    );
}

/// Browsers are no part of the tests; Node runs the script on the few parts of a document that it uses.
#[test]
fn the_script_copies_samples_says_so_and_marks_where_the_reader_is() {
    let program =
        format!("{}\n{SCRIPT}\n{}", include_str!("script/before.js"), include_str!("script/after.js"));
    let output = Command::new("node").args(["--input-type=module", "--eval", &program]).output();
    let output = output.unwrap_or_else(|fault| panic!("{fault}: install the Debian package nodejs"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
