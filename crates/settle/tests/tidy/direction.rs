//! Which crate may depend on which, and which crates may use which library.
//!
//! The manifests decide what compiles; this test decides what the manifests may say. A new edge between
//! crates is the biggest kind of change to the architecture: add it here first, with its reason.

use crate::Violation;
use crate::code::{code_only, is_word};
use crate::manifest::{Dependency, dependencies, has};
use crate::tree::File;

/// One of our crates, by its folder in `crates/`.
struct Crate {
    folder: &'static str,
    /// Our crates that it may depend on, by folder.
    may_use: &'static [&'static str],
    /// Our crates that its tests may also depend on.
    tests_may_use: &'static [&'static str],
}

const CRATES: &[Crate] = &[
    Crate { folder: "domain", may_use: &[], tests_may_use: &[] },
    Crate { folder: "store", may_use: &["domain"], tests_may_use: &[] },
    Crate { folder: "store-sqlite", may_use: &["domain", "store"], tests_may_use: &["testing"] },
    // The model test compares both backends with each other.
    Crate {
        folder: "store-postgres",
        may_use: &["domain", "store"],
        tests_may_use: &["store-sqlite", "testing"],
    },
    // It knows only the contract of a store; its tests run it on real stores.
    Crate {
        folder: "outbox",
        may_use: &["domain", "store"],
        tests_may_use: &["store-sqlite", "store-postgres", "testing"],
    },
    Crate { folder: "shards", may_use: &["domain", "store"], tests_may_use: &[] },
    // The dispatcher and the alerter know only the contract of a store; their tests run them on real stores.
    // Another test checks that `verify` accepts what `notify` sends.
    Crate {
        folder: "notify",
        may_use: &["domain", "store", "outbox", "shards"],
        tests_may_use: &["store-sqlite", "store-postgres", "verify", "testing"],
    },
    // The commands, the demo and the benchmark share it, and the API may: it knows none of them. Its tests
    // run it on real stores.
    Crate {
        folder: "accounts",
        may_use: &["domain", "store"],
        tests_may_use: &["store-sqlite", "store-postgres", "testing"],
    },
    // What is said to a provider, and the client that says it. It knows no store: what an answer means for a
    // payment is decided elsewhere.
    Crate { folder: "provider", may_use: &["domain"], tests_may_use: &[] },
    Crate {
        folder: "engine",
        may_use: &["domain", "store", "outbox", "shards", "provider"],
        tests_may_use: &["store-sqlite", "store-postgres", "testing"],
    },
    // A provider of its own: it speaks the protocol, and knows nothing of the service.
    Crate { folder: "sandbox", may_use: &["domain", "provider"], tests_may_use: &[] },
    // Code that tests share. No `may_use` names it, so it is never part of the service.
    Crate { folder: "testing", may_use: &["store", "store-sqlite", "store-postgres"], tests_may_use: &[] },
    // For merchants, who have none of our other crates: it depends on none.
    Crate { folder: "verify", may_use: &[], tests_may_use: &[] },
    // Handlers know only the contract of a store. Their tests need a real store, and verify notifications as
    // a merchant's receiver does.
    Crate {
        folder: "api",
        may_use: &["domain", "store", "outbox", "shards", "notify", "accounts", "provider", "engine"],
        tests_may_use: &["store-sqlite", "store-postgres", "verify", "testing"],
    },
    // The only crate of the service that names a backend: it opens the store that the settings name.
    Crate {
        folder: "wiring",
        may_use: &[
            "domain",
            "store",
            "store-sqlite",
            "store-postgres",
            "outbox",
            "shards",
            "notify",
            "provider",
            "engine",
        ],
        tests_may_use: &[],
    },
    // It runs the binary, which has it as a command; it knows nothing of the other commands. Of the engine it
    // uses the check of the books that the measured payments leave behind.
    Crate {
        folder: "bench",
        may_use: &["domain", "store", "outbox", "notify", "engine", "api", "wiring", "accounts"],
        tests_may_use: &[],
    },
    Crate {
        folder: "settle",
        may_use: &[
            "domain", "store", "outbox", "shards", "notify", "provider", "engine", "api", "verify", "wiring",
            "accounts", "bench", "sandbox",
        ],
        tests_may_use: &["store-sqlite", "store-postgres", "testing"],
    },
];

