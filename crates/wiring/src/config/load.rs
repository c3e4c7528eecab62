//! Reads the settings, and refuses a name that is nearly one of them with a suggestion.

use std::path::Path;

use figment::error::Kind;
use figment::providers::{Format, Toml};
use figment::value::{Dict, Value};
use figment::{Figment, Profile, Provider};

use super::Config;
use super::error::{ConfigError, nearest};
use super::expected::refusal;
use super::exposed;
use super::providers;
use super::text::printable;
use super::variables::{Environment, Variables, place, variable};

/// The documented defaults.
pub const DEFAULTS: &str = include_str!("defaults.toml");
/// The file that is read when none is named.
const DEFAULT_FILE: &str = "settle.toml";

/// The settings in force.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// Where each came from.
    pub sources: Figment,
    /// What an operator should know about them, a sentence each, although the service starts.
    pub warnings: Vec<String>,
}

/// Reads the settings: defaults, then the file, then the environment.
pub fn load(file: Option<&Path>, environment: &Environment) -> Result<Loaded, ConfigError> {
    let defaults = Figment::from(Toml::string(DEFAULTS));
    let known = leaves(&defaults).map_err(|fault| ConfigError::BadValue(fault.to_string()))?;
    let (mut figment, mut warnings) = (defaults, Vec::new());
    let default_file = Path::new(DEFAULT_FILE);
    let file = match file {
        Some(file) if !file.is_file() => return Err(ConfigError::MissingFile(file.to_owned())),
        None => Some(default_file).filter(|file| file.is_file()),
        file => file,
    };
    if let Some(file) = file {
        let own = file_settings(file, &known)?;
        figment = figment.merge(Toml::file_exact(file));
        warnings.extend(exposed::warning(file, &own));
    }
    let variables = Variables::read(environment, &known)?;
    warnings.extend(variables.exposed);
    warnings.extend(variables.unknown.iter().map(|name| not_a_setting(name)));
    let sources = figment.merge(variables.values).merge(variables.files);
    let config: Config = sources.extract().map_err(|fault| bad_value(&fault, &sources, &known))?;
    config.check().map_err(ConfigError::BadValue)?;
    warnings.extend(config.warnings());
    Ok(Loaded { config, sources, warnings })
}

/// Kubernetes gives every container variables named after the services beside it, so a service named settle
/// makes many that start like ours.
fn not_a_setting(name: &str) -> String {
    format!("{name} in the environment is not a setting: it changes nothing")
}

/// Says which key is wrong, what it expects, and where it was set. It does not repeat secrets.
fn bad_value(fault: &figment::Error, sources: &Figment, known: &[(String, Value)]) -> ConfigError {
    let key = fault.path.join(".");
    if let Kind::MissingField(name) = &fault.kind {
        return missing(fault, &format!("{key}.{name}"));
    }
    let place = fault.metadata.as_ref().and_then(|metadata| place(metadata, &key));
    let place = place.map_or(String::new(), |place| format!(" (set in {place})"));
    let own = providers::setting(&key);
    let default = known.iter().find(|(name, _)| *name == key).map(|(_, default)| default).or(own.as_ref());
    let Some(default) = default else {
        return ConfigError::BadValue(format!("{key}: must be a section of settings{place}"));
    };
    let found = sources.find_value(&key).ok().map(|value| printable(&value));
    ConfigError::BadValue(format!("{key}: {}{place}", refusal(&key, default, found.as_deref())))
}

/// Says which key a provider lacks: it is the only section without defaults.
fn missing(fault: &figment::Error, key: &str) -> ConfigError {
    let source = fault.metadata.as_ref().and_then(|metadata| metadata.source.as_ref());
    let file = source.filter(|source| source.file_path().is_some());
    let file = file.map_or(String::new(), |file| format!("it in {file}, or "));
    ConfigError::BadValue(format!("{key}: is missing: set {file}{}", variable(key)))
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

/// The settings of a file. One that we do not know is refused.
fn file_settings(file: &Path, known: &[(String, Value)]) -> Result<Vec<(String, Value)>, ConfigError> {
    check_syntax(file)?;
    let own = leaves(&Figment::from(Toml::file_exact(file)))
        .map_err(|_| ConfigError::BadValue(format!("{}: not TOML", file.display())))?;
    let is_known = |key: &str| known.iter().any(|(name, _)| name == key) || providers::setting(key).is_some();
    if let Some((key, _)) = own.iter().find(|(key, _)| !is_known(key)) {
        let suggestion = nearest(key, known.iter().map(|(name, _)| name.clone()));
        let place = file.display().to_string();
        return Err(ConfigError::UnknownKey { place, key: key.clone(), suggestion });
    }
    Ok(own)
}
