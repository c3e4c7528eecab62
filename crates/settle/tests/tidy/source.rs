//! How a source file opens, and what its code must not contain.

use crate::Violation;
use crate::code::code_only;
use crate::tree::File;

/// Code that is not wanted anywhere, with the reason.
const UNWANTED: &[(&str, &str)] = &[
    ("#[allow(", "use `#[expect(…, reason = \"…\")]`: it says why, and ends when its cause does"),
    ("#![allow(", "use `#![expect(…, reason = \"…\")]`: it says why, and ends when its cause does"),
    ("todo!", "finish it, or return an error that says what is missing"),
    ("unimplemented!", "finish it, or return an error that says what is missing"),
    ("#[path", "a file has one place and is compiled once: what tests share stands in crates/testing"),
    ("#[ignore", "a test that does not run proves nothing: mend it or remove it"),
];

/// Code that is not wanted in tests, with the reason.
const UNWANTED_IN_TESTS: &[(&str, &str)] = &[
    (
        "sleep(",
        "wait for a signal, not for time: a sleep is too long on most days and too short on the bad one",
    ),
    ("sleep_until(", "wait for a signal, not for time"),
];

/// Every file says first what it is for.
fn opening(file: &File) -> Vec<Violation> {
    let first = file.text.lines().next().unwrap_or_default();
    let says_something = first.strip_prefix("//!").is_some_and(|rest| rest.trim().len() > 1);
    if says_something {
        return Vec::new();
    }
    vec![Violation::new(&file.path, 1, "a file opens with `//!` and one sentence of purpose")]
}

/// Code that is not wanted. What stands in a comment or a string is not code.
fn unwanted(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut in_tests = file.is_test();
    for (index, line) in code_only(&file.text).lines().enumerate() {
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        let in_tests_only = if in_tests { UNWANTED_IN_TESTS } else { &[] };
        for (pattern, reason) in UNWANTED.iter().chain(in_tests_only) {
            if line.contains(pattern) {
                violations.push(Violation::new(&file.path, index + 1, format!("`{pattern}`: {reason}")));
            }
        }
        if line.contains("cfg_attr(") && line.contains(" allow(") {
            violations.push(Violation::new(&file.path, index + 1, "use `expect` with a reason, not `allow`"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::rust_files;
    use crate::{assert_lines, assert_none};

    #[test]
    fn every_file_opens_with_its_purpose() {
        assert_none(&rust_files().flat_map(opening).collect::<Vec<_>>());
    }

    #[test]
    fn no_file_has_unwanted_code() {
        assert_none(&rust_files().flat_map(unwanted).collect::<Vec<_>>());
    }

    #[test]
    fn a_file_without_a_purpose_is_found() {
        for text in ["", "use std::fmt;\n", "// A comment.\n", "//!\n//! Late.\n", "\n//! Second line.\n"] {
            assert_lines(&opening(&File::new("crates/api/src/lib.rs", text)), &[1]);
        }
        assert_lines(&opening(&File::new("crates/api/src/lib.rs", "//! The API.\n")), &[]);
    }

    #[test]
    fn unwanted_code_is_found() {
        let text = "//! Says `todo!` and #[allow(this)].\n#![allow(dead_code)]\n#[allow(dead_code)]\n\
                    fn a() { todo!() }\nfn b() { unimplemented!(\"todo!\") }\n#[ignore = \"slow\"]\n\
                    #[cfg_attr(test, allow(dead_code))]\nfn c() { sleep(ONE); }\n\
                    #[cfg(test)]\nmod tests {\n    fn d() { tokio::time::sleep(ONE).await; }\n}\n";
        let found = unwanted(&File::new("crates/api/src/lib.rs", text));
        assert_lines(&found, &[2, 3, 4, 5, 6, 7, 11]);
        assert_lines(&unwanted(&File::new("crates/api/tests/a.rs", "fn a() { sleep(ONE); }\n")), &[1]);
        let text = "#[path = \"../other/tests/dice.rs\"]\nmod dice;\n";
        assert_lines(&unwanted(&File::new("crates/api/tests/a.rs", text)), &[1]);
    }
}
