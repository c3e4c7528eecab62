//! Says when a file of an operator's that holds a secret can be read by everybody.
//!
//! The service starts all the same, unlike with the master key's own file, which it made itself: this one is
//! an operator's, or a container's that mounts it for everybody. The group may read it: it is how a file of
//! root's is given to the user who runs settle.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use figment::value::Value;

use super::providers;
use super::text::printable;

/// The bit that lets everybody read a file.
const OTHERS_READ: u32 = 0o004;

/// What to do about a file with these settings, if everybody can read a secret in it.
pub(super) fn warning(file: &Path, settings: &[(String, Value)]) -> Option<String> {
    let holds = |(key, value): &&(String, Value)| holds_secret(key, &printable(value));
    let secrets: Vec<&str> = settings.iter().filter(holds).map(|(key, _)| key.as_str()).collect();
    let mode = file.metadata().ok()?.permissions().mode();
    if mode & OTHERS_READ == 0 || secrets.is_empty() {
        return None;
    }
    let (file, secrets) = (file.display(), secrets.join(", "));
    Some(format!("{file} holds {secrets} and everybody can read it: run chmod o-rwx {file}"))
}

/// Whether whoever reads this value knows a secret.
fn holds_secret(key: &str, text: &str) -> bool {
    match key {
        // The path of an alert's URL is often all that its receiver asks for.
        "master_key" | "alerts.url" => !text.is_empty(),
        "database_url" => has_password(text),
        key => providers::is_secret(key) || (providers::is_url(key) && has_password(text)),
    }
}

/// A URL with several hosts cannot always be read: then a user counts as one with a password.
fn has_password(text: &str) -> bool {
    url::Url::parse(text).map_or_else(
        |_| text.contains('@'),
        |url| url.password().is_some() || url.query_pairs().any(|(name, _)| name == "password"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_told_from_settings_that_anybody_may_know() {
        for (key, text, is_secret) in [
            ("master_key", "5e5e", true),
            ("master_key", "", false),
            ("alerts.url", "https://alerts.example/T0/B0", true),
            ("alerts.url", "", false),
            ("database_url", "", false),
            ("database_url", "sqlite:///var/lib/settle.db", false),
            ("database_url", "postgres://ada@h/settle?sslmode=require", false),
            ("database_url", "postgres://ada:pw@h/settle", true),
            ("database_url", "postgres://ada:pw@a:1,b:2/settle", true),
            ("database_url", "postgres://a:1,b:2/settle", false),
            ("database_url", "postgres://h/settle?user=ada&password=pw", true),
            ("providers.bank.secret", "hush", true),
            ("providers.bank.url", "https://bank.example", false),
            ("providers.bank.url", "https://ada:pw@bank.example", true),
            ("api.listen", "127.0.0.1:1", false),
        ] {
            assert_eq!(holds_secret(key, text), is_secret, "{key} = {text}");
        }
    }
}
