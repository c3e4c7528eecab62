//! `settle demo`: the whole service at work in one process. It needs no setup and leaves nothing behind.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::{Args, ColorChoice};
use settle_outbox::wake::Wake;
use settle_provider::signing::ProviderSecret;
use settle_sandbox::{Sandbox, SandboxSettings};
use settle_wiring::config::{self, Config, parse_duration};
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use super::CommandError;
use super::access::Access;
use super::serve::dev::wanted_or_free;
use super::serve::{Bound, Prepared, Serve, stop_signal, stopped};
use crate::logging;

mod operator;
mod payments;
mod shops;
mod story;
mod voice;

use operator::Operator;
use shops::Town;
use voice::Voice;

/// The ports that the demo tries first: those that the README names.
const API_PORT: u16 = 8080;
const OPERATOR_PORT: u16 = 8081;
/// What the service and the sandbox sign with: nothing real passes between them.
const SANDBOX_SECRET: &str = "demo";

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// End by itself after this time, as in 1m
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Option<Duration>,
    /// Print where it is and what opens it as one JSON line; the story goes to standard error
    ///
    /// The line has `api_url`, `operator_url`, `merchant_id`, `api_key` and `operator_token`. The merchant is
    /// the good shop.
    #[arg(long)]
    json: bool,
    /// Whether to use colours; auto asks the terminal, and `NO_COLOR`
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

impl Demo {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let folder = tempfile::tempdir()?;
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (api, operator) = (wanted_or_free(at(API_PORT)).await?, wanted_or_free(at(OPERATOR_PORT)).await?);
        let (api_address, operator_address) = (api.local_addr()?, operator.local_addr()?);
        let provider = TcpListener::bind(at(0)).await?;
        let provider_address = provider.local_addr()?;
        let config = settings(folder.path(), api_address, operator_address, provider_address)?;
        let sandbox = sandbox()?;
        logging::start(&config)?;
        let draining = Arc::new(AtomicBool::new(false));
        let stop = stop_signal(draining.clone(), Duration::ZERO)?;
        let opened = async { Ok(Context::open(config, User::Service).await?) };
        let (prepared, context) = tokio::try_join!(biased; Prepared::make(), opened)?;
        let town = Town::build(&context).await?;
        let good_shop = town.shops[0].merchant_id;
        let access = Access::make(&context, good_shop, "demo", api_address, operator_address).await?;
        let (voice, mut failure) = Voice::new(self.json, self.color);
        let voice = Arc::new(voice);

        let store = context.store.clone();
        let (end, ending) = watch::channel(false);
        let (is_ready, ready) = oneshot::channel();
        let bound = Bound { api: Some(api), operator: Some(operator) };
        let service = Serve::on(bound, is_ready).serve(context, prepared, Wake::default(), ending, draining);
        let stopping = async {
            tokio::select! {
                () = stopped(stop) => {}
                () = lifetime(self.lifetime) => {}
                // Whoever reads the story has seen enough.
                _ = failure.recv() => {}
            }
            end.send_replace(true);
            std::future::pending::<()>().await;
        };
        let telling = async {
            // A service that ends before it is ready says why itself.
            if ready.await.is_err() {
                return std::future::pending().await;
            }
            if self.json {
                access.print()?;
            }
            voice.say(&story::welcome(&access, &town.shops[2].key));
            let operator = Operator {
                listener: operator_address,
                token: access.operator_token.clone(),
                sandbox: provider_address,
            };
            town.live(store, &operator, &access.api_url, &voice).await;
            Ok::<(), CommandError>(())
        };
        // The service must stop in order before its folder is removed.
        tokio::select! {
            served = service => served?,
            told = telling => told?,
            ended = sandbox.serve(provider, std::future::pending()) => ended?,
            () = stopping => {}
        }
        folder.close()?;
        voice.say(story::FAREWELL);
        Ok(())
    }
}

/// Settings of the demo's own, whatever this machine has set: the demo touches only its own folder.
fn settings(
    folder: &std::path::Path,
    api: SocketAddr,
    operator: SocketAddr,
    provider: SocketAddr,
) -> Result<Config, CommandError> {
    let file = folder.join("settle.toml");
    std::fs::write(&file, "")?;
    let set = |name: &str, value: String| (format!("SETTLE_{name}"), value);
    let environment = vec![
        set("DATA_DIR", folder.join("data").display().to_string()),
        set("API__LISTEN", api.to_string()),
        set("OPERATOR__LISTEN", operator.to_string()),
        set("WEBHOOK__ALLOW_HTTP", "true".to_owned()),
        set("WEBHOOK__ALLOW_NETWORKS", "127.0.0.0/8".to_owned()),
        // A delivery lives for seconds here, instead of hours.
        set("WEBHOOK__RETRY_FIRST", "2s".to_owned()),
        set("WEBHOOK__RETRY_MAX", "8s".to_owned()),
        set("WEBHOOK__MAX_ATTEMPTS", "4".to_owned()),
        set("PROVIDERS__SANDBOX__URL", format!("http://{provider}")),
        set("PROVIDERS__SANDBOX__SECRET", SANDBOX_SECRET.to_owned()),
        set("ENGINE__RETRY_FIRST", "2s".to_owned()),
        // The demo tells of deaths, and of everything else that is expected, in its own words.
        set("LOG__LEVEL", "error,settle_notify::alerts=off".to_owned()),
        set("LOG__FORMAT", "text".to_owned()),
    ];
    Ok(config::load(Some(&file), &environment)?.config)
}

/// A provider of which nobody gets money, and that forgets everything at the end.
fn sandbox() -> Result<Sandbox, CommandError> {
    let refused =
        |what: &dyn std::fmt::Display| CommandError::Refused(format!("the demo's provider: {what}"));
    let secret =
        ProviderSecret::parse(SANDBOX_SECRET.to_owned()).map_err(|fault| refused(&fault.as_str()))?;
    let settings = SandboxSettings { data: None, secret };
    Sandbox::open(settings, Arc::new(SystemClock), &SystemEntropy).map_err(|fault| refused(&fault))
}

async fn lifetime(lifetime: Option<Duration>) {
    match lifetime {
        Some(lifetime) => tokio::time::sleep(lifetime).await,
        None => std::future::pending().await,
    }
}
