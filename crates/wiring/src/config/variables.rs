//! The settings from the environment.

use std::ffi::OsString;
use std::path::Path;

use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider};

use super::error::{ConfigError, nearest};
use super::expected::refusal;
use super::exposed;
use super::providers;

/// The origins that figment reports for a value from a variable, and from a file that a variable names.
const ENVIRONMENT: &str = "environment";
const ENVIRONMENT_FILES: &str = "files named in the environment";
/// The prefix of all our environment variables.
const PREFIX: &str = "SETTLE_";
/// The variable that names the file, which is not itself a setting.
const CONFIG_VARIABLE: &str = "SETTLE_CONFIG";
/// The variable from which `settle listen` takes its secret; not a setting of the service.
pub const LISTEN_SECRET_VARIABLE: &str = "SETTLE_LISTEN_SECRET";
/// The variable from which `settle sandbox` and `settle provider check` take their secret; not a setting
/// either.
pub const SANDBOX_SECRET_VARIABLE: &str = "SETTLE_SANDBOX_SECRET";
/// Where commands find the operator's listener; not a setting.
pub const OPERATOR_URL_VARIABLE: &str = "SETTLE_OPERATOR_URL";
/// Whose token they call it with.
pub const OPERATOR_TOKEN_VARIABLE: &str = "SETTLE_OPERATOR_TOKEN";
/// Variables that are ours and are not settings.
const NOT_SETTINGS: [&str; 5] = [
    CONFIG_VARIABLE,
    LISTEN_SECRET_VARIABLE,
    SANDBOX_SECRET_VARIABLE,
    OPERATOR_URL_VARIABLE,
    OPERATOR_TOKEN_VARIABLE,
];
/// The end of a variable that names a file which holds the value.
const FILE_SUFFIX: &str = "_FILE";
/// Settings that a variable with that end can set: containers mount secrets as files.
const FROM_FILES: [&str; 3] = ["database_url", "master_key", "alerts.url"];

/// What stands between a section and a setting in a name.
const SEPARATOR: &str = "__";
/// What other programs call the URL of their database.
const DATABASE_NAMES: [&str; 4] =
    ["SETTLE_DB", "SETTLE_DB_URL", "SETTLE_POSTGRES_URL", "SETTLE_DATABASE__URL"];

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

/// The name of a setting in the environment.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', SEPARATOR).to_uppercase())
}

/// The file or the variable that set a key; `None` for a default.
pub(super) fn place(metadata: &Metadata, key: &str) -> Option<String> {
    match &*metadata.name {
        ENVIRONMENT => Some(variable(key)),
        ENVIRONMENT_FILES => Some(variable(key) + FILE_SUFFIX),
        _ => metadata.source.as_ref().filter(|source| source.file_path().is_some()).map(ToString::to_string),
    }
}

/// The settings from the environment, each with the type of its default. Text stays text: a master key of
/// digits alone is not a number.
pub(super) struct Variables {
    pub(super) values: Values,
    /// Those from files that variables name.
    pub(super) files: Values,
    /// Those of these files that everybody can read, each with what to do.
    pub(super) exposed: Vec<String>,
    /// Variables that begin like ours and are like none of them.
    pub(super) unknown: Vec<String>,
}

impl Variables {
    /// A name that is nearly one of ours, or that has two underscores, is a mistake; any other may belong to
    /// somebody else.
    pub(super) fn read(
        environment: &Environment,
        known: &[(String, Value)],
    ) -> Result<Variables, ConfigError> {
        let mut variables = Variables {
            values: Values { origin: ENVIRONMENT, found: Vec::new() },
            files: Values { origin: ENVIRONMENT_FILES, found: Vec::new() },
            exposed: Vec::new(),
            unknown: Vec::new(),
        };
        let is_setting = |name: &str| name.starts_with(PREFIX) && !NOT_SETTINGS.contains(&name);
        for (name, text) in environment.iter().filter(|(name, _)| is_setting(name)) {
            let text = Text { name, text };
            if let Some((key, default)) = setting(name, known) {
                variables.values.found.push((key.to_owned(), text.value(key, default)?));
            } else if let Some(key) = from_file(name) {
                let found = (key, text.file()?);
                variables
                    .exposed
                    .extend(exposed::warning(Path::new(text.text), std::slice::from_ref(&found)));
                variables.files.found.push(found);
            } else if let Some(key) = name.strip_prefix(PREFIX).and_then(providers::key_of) {
                variables.values.found.push((key, Value::from(text.text)));
            } else if is_of_kubernetes(name) {
                variables.unknown.push(name.clone());
            } else if let Some(suggestion) = suggestion(name, known) {
                return Err(not_ours(name, Some(suggestion)));
            } else if name.contains(SEPARATOR) {
                return Err(not_ours(name, None));
            } else {
                variables.unknown.push(name.clone());
            }
        }
        if let Some((key, _)) = variables.files.found.iter().find(|(key, _)| variables.values.has(key)) {
            let name = variable(key);
            let problem = format!("{name} and {name}{FILE_SUFFIX} are both set: set one of them");
            return Err(ConfigError::BadValue(problem));
        }
        Ok(variables)
    }
}

