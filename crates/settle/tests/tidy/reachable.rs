//! No dead file: a `mod` declaration includes every source file, down from a root that cargo builds.
//!
//! The compiler ignores a file that nothing declares, so nobody notices when it rots. The test does not
//! follow a `mod` inside an inline module; there is none. `source` forbids `#[path]`.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Violation;
use crate::code::code_only;
use crate::tree::File;

/// Finds the source files that no root reaches.
fn unreachable_files(files: &[&File]) -> Vec<Violation> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&File> = files.iter().copied().filter(|file| is_root(&file.path)).collect();
    while let Some(file) = open.pop() {
        if !reached.insert(file.path.as_str()) {
            continue;
        }
        for candidate in declared(file) {
            open.extend(files.iter().copied().find(|other| other.path == candidate));
        }
    }
    let dead = files.iter().filter(|file| !reached.contains(file.path.as_str()));
    dead.map(|file| Violation::new(&file.path, 1, "no `mod` declares this file: declare it or remove it"))
        .collect()
}

/// Whether cargo builds the file by itself.
fn is_root(path: &str) -> bool {
    let Some(rest) = path.strip_prefix("crates/") else {
        return true;
    };
    let parts: Vec<&str> = rest.split('/').skip(1).collect();
    matches!(
        parts[..],
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// The paths where the modules that a file declares may be.
fn declared(file: &File) -> Vec<String> {
    let path = Path::new(&file.path);
    let parent = path.parent().unwrap_or(Path::new(""));
    let is_folder = is_root(&file.path) || path.file_name().is_some_and(|name| name == "mod.rs");
    let folder = if is_folder { parent.to_owned() } else { path.with_extension("") };
    let code = code_only(&file.text);
    let mut candidates = Vec::new();
    for module in code.lines().filter_map(module_declared) {
        candidates.push(spelt(&folder.join(format!("{module}.rs"))));
        candidates.push(spelt(&folder.join(module).join("mod.rs")));
    }
    candidates
}

/// The name in `mod name;`, with anything before `mod`.
fn module_declared(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.trim().strip_suffix(';')?.split_whitespace().collect();
    match words[..] {
        [.., "mod", name] => Some(name),
        _ => None,
    }
}

/// A path as the tree spells it.
fn spelt(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_none;
    use crate::tree::rust_files;

    #[test]
    fn every_source_file_is_declared() {
        assert_none(&unreachable_files(&rust_files().collect::<Vec<_>>()));
    }

    #[test]
    fn a_file_that_nothing_declares_is_found() {
        let sample = [
            ("crates/a/src/lib.rs", "pub(crate) mod money;\n// mod dead;\nmod text { }\n"),
            ("crates/a/src/money.rs", "mod asset;\n#[cfg(test)]\nmod tests;\n"),
            ("crates/a/src/money/asset.rs", ""),
            ("crates/a/src/money/tests.rs", "mod vectors;\n"),
            ("crates/a/src/money/tests/vectors.rs", ""),
            ("crates/a/src/dead.rs", "mod below;\n"),
            ("crates/a/src/dead/below.rs", ""),
            ("crates/a/tests/routes.rs", "mod client;\n"),
            ("crates/a/tests/client/mod.rs", ""),
            ("crates/a/tests/other/mod.rs", ""),
            ("crates/a/build.rs", ""),
        ];
        let files: Vec<File> = sample.iter().map(|(path, text)| File::new(path, text)).collect();
        let found = unreachable_files(&files.iter().collect::<Vec<_>>());
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(
            paths,
            ["crates/a/src/dead.rs", "crates/a/src/dead/below.rs", "crates/a/tests/other/mod.rs"]
        );
    }
}
