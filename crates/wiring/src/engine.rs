//! Builds the settlement engine and the providers that it calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use secrecy::ExposeSecret;
use settle_domain::operation::Backoff;
use settle_domain::provider::ProviderName;
use settle_engine::life::{Corridors, Means};
use settle_engine::providers::{Providers, Station};
use settle_engine::writer::Writer;
use settle_provider::client::{Client, ClientSettings, Endpoint};
use settle_provider::signing::ProviderSecret;
use settle_store::Store;

use crate::WiringError;
use crate::config::{Config, ProviderSettings};
use crate::sending::extra_roots;
use crate::system::SystemClock;

/// The providers of the settings.
pub fn providers(config: &Config) -> Result<Providers, WiringError> {
    let mut stations = Vec::new();
    for (name, settings) in &config.providers {
        let refused = |problem: String| WiringError::Provider { name: name.to_string(), problem };
        let endpoint = Endpoint::parse(&settings.url).map_err(|fault| refused(format!("url: {fault}")))?;
        let client = ClientSettings {
            endpoint,
            secret: secret(name, settings)?,
            timeout: settings.timeout,
            extra_roots_pem: extra_roots(config)?,
        };
        let client = Client::new(client, Arc::new(SystemClock));
        let client = client.map_err(|fault| WiringError::ExtraRoots(fault.to_string()))?;
        stations.push(Station::new(name.clone(), Arc::new(client), Arc::new(SystemClock), settings.window));
    }
    Ok(Providers::new(stations))
}

/// What providers sign with, by name.
pub fn provider_secrets(config: &Config) -> Result<BTreeMap<ProviderName, ProviderSecret>, WiringError> {
    let named = config.providers.iter().map(|(name, settings)| Ok((name.clone(), secret(name, settings)?)));
    named.collect()
}

fn secret(name: &ProviderName, settings: &ProviderSettings) -> Result<ProviderSecret, WiringError> {
    ProviderSecret::parse(settings.secret.expose_secret().to_owned()).map_err(|_| WiringError::Provider {
        name: name.to_string(),
        problem: "secret: 1 to 256 bytes without control characters".to_owned(),
    })
}

/// An act waits so much shorter for one answer of a provider than its operator may wait for all.
const ANSWER_SHARE: u32 = 3;

/// What the engine's lives work with.
#[must_use]
pub fn means(config: &Config, store: Arc<dyn Store>, writer: Writer, providers: Providers) -> Means {
    let waits = Backoff { first: config.engine.retry_first, longest: config.engine.retry_max };
    Means {
        store,
        writer,
        providers,
        clock: Arc::new(SystemClock),
        waits,
        corridors: Corridors::default(),
        answer_wait: config.api.request_timeout / ANSWER_SHARE,
    }
}
