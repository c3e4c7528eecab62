//! The settings: defaults from one documented file, then `settle.toml`, then the environment.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use secrecy::SecretString;
use serde::Deserialize;
use settle_domain::operation::ANSWER_WITHIN;
use settle_domain::provider::ProviderName;
use settle_notify::alerts::AlertUrl;
use settle_shards::keeper::Keeper;

mod error;
mod expected;
mod exposed;
mod load;
mod providers;
mod show;
mod text;
mod variables;

pub use error::ConfigError;
pub use load::{DEFAULTS, Loaded, load};
pub use providers::ProviderSettings;
pub use show::{Shown, shown, without_secrets};
pub use text::parse_duration;
pub use variables::{
    Environment, LISTEN_SECRET_VARIABLE, OPERATOR_TOKEN_VARIABLE, OPERATOR_URL_VARIABLE,
    SANDBOX_SECRET_VARIABLE, environment,
};

/// All settings. `defaults.toml` explains each.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    database_url: SecretString,
    /// The folder for the files that the service creates.
    pub data_dir: PathBuf,
    /// The master key ring; empty when the service keeps its own in a file.
    pub master_key: SecretString,
    /// The database.
    pub database: Database,
    /// The merchant API.
    pub api: Api,
    /// The operator's listener.
    pub operator: Operator,
    /// Notifications.
    pub webhook: Webhook,
    /// The settlement engine.
    pub engine: Engine,
    /// The providers, by their names.
    #[serde(default)]
    pub providers: BTreeMap<ProviderName, ProviderSettings>,
    /// Alerts.
    pub alerts: Alerts,
    /// Logs.
    pub log: Log,
    /// Stopping.
    pub shutdown: Shutdown,
}

/// The database.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Database {
    /// Connections to PostgreSQL, at most.
    pub connections_max: NonZeroU32,
    /// Whether the service and commands that write bring the schema up to date.
    pub migrate: bool,
}

/// The merchant API.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Requests per second and merchant; 0 is unlimited.
    pub requests_per_second: u32,
    /// Requests a merchant may make at once.
    pub requests_burst: NonZeroU32,
    /// Wrong credentials per second and source; 0 is unlimited.
    pub wrong_credentials_per_second: u32,
    /// Wrong credentials a source may give at once.
    pub wrong_credentials_burst: NonZeroU32,
    /// Connections served at once.
    pub connections_max: NonZeroU32,
    /// Connections of one source at once.
    pub connections_per_source: NonZeroU32,
    /// The networks of proxies that name the source of a request.
    #[serde(deserialize_with = "text::list")]
    pub trusted_proxies: Vec<IpNet>,
    /// How long a client may take to send the head of a request.
    #[serde(deserialize_with = "text::duration")]
    pub header_timeout: Duration,
    /// How long a client may take to send a body.
    #[serde(deserialize_with = "text::duration")]
    pub body_timeout: Duration,
    /// How long a client may leave an answer unread.
    #[serde(deserialize_with = "text::duration")]
    pub write_timeout: Duration,
    /// How long the service may take to answer.
    #[serde(deserialize_with = "text::duration")]
    pub request_timeout: Duration,
}

/// The operator's listener.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operator {
    /// Where it listens.
    pub listen: SocketAddr,
}

/// Notifications.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    /// How long one attempt may take in all.
    #[serde(deserialize_with = "text::duration")]
    pub timeout: Duration,
    /// The wait after the first failed attempt.
    #[serde(deserialize_with = "text::duration")]
    pub retry_first: Duration,
    /// The longest wait between attempts.
    #[serde(deserialize_with = "text::duration")]
    pub retry_max: Duration,
    /// Attempts before a delivery is dead.
    pub max_attempts: NonZeroU32,
    /// How long a node may be silent before others take over its merchants.
    #[serde(deserialize_with = "text::duration")]
    pub lease: Duration,
    /// Deliveries in flight at once.
    pub in_flight: NonZeroU32,
    /// Deliveries of one merchant in flight at once.
    pub in_flight_per_merchant: NonZeroU32,
    /// Networks that the guard allows besides public ones.
    #[serde(deserialize_with = "text::list")]
    pub allow_networks: Vec<IpNet>,
    /// Whether a merchant may set a name that does not resolve here.
    pub allow_unresolved: bool,
    /// Whether the guard accepts plain http.
    pub allow_http: bool,
    /// Name servers that the guard asks; empty for the system's.
    #[serde(deserialize_with = "text::list")]
    pub nameservers: Vec<SocketAddr>,
    /// A PEM file with certificates to trust besides the web's; empty for none.
    pub extra_roots: PathBuf,
}

impl Webhook {
    /// Whether the address guard is opened for development.
    #[must_use]
    pub fn is_opened(&self) -> bool {
        self.allow_http || self.allow_unresolved || !self.allow_networks.is_empty()
    }
}

/// The settlement engine.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Engine {
    /// The first wait before the engine looks up or tries again.
    #[serde(deserialize_with = "text::duration")]
    pub retry_first: Duration,
    /// The longest.
    #[serde(deserialize_with = "text::duration")]
    pub retry_max: Duration,
    /// Whether what an operator cannot undo needs a second person.
    pub two_people: bool,
}