/// Listed crates that are not written yet.
const TO_COME: &[&str] = &[];

/// A library that only some crates may use.
struct Reserved {
    /// The package; a `-` at the end stands for all packages that start with it.
    package: &'static str,
    /// The crates that may use it, by folder.
    owners: &'static [&'static str],
    /// The crates whose tests may also use it.
    tests_of: &'static [&'static str],
    reason: &'static str,
}

const SQL: &str = "SQL stands in the backends, and in the bare file that the benchmark compares them with";
const HTTP_SERVER: &str = "HTTP is the edge: only the API, the binary that wires it, the benchmark, which \
                           serves a page through the same layers, and the sandbox, a service of its own, \
                           know about it";
const HTTP_CLIENT: &str = "whatever goes out passes the address guard or the client of the provider protocol; \
                           `settle listen` alone calls a developer's own app";
const DNS: &str = "names are resolved by the address guard only, which checks what they resolve to";

const ASYNC: &str = "the domain has no I/O and no async, so that every rule is tested as a plain function";
const ALL_BUT_DOMAIN: &[&str] = &[
    "store",
    "store-sqlite",
    "store-postgres",
    "outbox",
    "shards",
    "notify",
    "provider",
    "engine",
    "api",
    "accounts",
    "wiring",
    "bench",
    "sandbox",
    "settle",
    "testing",
];

const RESERVED: &[Reserved] = &[
    Reserved { package: "tokio", owners: ALL_BUT_DOMAIN, tests_of: &[], reason: ASYNC },
    Reserved { package: "async-trait", owners: ALL_BUT_DOMAIN, tests_of: &[], reason: ASYNC },
    Reserved { package: "rusqlite", owners: &["store-sqlite", "bench"], tests_of: &[], reason: SQL },
    Reserved { package: "sqlx", owners: &["store-postgres"], tests_of: &[], reason: SQL },
    Reserved { package: "sqlx-", owners: &["store-postgres"], tests_of: &[], reason: SQL },
    Reserved {
        package: "axum",
        owners: &["api", "bench", "settle", "sandbox"],
        tests_of: &[],
        reason: HTTP_SERVER,
    },
    Reserved { package: "axum-", owners: &["api", "settle"], tests_of: &[], reason: HTTP_SERVER },
    Reserved {
        package: "reqwest",
        owners: &["notify", "provider"],
        tests_of: &["settle"],
        reason: HTTP_CLIENT,
    },
    Reserved { package: "ureq", owners: &["notify", "provider"], tests_of: &["settle"], reason: HTTP_CLIENT },
    Reserved { package: "hickory-", owners: &["notify"], tests_of: &["settle"], reason: DNS },
];

/// Libraries whose features decide whether they are a client or a server.
const CLIENT_BY_FEATURE: &[&str] = &["hyper", "hyper-util"];
const CLIENT_OWNERS: &[&str] = &["notify", "provider", "settle"];

/// Finds crates that are not listed, and listed crates that do not exist.
fn unlisted<'a>(folders: impl Iterator<Item = &'a str>) -> Vec<Violation> {
    let folders: Vec<&str> = folders.collect();
    let at = |folder: &str, reason: &str| Violation::new(format!("crates/{folder}/Cargo.toml"), 1, reason);
    let mut violations = Vec::new();
    for folder in &folders {
        if !CRATES.iter().any(|known| known.folder == *folder) {
            violations
                .push(at(folder, "a crate that the direction does not know: list it, with what it may use"));
        }
        if TO_COME.contains(folder) {
            violations.push(at(folder, "the crate has come: take it off TO_COME"));
        }
    }
    for known in CRATES {
        if !folders.contains(&known.folder) && !TO_COME.contains(&known.folder) {
            violations.push(at(known.folder, "a listed crate that is gone: take it off the list"));
        }
    }
    violations
}

