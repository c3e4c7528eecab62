//! The rules of this repository that neither the compiler nor clippy can check, each with its reason.
//!
//! | module | its rule |
//! |---|---|
//! | [`circles`] | no files of a crate that use each other |
//! | [`direction`] | which crate may depend on which, and which crates may use which library |
//! | [`faults`] | a `…Fault` has no cause |
//! | [`mirrors`] | the same noun and the same migration in every layer |
//! | [`programs`] | one program a crate in `tests` |
//! | [`reachable`] | no source file that nothing includes |
//! | [`release`] | what a release is built with |
//! | [`sizes`] | limits on files, functions and lines |
//! | [`source`] | how a source file opens, and what it must not contain |
//! | [`text`] | what no file of the repository may contain |
//!
//! # Adding a rule
//!
//! A rule is a function from files, or from the text of one, to [`Violation`]s. It gets two tests: one that
//! it finds nothing in the tree, and one that it finds what it should in a small sample, because a check that
//! cannot fail checks nothing. The text of the violation gives the reason, so that nobody has to look it up.

mod circles;
mod code;
mod direction;
mod faults;
mod manifest;
mod mirrors;
mod programs;
mod reachable;
mod release;
mod sizes;
mod source;
mod text;
mod tree;

use std::fmt;

/// A line that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Violation {
    /// The file, from the root of the repository.
    path: String,
    /// The line, from 1.
    line: usize,
    /// What is wrong, and why.
    reason: String,
}

impl Violation {
    fn new(path: impl Into<String>, line: usize, reason: impl Into<String>) -> Self {
        Self { path: path.into(), line, reason: reason.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.reason)
    }
}

/// Fails a test with every violation on a line of its own.
#[track_caller]
fn assert_none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(lines.is_empty(), "{} broken rule(s)\n{}\n", lines.len(), lines.join("\n"));
}

/// Fails a self-test unless a rule found exactly these lines of its sample.
#[track_caller]
fn assert_lines(violations: &[Violation], expected: &[usize]) {
    let lines: Vec<usize> = violations.iter().map(|violation| violation.line).collect();
    assert_eq!(lines, expected, "{violations:#?}");
}