/// Alerts.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alerts {
    /// Where alerts are posted; `None` for the log and the metrics alone.
    #[serde(deserialize_with = "text::optional")]
    pub url: Option<AlertUrl>,
}

/// Logs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// What is logged.
    #[serde(deserialize_with = "text::log_level")]
    pub level: String,
    /// How the lines are written.
    pub format: LogFormat,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Lines for people.
    Text,
    /// JSON, one object per line.
    Json,
}

/// Stopping.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// How long everything is still served after the service was told to stop.
    #[serde(deserialize_with = "text::pause")]
    pub delay: Duration,
    /// How long requests under way may take to finish.
    #[serde(deserialize_with = "text::duration")]
    pub timeout: Duration,
}

/// The longest wait of the engine that can be set.
const ENGINE_RETRY_MAX: Duration = Duration::from_hours(1);
/// The most attempts, and how long an attempt may take, as merchants are promised.
const CONTRACT_ATTEMPTS: u32 = 8;
const CONTRACT_TIMEOUT: Duration = Duration::from_secs(10);

impl Config {
    /// What differs from what merchants are promised.
    fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.webhook.max_attempts.get() > CONTRACT_ATTEMPTS {
            warnings.push(format!(
                "webhook.max_attempts is {}, but merchants are promised {CONTRACT_ATTEMPTS} attempts",
                self.webhook.max_attempts
            ));
        }
        if self.webhook.timeout != CONTRACT_TIMEOUT {
            warnings.push(format!(
                "webhook.timeout is {:?}, but merchants are promised {CONTRACT_TIMEOUT:?}",
                self.webhook.timeout
            ));
        }
        warnings
    }

    /// Refuses settings that contradict each other.
    fn check(&self) -> Result<(), String> {
        if self.webhook.timeout >= self.api.request_timeout {
            // A request for a test delivery waits for the attempt.
            return Err("webhook.timeout must be shorter than api.request_timeout".to_owned());
        }
        let lease_min = Keeper::lease_min(self.webhook.timeout);
        if self.webhook.lease < lease_min {
            // Otherwise a shard could change hands during an attempt, and the delivery be sent twice.
            return Err(format!(
                "webhook.lease must be at least webhook.timeout and 5s, which is {lease_min:?}"
            ));
        }
        if self.webhook.retry_first > self.webhook.retry_max {
            return Err("webhook.retry_first must not be longer than webhook.retry_max".to_owned());
        }
        if self.engine.retry_first > self.engine.retry_max {
            return Err("engine.retry_first must not be longer than engine.retry_max".to_owned());
        }
        if self.engine.retry_max > ENGINE_RETRY_MAX {
            // What is due much later than that counts as due: the clock has stepped.
            return Err(format!("engine.retry_max must be at most 1h, not {:?}", self.engine.retry_max));
        }
        for (name, provider) in &self.providers {
            if provider.timeout > ANSWER_WITHIN {
                // Without an answer for so long an operation counts as unknown, and is looked up.
                return Err(format!(
                    "providers.{name}.timeout must be at most {ANSWER_WITHIN:?}, not {:?}",
                    provider.timeout
                ));
            }
        }
        Ok(())
    }

    /// The URL of the database: the one set, or else that of the SQLite file in the data folder. It may hold
    /// a password.
    #[must_use]
    pub fn database_url(&self) -> SecretString {
        use secrecy::ExposeSecret;
        if self.database_url.expose_secret().is_empty() {
            return format!("sqlite://{}", self.data_dir.join("settle.db").display()).into();
        }
        self.database_url.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_provider_is_waited_for_longer_than_it_counts_as_under_way() {
        let set = [
            ("URL", "http://127.0.0.1"),
            ("SECRET", "long enough to sign with it, surely"),
            ("TIMEOUT", "31s"),
        ];
        let set = set.map(|(key, value)| (format!("SETTLE_PROVIDERS__BANK__{key}"), value.to_owned()));
        let refused = load(None, &set.to_vec()).unwrap_err().to_string();
        assert!(refused.contains("providers.bank.timeout must be at most 30s, not 31s"), "{refused}");
    }

    #[test]
    fn settings_that_contradict_each_other_are_refused() {
        for (name, value, words) in [
            ("SETTLE_WEBHOOK__TIMEOUT", "30s", "webhook.timeout must be shorter than api.request_timeout"),
            (
                "SETTLE_WEBHOOK__LEASE",
                "14s",
                "webhook.lease must be at least webhook.timeout and 5s, which is 15s",
            ),
            ("SETTLE_WEBHOOK__RETRY_FIRST", "2h", "webhook.retry_first must not be longer"),
            ("SETTLE_ENGINE__RETRY_FIRST", "2h", "engine.retry_first must not be longer"),
            ("SETTLE_ENGINE__RETRY_MAX", "3h", "engine.retry_max must be at most 1h"),
        ] {
            let refused = load(None, &vec![(name.to_owned(), value.to_owned())]).unwrap_err().to_string();
            assert!(refused.contains(words), "{refused}");
        }
    }
}
