//! Settings and their text: durations, lists, optional values, log levels, and values as they are shown.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use figment::value::Value;
use serde::{Deserialize, Deserializer, de::Error};
use tracing::level_filters::LevelFilter;

/// A duration such as `10s`, `1h` or `1m30s`; not zero.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_pause(text)?;
    if duration.is_zero() { Err(no_duration(text)) } else { Ok(duration) }
}

/// A duration that may be zero, as in `0s`.
pub(super) fn parse_pause(text: &str) -> Result<Duration, String> {
    settle_domain::time::parse_duration(text).ok_or_else(|| no_duration(text))
}

fn no_duration(text: &str) -> String {
    format!("{text:?} is not a duration such as 10s, 5m or 1h")
}

/// Reads a setting that may be zero.
pub(super) fn pause<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_pause(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// Reads a setting as [`parse_duration`] does.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

/// A list of values separated by commas; empty for none.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(deserializer)?;
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().map_err(|fault| D::Error::custom(format!("{part:?}: {fault}")))).collect()
}

/// A value, or none when the text is empty. An error does not repeat the text: it may hold a password.
pub(super) fn optional<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(D::Error::custom) }
}

/// What is logged: a level, or a level for each module. A word that is no level would silence the log: it
/// would count as the name of a module.
pub(super) fn log_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let is_level = |part: &str| {
        let level = part.rsplit('=').next().unwrap_or(part);
        level.trim().parse::<LevelFilter>().is_ok() && !level.trim().is_empty()
    };
    if text.split(',').all(is_level) { Ok(text) } else { Err(D::Error::custom("not levels")) }
}

/// A value as a settings file would show it, without quotes.
pub(super) fn printable(value: &Value) -> String {
    match value {
        Value::String(_, text) => text.clone(),
        Value::Num(_, number) => {
            let whole = number.to_i128().map(|number| number.to_string());
            whole
                .or_else(|| number.to_u128().map(|number| number.to_string()))
                .unwrap_or_else(|| number.to_f64().map_or_else(String::new, |number| number.to_string()))
        }
        Value::Bool(_, flag) => flag.to_string(),
        Value::Char(_, letter) => letter.to_string(),
        Value::Empty(..) => String::new(),
        Value::Dict(..) => "a section".to_owned(),
        Value::Array(..) => "an array".to_owned(),
    }
}
