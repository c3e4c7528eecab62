//! The files of the repository, read once.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Entries that do not belong to the repository: those of `.gitignore`, and git's own folder.
const NOT_OURS: &[&str] = &[".git", "target", ".cache", "data"];

/// A text file.
pub struct File {
    /// From the root of the repository, with `/`.
    pub path: String,
    pub text: String,
}

impl File {
    #[must_use]
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    #[must_use]
    pub fn is_rust(&self) -> bool {
        self.has_extension("rs")
    }

    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path).extension().is_some_and(|found| found == extension)
    }

    /// The folder in `crates/` that contains the file.
    #[must_use]
    pub fn crate_folder(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split_once('/').map(|(folder, _)| folder)
    }

    /// Whether the whole file is test code: a test binary, a module of tests, one that fuzzes its parent, the
    /// conformance suite, or the crate that tests share.
    #[must_use]
    pub fn is_test(&self) -> bool {
        if self.crate_folder() == Some("testing") {
            return true;
        }
        let is_of_tests = |part: &str| {
            matches!(part, "tests" | "tests.rs" | "fuzz.rs" | "benches" | "conformance" | "conformance.rs")
        };
        self.path.split('/').any(is_of_tests)
    }

    /// Lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// Every text file of the repository, by path.
pub fn files() -> &'static [File] {
    static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut files = Vec::new();
        for entry in entries(&root) {
            let name = name_of(&entry);
            if !NOT_OURS.contains(&name.as_str()) {
                collect(&entry, &name, &mut files);
            }
        }
        files
    });
    &FILES
}

/// The Rust files of the repository.
pub fn rust_files() -> impl Iterator<Item = &'static File> {
    files().iter().filter(|file| file.is_rust())
}

fn collect(path: &Path, name: &str, files: &mut Vec<File>) {
    if path.is_dir() {
        for entry in entries(path) {
            collect(&entry, &format!("{name}/{}", name_of(&entry)), files);
        }
        return;
    }
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    // A file that is not text has no lines to check.
    if let Ok(text) = String::from_utf8(bytes) {
        files.push(File { path: name.to_owned(), text });
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let read = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut entries: Vec<PathBuf> = read.filter_map(Result::ok).map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn the_tree_is_found() {
    assert!(files().iter().any(|file| file.path == "Cargo.toml"));
    assert!(rust_files().any(|file| file.path == "crates/settle/src/main.rs"));
}
