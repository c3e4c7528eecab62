//! How a source file must open, and what its code must not contain.

use crate::Violation;
use crate::code::{code_only, words};
use crate::tree::File;

/// Code that is forbidden everywhere, with the reason.
const UNWANTED: &[(&str, &str)] = &[
    ("#[allow(", "use `#[expect(…, reason = \"…\")]`: it says why, and ends when its cause does"),
    ("#![allow(", "use `#![expect(…, reason = \"…\")]`: it says why, and ends when its cause does"),
    ("todo!", "finish it, or return an error that says what is missing"),
    ("unimplemented!", "finish it, or return an error that says what is missing"),
    ("#[path", "a file has one place and is compiled once: what tests share stands in crates/testing"),
    ("#[ignore", "a test that does not run proves nothing: mend it or remove it"),
];

/// Words that are forbidden in the code of tests. An import under another name contains them too.
const UNWANTED_IN_TESTS: &[&str] = &["sleep", "sleep_until"];
const NO_SLEEP: &str =
    "wait for a signal, not for time: a sleep is too long on most days and too short on the bad one";

/// The only file of tests that may sleep: its tests run under a paused clock, where a sleep costs no time.
const MAY_SLEEP: &str = "crates/testing/src/virtual_time.rs";

/// Every file must first say what it is for.
fn opening(file: &File) -> Vec<Violation> {
    let first = file.text.lines().next().unwrap_or_default();
    let says_something = first.strip_prefix("//!").is_some_and(|rest| rest.trim().len() > 1);
    if says_something {
        return Vec::new();
    }
    vec![Violation::new(&file.path, 1, "a file opens with `//!` and one sentence of purpose")]
}

/// Finds forbidden code. Comments and strings are not code.
fn unwanted(file: &File) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut in_tests = file.is_test();
    for (index, line) in code_only(&file.text).lines().enumerate() {
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        for (pattern, reason) in UNWANTED {
            if line.contains(pattern) {
                violations.push(Violation::new(&file.path, index + 1, format!("`{pattern}`: {reason}")));
            }
        }
        let in_tests_only = if in_tests && file.path != MAY_SLEEP { UNWANTED_IN_TESTS } else { &[] };
        for word in in_tests_only.iter().filter(|word| words(line, word).next().is_some()) {
            violations.push(Violation::new(&file.path, index + 1, format!("`{word}`: {NO_SLEEP}")));
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
    fn the_exception_is_there_and_needed() {
        let sleeps = |file: &File| code_only(&file.text).contains("sleep(");
        assert!(rust_files().any(|file| file.path == MAY_SLEEP && sleeps(file)), "take {MAY_SLEEP} off");
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
        let text = "use tokio::time::sleep as pass;\nuse tokio::time::{Instant, sleep_until};\n";
        assert_lines(&unwanted(&File::new("crates/api/tests/a.rs", text)), &[1, 2]);
        assert_lines(&unwanted(&File::new(MAY_SLEEP, text)), &[]);
        let text = "#[path = \"../other/tests/chance.rs\"]\nmod chance;\n";
        assert_lines(&unwanted(&File::new("crates/api/tests/a.rs", text)), &[1]);
    }
}