/// Finds the dependencies that a manifest may not have.
fn manifest_violations(folder: &str, text: &str) -> Vec<Violation> {
    let path = format!("crates/{folder}/Cargo.toml");
    let mut violations: Vec<Violation> = dependencies(text)
        .iter()
        .filter_map(|dependency| Some(Violation::new(&path, dependency.line, refusal(folder, dependency)?)))
        .collect();
    if !has(text, "lints", "workspace", "true") {
        violations.push(Violation::new(
            &path,
            1,
            "`[lints] workspace = true` is missing: one set of lints for all",
        ));
    }
    violations
}

/// Why a crate may not have this dependency.
fn refusal(folder: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.package.as_str();
    if let Some(target) = folder_of_package(name) {
        let allowed = may_use(folder, target, dependency.is_dev);
        return (!allowed)
            .then(|| format!("{folder} may not depend on {target}: it is against the direction"));
    }
    for reserved in RESERVED {
        let is_meant = match reserved.package.strip_suffix('-') {
            Some(_) => name.starts_with(reserved.package),
            None => name == reserved.package,
        };
        let in_tests = dependency.is_dev && reserved.tests_of.contains(&folder);
        if is_meant && !in_tests && !reserved.owners.contains(&folder) {
            let owners = reserved.owners.join(", ");
            return Some(format!("`{name}` is for {owners}: {}", reserved.reason));
        }
    }
    let is_client = CLIENT_BY_FEATURE.contains(&name) && dependency.specification.contains("\"client");
    if is_client && !dependency.is_dev && !CLIENT_OWNERS.contains(&folder) {
        return Some(format!("the client of `{name}` is for {}: {HTTP_CLIENT}", CLIENT_OWNERS.join(" and ")));
    }
    None
}

fn folder_of_package(package: &str) -> Option<&str> {
    match package {
        "settle" => Some("settle"),
        _ => package.strip_prefix("settle-"),
    }
}

fn may_use(folder: &str, target: &str, in_tests: bool) -> bool {
    let Some(known) = CRATES.iter().find(|known| known.folder == folder) else {
        return false;
    };
    // An integration test of a crate names the crate itself.
    known.may_use.contains(&target) || in_tests && (folder == target || known.tests_may_use.contains(&target))
}

/// Finds names of our crates that a source file may not use. A manifest may allow a crate to tests only, as a
/// dev-dependency; the source shows whether only tests use it.
fn source_violations(file: &File) -> Vec<Violation> {
    let Some(folder) = file.crate_folder() else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    let mut in_tests = file.is_test();
    for (index, line) in code_only(&file.text).lines().enumerate() {
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        for target in our_crates(line) {
            if !may_use(folder, &target, in_tests) && target != folder {
                let reason = format!("{folder} may not use {target} here: it is against the direction");
                violations.push(Violation::new(&file.path, index + 1, reason));
            }
        }
    }
    violations
}

