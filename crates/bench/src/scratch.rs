//! The throw-away store of a run, and the merchants in it.

use std::net::SocketAddr;
use std::path::Path;

use settle_accounts::{keys, merchants, operators};
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::{MerchantId, OperatorId};
use settle_domain::seams::Clock;
use settle_domain::webhook_secret::WebhookSecret;
use settle_wiring::config;
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User};
use tempfile::TempDir;

use crate::error::BenchError;
use crate::postgres::Postgres;

/// The store to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StoreKind {
    /// The embedded store
    Sqlite,
    /// A throw-away PostgreSQL, started from Debian's packages
    Postgres,
}

/// A store that is removed when the run ends.
pub(crate) struct Scratch {
    /// Fields are dropped in this order: the server must end before its folder is removed.
    postgres: Option<Postgres>,
    folder: TempDir,
    settings: Vec<(String, String)>,
}

/// A merchant and its key.
pub(crate) struct Shop {
    pub(crate) merchant_id: MerchantId,
    pub(crate) api_key: String,
}

impl Scratch {
    /// An empty store.
    pub(crate) async fn new(kind: StoreKind) -> Result<Scratch, BenchError> {
        let folder = tempfile::tempdir()?;
        let mut settings = vec![
            ("SETTLE_DATA_DIR".to_owned(), folder.path().join("data").display().to_string()),
            ("SETTLE_WEBHOOK__ALLOW_HTTP".to_owned(), "true".to_owned()),
            ("SETTLE_WEBHOOK__ALLOW_NETWORKS".to_owned(), "127.0.0.0/8".to_owned()),
            ("SETTLE_API__REQUESTS_PER_SECOND".to_owned(), "0".to_owned()),
            ("SETTLE_LOG__LEVEL".to_owned(), "warn".to_owned()),
        ];
        let postgres = match kind {
            StoreKind::Sqlite => None,
            StoreKind::Postgres => Some(Postgres::start(folder.path()).await?),
        };
        if let Some(postgres) = &postgres {
            settings.push(("SETTLE_DATABASE_URL".to_owned(), postgres.url.clone()));
        }
        Ok(Scratch { postgres, folder, settings })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The settings of the service, as environment variables.
    pub(crate) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// Adds a provider to the settings of the service.
    pub(crate) fn provider(&mut self, name: &str, address: SocketAddr, secret: &str) {
        let name = name.to_uppercase();
        let url = (format!("SETTLE_PROVIDERS__{name}__URL"), format!("http://{address}"));
        self.settings.extend([url, (format!("SETTLE_PROVIDERS__{name}__SECRET"), secret.to_owned())]);
    }

    /// Opens the store in the benchmark's own process.
    pub(crate) async fn open(&self) -> Result<Context, BenchError> {
        let file = self.folder.path().join("settle.toml");
        std::fs::write(&file, "")?;
        Ok(Context::open(config::load(Some(&file), &self.settings)?.config, User::Command).await?)
    }

    /// Adds merchants whose endpoints are at the given addresses.
    pub(crate) async fn shops(
        &self,
        context: &Context,
        number: usize,
        endpoints: &[SocketAddr],
        path: &str,
    ) -> Result<Vec<Shop>, BenchError> {
        let (store, ring) = (&*context.store, &*context.ring);
        let secret = WebhookSecret::parse("benchmark".to_owned());
        let secret = secret.map_err(|_| BenchError::Failed("no secret".to_owned()))?;
        let mut shops = Vec::new();
        for position in 0..number {
            let merchant = merchants::create(store, &SystemClock, &SystemEntropy, "bench").await?;
            let merchant_id = merchant.merchant_id;
            let (_, credential) =
                keys::create(store, ring, &SystemClock, &SystemEntropy, merchant_id, None).await?;
            let endpoint = Endpoint {
                url: format!("http://{}{path}", endpoints[position % endpoints.len()]),
                secret: ring.seal(merchant_id, &secret, &SystemEntropy),
            };
            let mut tx = store.begin().await?;
            let lock = tx.merchant_lock(&[merchant_id]).await?;
            tx.endpoint_put(&lock, merchant_id, &endpoint).await?;
            tx.commit().await?;
            shops.push(Shop { merchant_id, api_key: credential.expose().to_owned() });
        }
        Ok(shops)
    }

    /// Adds an operator; returns its token.
    pub(crate) async fn operator(&self, context: &Context) -> Result<String, BenchError> {
        let name = OperatorId::new(SystemClock.now(), &SystemEntropy).to_string();
        let (store, ring) = (&*context.store, &*context.ring);
        let (_, credential) = operators::create(store, ring, &SystemClock, &SystemEntropy, &name).await?;
        Ok(credential.expose().to_owned())
    }

    /// The PostgreSQL server; none for SQLite.
    pub(crate) fn postgres(&self) -> Option<&Postgres> {
        self.postgres.as_ref()
    }

    /// Processor seconds of the PostgreSQL server; none for SQLite.
    pub(crate) fn database_cpu_seconds(&self) -> Option<f64> {
        self.postgres.as_ref().map(Postgres::cpu_seconds)
    }
}
