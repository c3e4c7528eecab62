//! The same noun has the same file name in every layer of storage, and the same migration the same name.
//!
//! So a reader who knows one layer knows them all, and a missing file shows what a backend lacks.

use std::collections::BTreeSet;
use std::path::Path;

use crate::Violation;

/// The stored nouns, by the name of their file.
const NOUNS: &[&str] = &[
    "merchants",
    "keys",
    "operators",
    "settlements",
    "imports",
    "deliveries",
    "endpoints",
    "clearings",
    "alerts",
    "corridors",
    "payments",
    "operations",
    "balances",
    "jobs",
    "reports",
];

/// The contract, the backends, and the suite that all backends must pass.
const LAYERS: &[&str] = &[
    "crates/store/src",
    "crates/store-sqlite/src",
    "crates/store-postgres/src",
    "crates/store/src/conformance",
];

const MIGRATIONS: [&str; 2] = ["crates/store-sqlite/migrations", "crates/store-postgres/migrations"];

/// Finds nouns for which a layer has no file.
fn missing_nouns(paths: &[&str]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for layer in LAYERS {
        for noun in NOUNS {
            let candidates = [format!("{layer}/{noun}.rs"), format!("{layer}/{noun}/mod.rs")];
            if !candidates.iter().any(|candidate| paths.contains(&candidate.as_str())) {
                let reason = format!("{layer} has no file for `{noun}`: every layer has the same nouns");
                violations.push(Violation::new(&candidates[0], 1, reason));
            }
        }
    }
    violations
}

/// Finds migrations that only one of the backends has.
fn lone_migrations(paths: &[&str]) -> Vec<Violation> {
    let names = MIGRATIONS.map(|folder| names_in(paths, folder));
    let mut violations = Vec::new();
    for (here, there) in [(0, 1), (1, 0)] {
        if names[here].is_empty() {
            violations.push(Violation::new(
                MIGRATIONS[here],
                1,
                "a backend without migrations has no tables",
            ));
        }
        for name in names[here].difference(&names[there]) {
            let path = format!("{}/{name}", MIGRATIONS[here]);
            let reason =
                format!("{} lacks this migration: both backends go the same steps", MIGRATIONS[there]);
            violations.push(Violation::new(path, 1, reason));
        }
    }
    violations
}

fn names_in<'a>(paths: &[&'a str], folder: &str) -> BTreeSet<&'a str> {
    let below = paths.iter().filter_map(|path| path.strip_prefix(folder)?.strip_prefix('/'));
    below.filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "sql")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_none;
    use crate::tree::files;

    fn paths() -> Vec<&'static str> {
        files().iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn every_layer_has_every_noun() {
        assert_none(&missing_nouns(&paths()));
    }

    #[test]
    fn both_backends_have_the_same_migrations() {
        assert_none(&lone_migrations(&paths()));
    }

    #[test]
    fn a_missing_noun_is_found() {
        let all: Vec<String> = LAYERS
            .iter()
            .flat_map(|layer| NOUNS.iter().map(move |noun| format!("{layer}/{noun}.rs")))
            .collect();
        let mut paths: Vec<&str> = all.iter().map(String::as_str).collect();
        assert_none(&missing_nouns(&paths));

        let removed = paths.swap_remove(NOUNS.len() + 1);
        let found = missing_nouns(&paths);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, removed);
        paths.push("crates/store-sqlite/src/keys/mod.rs");
        assert_none(&missing_nouns(&paths));
    }

    #[test]
    fn a_migration_of_one_backend_is_found() {
        let [sqlite, postgres] = MIGRATIONS;
        let (first, second) = (format!("{sqlite}/0001_start.sql"), format!("{postgres}/0001_start.sql"));
        assert_none(&lone_migrations(&[&first, &second]));

        let third = format!("{postgres}/0002_index.sql");
        let found = lone_migrations(&[&first, &second, &third]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].path, third);
        assert_eq!(lone_migrations(&[]).len(), 2);
    }
}