/// The folders of our crates that a line of code names.
fn our_crates(line: &str) -> Vec<String> {
    let names = line.split(|character| !is_word(character));
    names
        .filter_map(|name| name.strip_prefix("settle_"))
        .map(|name| name.replace('_', "-"))
        .filter(|folder| CRATES.iter().any(|known| known.folder == folder))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{files, rust_files};
    use crate::{assert_lines, assert_none};

    fn manifests() -> impl Iterator<Item = (&'static str, &'static File)> {
        let manifests = files().iter().filter(|file| file.path.ends_with("/Cargo.toml"));
        manifests.filter_map(|file| Some((file.crate_folder()?, file)))
    }

    #[test]
    fn every_crate_is_listed() {
        assert_none(&unlisted(manifests().map(|(folder, _)| folder)));
    }

    #[test]
    fn manifests_keep_the_direction() {
        for (folder, manifest) in manifests() {
            assert_none(&manifest_violations(folder, &manifest.text));
        }
    }

    #[test]
    fn sources_keep_the_direction() {
        assert_none(&rust_files().flat_map(source_violations).collect::<Vec<_>>());
    }

    #[test]
    fn the_workspace_gives_nobody_an_http_client() {
        let root =
            files().iter().find(|file| file.path == "Cargo.toml").expect("the workspace has a manifest");
        for dependency in dependencies(&root.text) {
            let is_client = CLIENT_BY_FEATURE.contains(&dependency.package.as_str())
                && dependency.specification.contains("\"client");
            assert!(
                !is_client,
                "Cargo.toml:{}: every crate that inherits it would get a client",
                dependency.line
            );
        }
    }

    #[test]
    fn an_unknown_and_a_missing_crate_are_found() {
        let found = unlisted(["domain", "util"].into_iter());
        assert!(found.iter().any(|violation| violation.path == "crates/util/Cargo.toml"), "{found:?}");
        assert!(found.iter().any(|violation| violation.path == "crates/api/Cargo.toml"), "{found:?}");
    }

    #[test]
    fn a_dependency_against_the_direction_is_found() {
        let manifest = "[dependencies]\nsettle-domain.workspace = true\nsettle-api.workspace = true\n\
                        sqlx.workspace = true\naxum-extra = \"1\"\nhickory-proto = \"1\"\n\
                        hyper = { version = \"1\", features = [\"client\"] }\n[lints]\nworkspace = true\n";
        assert_lines(&manifest_violations("store", manifest), &[3, 4, 5, 6, 7]);
        let manifest = "[dependencies]\nsettle-store.workspace = true\ntokio.workspace = true\n";
        assert_lines(&manifest_violations("domain", manifest), &[2, 3, 1]);
        assert_lines(&manifest_violations("verify", manifest), &[2, 3, 1]);
    }

    #[test]
    fn tests_may_use_what_is_listed_for_them() {
        let manifest = "[dev-dependencies]\nsettle-store-sqlite.workspace = true\nsettle-engine.workspace = true\n\
                        [lints]\nworkspace = true\n";
        assert_lines(&manifest_violations("api", manifest), &[]);
        assert_lines(&manifest_violations("store", manifest), &[2, 3]);
    }

    #[test]
    fn the_crate_for_tests_is_a_dev_dependency_only() {
        assert!(CRATES.iter().all(|known| !known.may_use.contains(&"testing")));
        let manifest = "[dependencies]\nsettle-testing.workspace = true\n[dev-dependencies]\n\
                        settle-testing.workspace = true\n[lints]\nworkspace = true\n";
        assert_lines(&manifest_violations("settle", manifest), &[2]);
        let text = "use settle_testing::chance::Chance;\n";
        assert_lines(&source_violations(&File::new("crates/settle/src/main.rs", text)), &[1]);
        assert_lines(&source_violations(&File::new("crates/settle/tests/proofs.rs", text)), &[]);
    }

    #[test]
    fn a_backend_in_the_source_is_found() {
        let text = "//! `settle_store_sqlite` may be spoken of.\nuse settle_store_sqlite::Store;\n\
                    #[cfg(test)]\nmod tests {\n    use settle_store_sqlite::Store;\n}\n";
        assert_lines(&source_violations(&File::new("crates/api/src/lib.rs", text)), &[2]);
        assert_lines(&source_violations(&File::new("crates/engine/src/lib.rs", text)), &[2]);
        assert_lines(&source_violations(&File::new("crates/verify/src/lib.rs", text)), &[2, 5]);
        assert_lines(&source_violations(&File::new("crates/wiring/src/lib.rs", text)), &[]);
        assert_lines(&source_violations(&File::new("crates/settle/src/main.rs", text)), &[2]);
    }
}
