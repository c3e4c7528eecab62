//! A crate has one program of tests: each is compiled and linked with everything below it, which took
//! longer than most of what it ran.

use std::collections::BTreeMap;

use crate::Violation;

/// Programs beside a crate's first, each with the reason.
const APART: &[(&str, &str)] = &[
    ("engine/tests/simulation", "scheduled, replayed and read by itself"),
    ("notify/tests/files", "changes a limit of its process"),
    ("notify/tests/simulation", "scheduled, replayed and read by itself"),
    ("settle/tests/proofs", "scheduled and read by itself"),
    ("settle/tests/tidy", "uses nothing of ours, so that it is quick to run alone"),
    ("store-sqlite/tests/full_disk", "changes a limit of its process"),
];

/// Finds programs of tests beyond a crate's first.
fn second_programs(paths: &[&str]) -> Vec<Violation> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut violations = Vec::new();
    for path in paths {
        let Some(program) = program(path) else { continue };
        if APART.iter().any(|(apart, _)| *apart == program) {
            continue;
        }
        let folder = program.split('/').next().unwrap_or_default();
        if let Some(other) = first.insert(folder, program) {
            let reason =
                format!("{program} is a second program beside {other}: make it a module of that one");
            violations.push(Violation::new(*path, 1, reason));
        }
    }
    violations
}

/// The program whose root the file is, such as `engine/tests/simulation`.
fn program(path: &str) -> Option<&str> {
    let inner = path.strip_prefix("crates/")?;
    let program = inner.strip_suffix("/main.rs").or_else(|| inner.strip_suffix(".rs"))?;
    matches!(program.split('/').collect::<Vec<_>>()[..], [_, "tests", _]).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_none;
    use crate::tree::rust_files;

    #[test]
    fn each_crate_has_one_program_of_tests() {
        let paths: Vec<&str> = rust_files().map(|file| file.path.as_str()).collect();
        assert_none(&second_programs(&paths));
        for (apart, _) in APART {
            assert!(paths.iter().any(|path| program(path) == Some(apart)), "{apart} is no more");
        }
    }

    #[test]
    fn a_second_program_is_found() {
        let found = second_programs(&[
            "crates/a/tests/a/main.rs",
            "crates/a/tests/a/routes.rs",
            "crates/b/tests/b/main.rs",
            "crates/b/tests/more.rs",
            "crates/notify/tests/files.rs",
            "crates/notify/tests/notify/main.rs",
            "crates/b/src/tests/main.rs",
        ]);
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths, ["crates/b/tests/more.rs"]);
    }
}
