//! Reads the settings, and refuses an unknown name with a suggestion of the nearest one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::Config;

/// The documented defaults.
pub const DEFAULTS: &str = include_str!("defaults.toml");
/// The origin that figment reports for a value from the environment.
pub(super) const ENVIRONMENT: &str = "environment";
/// The prefix of all our environment variables.
const PREFIX: &str = "SETTLE_";
/// The variable that names the file, which is not itself a setting.
pub const CONFIG_VARIABLE: &str = "SETTLE_CONFIG";
/// The variable from which `settle listen` takes its secret; not a setting of the service.
pub const LISTEN_SECRET_VARIABLE: &str = "SETTLE_LISTEN_SECRET";
/// Variables that are ours and are not settings.
const NOT_SETTINGS: [&str; 2] = [CONFIG_VARIABLE, LISTEN_SECRET_VARIABLE];
/// The file that is read when none is named.
const DEFAULT_FILE: &str = "settle.toml";
/// Settings whose values no error repeats.
const SECRETS: [&str; 2] = ["database_url", "master_key"];
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

/// Our environment variables.
pub type Environment = Vec<(String, String)>;

/// Picks out our variables. All others are ignored, and need not even be UTF-8.
pub fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Environment, ConfigError> {
    let ours = variables.filter_map(|(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(PREFIX))?;
        let not_text = |_| ConfigError::BadValue(format!("{name}: is not UTF-8"));
        Some(value.into_string().map_err(not_text).map(|value| (name.clone(), value)))
    });
    ours.collect()
}

/// Reads the settings: defaults, then the file, then the environment. Also returns where each came from.
pub fn load(file: Option<&Path>, environment: &Environment) -> Result<(Config, Figment), ConfigError> {
    let defaults = Figment::from(Toml::string(DEFAULTS));
    let known = leaves(&defaults).map_err(|fault| bad_value(&fault))?;
    let mut figment = defaults;
    let default_file = Path::new(DEFAULT_FILE);
    match file {
        Some(file) if !file.is_file() => return Err(ConfigError::MissingFile(file.to_owned())),
        Some(file) => figment = merge_file(figment, file, &known)?,
        None if default_file.is_file() => figment = merge_file(figment, default_file, &known)?,
        None => {}
    }
    let figment = figment.merge(Variables::read(environment, &known)?);
    let config: Config = figment.extract().map_err(|fault| bad_value(&fault))?;
    config.check().map_err(ConfigError::BadValue)?;
    Ok((config, figment))
}

/// Says which key is wrong, why, and where it was set. It does not repeat secrets.
fn bad_value(fault: &figment::Error) -> ConfigError {
    let key = fault.path.join(".");
    let place = fault.metadata.as_ref().and_then(|metadata| match &metadata.source {
        Some(source) => Some(source.to_string()),
        None => (metadata.name == ENVIRONMENT).then(|| variable(&key)),
    });
    let place = place.map_or(String::new(), |place| format!(" (set in {place})"));
    let problem =
        if SECRETS.contains(&key.as_str()) { "must be text".to_owned() } else { fault.kind.to_string() };
    ConfigError::BadValue(format!("{key}: {problem}{place}"))
}

/// Checks that a file is TOML. An error gives the line and the problem, and quotes nothing of the file: the
/// line may hold a password.
fn check_syntax(file: &Path) -> Result<(), ConfigError> {
    let bad = |problem: String| ConfigError::BadValue(format!("{}: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|fault| bad(fault.to_string()))?;
    let parsed: Result<toml::Table, toml::de::Error> = toml::from_str(&text);
    parsed.map(drop).map_err(|fault| {
        let line_ends = |end: usize| text.bytes().take(end).filter(|byte| *byte == b'\n').count();
        let line = fault.span().map(|span| 1 + line_ends(span.start));
        let place = line.map_or(String::new(), |line| format!("line {line}: "));
        bad(format!("{place}not TOML: {}", fault.message().replace('\n', ", ")))
    })
}

/// Every setting as `section.key`, with its default.
pub(super) fn leaves(figment: &Figment) -> Result<Vec<(String, Value)>, Box<figment::Error>> {
    fn walk(prefix: &str, dict: &Dict, found: &mut Vec<(String, Value)>) {
        for (key, value) in dict {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                Value::Dict(_, inner) => walk(&path, inner, found),
                value => found.push((path, value.clone())),
            }
        }
    }
    let data = figment.data()?;
    let mut found = Vec::new();
    if let Some(dict) = data.get(&Profile::Default) {
        walk("", dict, &mut found);
    }
    Ok(found)
}

fn merge_file(figment: Figment, file: &Path, known: &[(String, Value)]) -> Result<Figment, ConfigError> {
    check_syntax(file)?;
    let own = Figment::from(Toml::file_exact(file));
    for (key, _) in
        leaves(&own).map_err(|_| ConfigError::BadValue(format!("{}: not TOML", file.display())))?
    {
        if !known.iter().any(|(name, _)| *name == key) {
            let suggestion = nearest(&key, known.iter().map(|(name, _)| name.clone()));
            return Err(ConfigError::UnknownKey { place: file.display().to_string(), key, suggestion });
        }
    }
    Ok(figment.merge(Toml::file_exact(file)))
}

fn nearest(key: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let near = names.map(|name| (strsim::damerau_levenshtein(key, &name), name));
    near.filter(|(distance, _)| *distance <= SUGGESTION_DISTANCE_MAX).min().map(|(_, name)| name)
}

/// The name of a setting in the environment.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// The settings from the environment, each with the type of its default. Text stays text: a master key of
/// digits alone is not a number.
struct Variables(Vec<(String, Value)>);

impl Variables {
    fn read(environment: &Environment, known: &[(String, Value)]) -> Result<Variables, ConfigError> {
        let mut found = Vec::new();
        let is_setting = |name: &str| name.starts_with(PREFIX) && !NOT_SETTINGS.contains(&name);
        for (name, text) in environment.iter().filter(|(name, _)| is_setting(name)) {
            let Some((key, default)) = known.iter().find(|(key, _)| variable(key) == *name) else {
                let suggestion = nearest(name, known.iter().map(|(key, _)| variable(key)));
                let place = "the environment".to_owned();
                return Err(ConfigError::UnknownKey { place, key: name.clone(), suggestion });
            };
            let bad = |expected: &str| ConfigError::BadValue(format!("{name}: {text:?} is not {expected}"));
            let value = match default {
                Value::Num(..) => Value::from(text.parse::<u64>().map_err(|_| bad("a whole number"))?),
                Value::Bool(..) => Value::from(text.parse::<bool>().map_err(|_| bad("true or false"))?),
                _ => Value::from(text.as_str()),
            };
            found.push((key.clone(), value));
        }
        Ok(Variables(found))
    }
}

impl Provider for Variables {
    fn metadata(&self) -> Metadata {
        Metadata::named(ENVIRONMENT)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let mut dict = Dict::new();
        for (key, value) in &self.0 {
            match key.split_once('.') {
                None => {
                    dict.insert(key.clone(), value.clone());
                }
                Some((section, key)) => {
                    let entry = dict.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
                    if let Value::Dict(_, inner) = entry {
                        inner.insert(key.to_owned(), value.clone());
                    }
                }
            }
        }
        Ok(Profile::Default.collect(dict))
    }
}
