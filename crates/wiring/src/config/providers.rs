//! The settings of providers. Their names are the operator's own, so the defaults cannot list them.

use std::time::Duration;

use figment::value::Value;
use secrecy::SecretString;
use serde::Deserialize;
use settle_domain::provider::ProviderName;

use super::error::nearest;
use super::text;

/// The section that holds a section for each provider.
const SECTION: &str = "providers";
/// The settings of a provider, each with an example of its kind.
const KEYS: [(&str, &str); 4] = [("url", ""), ("secret", ""), ("timeout", "30s"), ("window", "24h")];

/// A provider.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// Where it is.
    pub url: String,
    /// What both sides sign with.
    pub secret: SecretString,
    /// How long a call may take.
    #[serde(default = "timeout", deserialize_with = "text::duration")]
    pub timeout: Duration,
    /// How long the same key is sent again, at most.
    #[serde(default = "window", deserialize_with = "text::duration")]
    pub window: Duration,
}

const fn timeout() -> Duration {
    Duration::from_secs(30)
}

const fn window() -> Duration {
    Duration::from_hours(24)
}

/// The setting of a provider that this key names, with an example of its value.
pub(super) fn setting(key: &str) -> Option<Value> {
    let (name, last) = key.strip_prefix(SECTION)?.strip_prefix('.')?.split_once('.')?;
    let (_, example) = KEYS.into_iter().find(|(known, _)| *known == last)?;
    name.parse::<ProviderName>().ok().map(|_| Value::from(example))
}

/// Whether nobody may see the value.
pub(super) fn is_secret(key: &str) -> bool {
    key.ends_with(".secret") && setting(key).is_some()
}

/// Whether the value is a URL, in which somebody may have put a password.
pub(super) fn is_url(key: &str) -> bool {
    key.rsplit('.').next() == Some("url") && setting(key).is_some()
}

/// The key that a variable's name stands for, behind the prefix: `PROVIDERS__BANK__URL`.
pub(super) fn key_of(name: &str) -> Option<String> {
    let mut parts = name.split("__");
    let (section, provider, last) = (parts.next()?, parts.next()?, parts.next()?);
    let key = [section, provider, last].map(str::to_lowercase).join(".");
    (parts.next().is_none() && setting(&key).is_some()).then_some(key)
}

/// The setting of a provider that a variable's name probably means, behind the prefix: its last part is
/// misspelt.
pub(super) fn nearest_key(name: &str) -> Option<String> {
    let mut parts = name.split("__").map(str::to_lowercase);
    let (section, provider, last) = (parts.next()?, parts.next()?, parts.next()?);
    let is_provider = section == SECTION && provider.parse::<ProviderName>().is_ok();
    let names = KEYS.iter().map(|(key, _)| (*key).to_owned());
    let key = nearest(&last, names).filter(|_| is_provider && parts.next().is_none())?;
    Some([section, provider, key].join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_has_settings_under_its_own_name() {
        assert_eq!(key_of("PROVIDERS__BANK__URL").as_deref(), Some("providers.bank.url"));
        assert_eq!(key_of("PROVIDERS__BANK_2__SECRET").as_deref(), Some("providers.bank_2.secret"));
        for other in ["PROVIDERS__BANK", "PROVIDERS__BANK__PORT", "PROVIDERS__2__URL", "API__BANK__URL"] {
            assert_eq!(key_of(other), None, "{other}");
        }
        assert!(is_secret("providers.bank.secret") && !is_secret("providers.bank.url"));
        assert!(!is_secret("alerts.secret"));
        assert!(is_url("providers.bank.url") && !is_url("providers.bank.secret") && !is_url("alerts.url"));
    }
}