fn not_ours(name: &str, suggestion: Option<String>) -> ConfigError {
    ConfigError::UnknownKey { place: "the environment".to_owned(), key: name.to_owned(), suggestion }
}

/// The variable that was probably meant: the nearest of all, or whichever its section has most of.
fn suggestion(name: &str, known: &[(String, Value)]) -> Option<String> {
    if DATABASE_NAMES.contains(&name) {
        return Some(variable("database_url"));
    }
    let own = name.strip_prefix(PREFIX).and_then(providers::nearest_key).map(|key| variable(&key));
    own.or_else(|| nearest(name, names(known)))
}

fn setting<'a>(name: &str, known: &'a [(String, Value)]) -> Option<(&'a str, &'a Value)> {
    known.iter().find(|(key, _)| variable(key) == name).map(|(key, default)| (key.as_str(), default))
}

/// Every name that a variable can have, apart from those of providers.
fn names(known: &[(String, Value)]) -> impl Iterator<Item = String> {
    let files = FROM_FILES.into_iter().map(|key| variable(key) + FILE_SUFFIX);
    known.iter().map(|(key, _)| variable(key)).chain(files)
}

fn from_file(name: &str) -> Option<String> {
    let name = name.strip_suffix(FILE_SUFFIX)?;
    let own =
        || name.strip_prefix(PREFIX).and_then(providers::key_of).filter(|key| providers::is_secret(key));
    FROM_FILES.into_iter().find(|key| variable(key) == name).map(str::to_owned).or_else(own)
}

/// Whether Kubernetes would give a variable this name. A service named settle-database makes
/// `SETTLE_DATABASE_PORT`, which is near to a setting and nobody's mistake. Two underscores are ours alone.
fn is_of_kubernetes(name: &str) -> bool {
    let is_port = |rest: &str| {
        let mut parts = rest.split('_');
        let number = parts.next().is_some_and(|number| number.parse::<u16>().is_ok());
        number && parts.next().is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol))
    };
    let ends = ["_PORT", "_SERVICE_HOST", "_SERVICE_PORT"];
    !name.contains(SEPARATOR)
        && (ends.iter().any(|end| name.ends_with(end))
            || name.contains("_SERVICE_PORT_")
            || name.match_indices("_PORT_").any(|(at, found)| is_port(&name[at + found.len()..])))
}

/// A variable and its text.
struct Text<'a> {
    name: &'a str,
    text: &'a str,
}

impl Text<'_> {
    /// The value, with the type of the setting's default.
    fn value(&self, key: &str, default: &Value) -> Result<Value, ConfigError> {
        let bad = || {
            let problem = refusal(key, default, Some(self.text));
            ConfigError::BadValue(format!("{}: {problem}", self.name))
        };
        Ok(match default {
            Value::Num(..) => Value::from(self.text.parse::<u64>().map_err(|_| bad())?),
            Value::Bool(..) => Value::from(self.text.parse::<bool>().map_err(|_| bad())?),
            _ => Value::from(self.text),
        })
    }

    /// The content of the file that it names, without the line break at the end. An empty one would count as
    /// not set: without its master key the service would make another.
    fn file(&self) -> Result<Value, ConfigError> {
        let read = std::fs::read_to_string(self.text);
        let read = read.map_err(|fault| {
            ConfigError::BadValue(format!("{}: cannot read {}: {fault}", self.name, self.text))
        })?;
        if read.trim().is_empty() {
            return Err(ConfigError::BadValue(format!("{}: {} is empty", self.name, self.text)));
        }
        Ok(Value::from(read.trim_end_matches(['\r', '\n'])))
    }
}

/// Settings of one origin.
pub(super) struct Values {
    origin: &'static str,
    found: Vec<(String, Value)>,
}

impl Values {
    fn has(&self, key: &str) -> bool {
        self.found.iter().any(|(found, _)| found == key)
    }
}

impl Provider for Values {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin)
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let mut dict = Dict::new();
        for (key, value) in &self.found {
            let mut sections: Vec<&str> = key.split('.').collect();
            let Some(last) = sections.pop() else { continue };
            let mut inner = Some(&mut dict);
            for section in sections {
                inner = inner.and_then(|dict| {
                    let entry = dict.entry(section.to_owned()).or_insert_with(|| Value::from(Dict::new()));
                    if let Value::Dict(_, inner) = entry { Some(inner) } else { None }
                });
            }
            if let Some(inner) = inner {
                inner.insert(last.to_owned(), value.clone());
            }
        }
        Ok(Profile::Default.collect(dict))
    }
}
