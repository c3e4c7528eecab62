//! Settings written as text: durations, lists, and optional values.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

/// A duration such as `10s`, `1h` or `1m30s`; not zero.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    let duration =
        parsed.and_then(|duration| Duration::try_from(duration).ok()).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| format!("{text:?} is not a duration such as 10s, 5m or 1h"))
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
