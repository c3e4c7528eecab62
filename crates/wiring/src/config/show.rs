//! What `settle config show` prints: every setting, its value and where it comes from, without secrets.

use figment::Figment;
use secrecy::ExposeSecret;
use serde::Serialize;

use super::Config;
use super::load::leaves;
use super::providers;
use super::text::printable;
use super::variables::place;

/// One setting in force.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// The key, as `section.key`.
    pub key: String,
    /// The value; of a secret only that it is set.
    pub value: String,
    /// `default`, the file or the variable.
    pub source: String,
}

/// Every setting in force.
#[must_use]
pub fn shown(figment: &Figment, config: &Config) -> Vec<Shown> {
    let shown = leaves(figment).into_iter().flatten().map(|(key, value)| {
        let source = figment.find_metadata(&key).and_then(|metadata| place(metadata, &key));
        let source = source.unwrap_or_else(|| "default".to_owned());
        // An empty URL means a file in the data folder: the output shows the URL in force.
        let value = match key.as_str() {
            "database_url" => without_secrets(config.database_url().expose_secret()),
            _ => without_secret(&key, printable(&value)),
        };
        Shown { key, value, source }
    });
    shown.collect()
}

fn without_secret(key: &str, text: String) -> String {
    match key {
        "master_key" if !text.is_empty() => "(set)".to_owned(),
        key if providers::is_secret(key) => "(set)".to_owned(),
        "alerts.url" => without_secrets(&text),
        key if providers::is_url(key) => without_secrets(&text),
        _ => text,
    }
}

/// A URL without its password and its query, which may also hold secrets.
#[must_use]
pub fn without_secrets(text: &str) -> String {
    let Ok(mut url) = url::Url::parse(text) else {
        return if text.is_empty() { String::new() } else { "(set)".to_owned() };
    };
    if url.password().is_some() && url.set_password(Some("…")).is_err() {
        return "(set)".to_owned();
    }
    if url.query().is_some() {
        url.set_query(Some("…"));
    }
    url.to_string().replace("%E2%80%A6", "…")
}
