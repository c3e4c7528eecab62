//! Settings that cannot be used, and the setting that was probably meant.

use std::path::PathBuf;

/// The greatest edit distance at which a name is suggested.
const SUGGESTION_DISTANCE_MAX: usize = 4;

/// Settings that cannot be used. The text names the key and where it was set.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The named file does not exist.
    #[error("{0}: there is no such file")]
    MissingFile(PathBuf),
    /// A key that is not a setting.
    #[error("{place}: {key} is not a setting{}", suggested(suggestion.as_deref()))]
    UnknownKey {
        /// Where it was set.
        place: String,
        /// The key as it was written.
        key: String,
        /// The nearest setting, written in the same way: as a key or as a variable.
        suggestion: Option<String>,
    },
    /// A value that does not fit its key.
    #[error("{0}")]
    BadValue(String),
}

fn suggested(name: Option<&str>) -> String {
    name.map_or(String::new(), |name| format!("; did you mean {name}?"))
}

/// The setting whose name is nearest, if one is near.
pub(super) fn nearest(key: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let near = names.map(|name| (strsim::damerau_levenshtein(key, &name), name));
    near.filter(|(distance, _)| *distance <= SUGGESTION_DISTANCE_MAX).min().map(|(_, name)| name)
}
