//! A crate's `tests` are one program: each is compiled and linked with everything below it, which took longer
//! than most of what it ran.

use std::collections::BTreeMap;

use crate::Violation;

/// Programs beside a crate's first, each with the reason.
const APART: &[(&str, &str)] = &[
    ("engine/tests/simulation", "scheduled, replayed and read by itself"),
    ("notify/tests/files", "changes a limit of its process"),
    ("notify/tests/simulation", "scheduled, replayed and read by itself"),
    ("settle/tests/proofs", "run and read by itself: it prints figures"),
    ("settle/tests/tidy", "reads files, and is not linked with what it reads"),
    ("store-sqlite/tests/full_disk", "changes a limit of its process"),
];

/// Finds crates with several programs of tests.
fn second_programs(paths: &[&str]) -> Vec<Violation> {
    let mut by_crate: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for path in paths {
        let Some((folder, program)) = program(path) else { continue };
        if APART.iter().all(|(apart, _)| *apart != program) {
            by_crate.entry(folder).or_default().push(path);
        }
    }
    let several = by_crate.into_values().filter(|roots| roots.len() > 1);
    several
        .map(|roots| {
            let reason = format!("{} are programs of tests: make them modules of one", roots.join(", "));
            Violation::new(roots[0], 1, reason)
        })
        .collect()
}

/// The crate and the program of whose tests the file is the root, such as `engine/tests/simulation`.
fn program(path: &str) -> Option<(&str, &str)> {
    let inner = path.strip_prefix("crates/")?;
    let program = match inner.split('/').collect::<Vec<_>>()[..] {
        [_, "tests", _] => inner.strip_suffix(".rs")?,
        [_, "tests", _, "main.rs"] => inner.strip_suffix("/main.rs")?,
        _ => return None,
    };
    Some((inner.split('/').next()?, program))
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
        let programs: Vec<&str> = paths.iter().filter_map(|path| Some(program(path)?.1)).collect();
        for (apart, _) in APART {
            assert!(programs.contains(apart), "{apart} is no more");
        }
    }

    #[test]
    fn a_second_program_is_found() {
        let found = second_programs(&[
            "crates/a/tests/a/main.rs",
            "crates/a/tests/a/routes.rs",
            "crates/b/tests/b/main.rs",
            "crates/b/tests/more.rs",
            "crates/c/tests/c/main.rs",
            "crates/c/tests/main.rs",
            "crates/d/src/tests/main.rs",
            "crates/d/tests/d/main.rs",
            "crates/notify/tests/files.rs",
            "crates/notify/tests/notify/main.rs",
        ]);
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths, ["crates/b/tests/b/main.rs", "crates/c/tests/c/main.rs"]);
    }
}
