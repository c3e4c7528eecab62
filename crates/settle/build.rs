//! Tells the binary from which commit it is built, for `settle --version`.

use std::path::Path;
use std::process::Command;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // Git appends a line here whenever the commit changes. Without a repository, as in a source archive, the
    // version stands alone.
    let log = root.join(".git/logs/HEAD");
    if log.exists() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let commit = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).current_dir(&root).output();
    let commit = commit.ok().filter(|output| output.status.success());
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    let version = match commit.trim() {
        "" => env!("CARGO_PKG_VERSION").to_owned(),
        commit => format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
    };
    println!("cargo::rustc-env=SETTLE_VERSION={version}");
    println!("cargo::rustc-env=SETTLE_COMMIT={}", commit.trim());
}
