//! Reads as much of a `Cargo.toml` as the rules need: tables, keys and dependencies.
//!
//! It reads line by line, which is enough for our manifests: one key a line.

/// One entry of a dependency table.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The real name of the package, also if the manifest renames it.
    pub package: String,
    pub line: usize,
    pub is_dev: bool,
    /// The text after the name.
    pub specification: String,
}

/// The dependencies of a manifest, of every kind and for every platform, including a workspace's table.
#[must_use]
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    for entry in entries(text) {
        let Some((table, single)) = dependency_table(&entry.table) else {
            continue;
        };
        // `[dependencies.name]` spreads one entry over several lines; its first line names it.
        let (name, specification) = match single {
            Some(name) => (name.to_owned(), format!("{} = {}", entry.key, entry.value)),
            None => (first_part(&entry.key).to_owned(), entry.value.clone()),
        };
        let package = quoted_after(&specification, "package").unwrap_or(name);
        found.push(Dependency {
            package,
            line: entry.line,
            is_dev: table == "dev-dependencies",
            specification,
        });
    }
    found
}

/// Whether the manifest has this key, spelt `table` and `key = value`.
#[must_use]
pub fn has(text: &str, table: &str, key: &str, value: &str) -> bool {
    entries(text).iter().any(|entry| entry.table == table && entry.key == key && entry.value == value)
}

struct Entry {
    table: String,
    key: String,
    value: String,
    line: usize,
}

fn entries(text: &str) -> Vec<Entry> {
    let mut table = String::new();
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            header.trim().clone_into(&mut table);
        } else if !line.starts_with('#')
            && let Some((key, value)) = line.split_once('=')
        {
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            found.push(Entry { table: table.clone(), key, value, line: index + 1 });
        }
    }
    found
}

/// The kind of a dependency table and, in the long form, the name at its end; `None` for other tables.
fn dependency_table(table: &str) -> Option<(&str, Option<&str>)> {
    const KINDS: [&str; 3] = ["dev-dependencies", "build-dependencies", "dependencies"];
    for kind in KINDS {
        if table == kind || table.ends_with(&format!(".{kind}")) {
            return Some((kind, None));
        }
        let start = format!("{kind}.");
        if let Some(name) = table.strip_prefix(&start) {
            return Some((kind, Some(name)));
        }
    }
    None
}

fn first_part(key: &str) -> &str {
    key.split('.').next().unwrap_or(key).trim_matches('"')
}

fn quoted_after(text: &str, key: &str) -> Option<String> {
    let (_, rest) = text.split_once(key)?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start().strip_prefix('"')?;
    value.split_once('"').map(|(quoted, _)| quoted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"
[package]
name = "sample"

[dependencies]
axum.workspace = true
database = { package = "sqlx", version = "0.9" }
# reqwest = "0.13"

[target.'cfg(unix)'.dependencies]
rustix = "1"

[dependencies.hyper]
features = ["client"]

[dev-dependencies]
insta.workspace = true

[lints]
workspace = true
"#;

    #[test]
    fn every_kind_of_dependency_is_seen() {
        let found = dependencies(SAMPLE);
        let names: Vec<(&str, usize, bool)> =
            found.iter().map(|entry| (entry.package.as_str(), entry.line, entry.is_dev)).collect();
        let expected = [
            ("axum", 6, false),
            ("sqlx", 7, false),
            ("rustix", 11, false),
            ("hyper", 14, false),
            ("insta", 17, true),
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn a_key_is_found_in_its_table_only() {
        assert!(has(SAMPLE, "lints", "workspace", "true"));
        assert!(!has(SAMPLE, "package", "workspace", "true"));
    }
}
