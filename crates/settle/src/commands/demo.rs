//! `settle demo`: the whole service at work in one process. It needs no setup and leaves nothing behind.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use settle_accounts::{keys, merchants, operators};
use settle_domain::endpoint::Endpoint;
use settle_domain::ids::MerchantId;
use settle_domain::seams::random_bytes;
use settle_domain::webhook_secret::WebhookSecret;
use settle_outbox::recorder::Recorder;
use settle_outbox::wake::Wake;
use settle_wiring::config::{self, Config, parse_duration};
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;

use super::CommandError;
use super::serve::{Bound, Serve, start_metrics, stop_signal, stopped};
use crate::receiver::{Arrival, Behaviour, Receiver};
use crate::{logging, output};

mod settlements;
mod story;

/// The ports that the demo tries first: those that the README names.
const API_PORT: u16 = 8080;
const OPERATOR_PORT: u16 = 8081;
/// When the first settlement completes. Settlements and the changes of the flaky shop's endpoint never fall
/// on the same moment, so every demo tells the same story.
const SETTLEMENT_FIRST: Duration = Duration::from_secs(1);
/// Time between two settlements.
const SETTLEMENT_INTERVAL: Duration = Duration::from_secs(2);
/// How long the flaky shop's endpoint answers well, and how long it then fails.
const MOOD_INTERVAL: Duration = Duration::from_secs(6);
/// How often the demo prints the state of the queue.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// End by itself after this time, as in 1m
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    lifetime: Option<Duration>,
}

/// A merchant of the demo.
struct Shop {
    name: &'static str,
    merchant_id: MerchantId,
}

impl Demo {
    pub(super) async fn run(self) -> Result<(), CommandError> {
        let folder = tempfile::tempdir()?;
        let (api, operator) = (bind(API_PORT).await?, bind(OPERATOR_PORT).await?);
        let (api_address, operator_address) = (api.local_addr()?, operator.local_addr()?);
        let config = settings(folder.path(), api_address, operator_address)?;
        logging::start(&config)?;
        let draining = Arc::new(AtomicBool::new(false));
        let stop = stop_signal(draining.clone(), Duration::ZERO)?;
        let metrics = start_metrics()?;
        let context = Context::open(config, User::Service).await?;
        let store = context.store.clone();

        let secret = WebhookSecret::parse(hex_secret()).map_err(|_| refused("the secret"))?;
        let (well, well_now) = watch::channel(Behaviour::default());
        let (moody, mood_now) = watch::channel(Behaviour::default());
        let good = Receiver::bind(0, &secret, well_now, Arc::new(SystemClock)).await?;
        let flaky = Receiver::bind(0, &secret, mood_now, Arc::new(SystemClock)).await?;
        // A port that is bound, so that nobody else takes it, and on which nobody listens.
        let nobody = TcpSocket::new_v4()?;
        nobody.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let mut shops = Vec::new();
        for (name, address) in [
            ("good shop", good.address()?),
            ("flaky shop", flaky.address()?),
            ("gone shop", nobody.local_addr()?),
        ] {
            shops.push(open_shop(&context, name, address, &secret).await?);
        }
        let ring = &*context.ring;
        let (_, key) =
            keys::create(&*store, ring, &SystemClock, &SystemEntropy, shops[0].merchant_id, None).await?;
        let (_, token) = operators::create(&*store, ring, &SystemClock, &SystemEntropy, "demo").await?;
        output::print_text(&story::welcome(api_address, operator_address, key.expose(), token.expose()))?;

        let wake = Wake::default();
        let recorder = Recorder::start(context.service_outbox(wake.clone()));
        let (end, ending) = watch::channel(false);
        let bound = Bound { api: Some(api), operator: Some(operator) };
        let service = Serve::on(bound, tokio::sync::oneshot::channel().0).serve(context, metrics, wake, ending, draining);
        let show = |shop: &'static str| move |arrival: &Arrival| tell(&story::arrived(shop, arrival));
        let ended = async {
            tokio::select! {
                () = stopped(stop) => {}
                () = lifetime(self.lifetime) => {}
            }
            end.send_replace(true);
        };
        let life = async {
            tokio::join!(
                ended,
                settle_for_ever(&recorder, &shops),
                flap(&moody),
                summarize(&*store),
                good.run(show("good shop"), std::future::pending()),
                flaky.run(show("flaky shop"), std::future::pending()),
            );
        };
        let _kept = (well, nobody);
        // The service must stop in order before its folder is removed.
        tokio::select! {
            served = service => served?,
            () = life => {}
        }
        folder.close()?;
        output::print_text(story::FAREWELL)?;
        Ok(())
    }
}

/// Settings of the demo's own, whatever this machine has set: the demo touches only its own folder.
fn settings(folder: &std::path::Path, api: SocketAddr, operator: SocketAddr) -> Result<Config, CommandError> {
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
        // The log shows only the alert of a dead delivery, as operations see it; the demo prints the rest
        // itself.
        set("LOG__LEVEL", "error".to_owned()),
        set("LOG__FORMAT", "text".to_owned()),
    ];
    Ok(config::load(Some(&file), &environment)?.config)
}

/// Listens on the wanted port, or on a free one if it is taken.
async fn bind(wanted: u16) -> Result<TcpListener, CommandError> {
    match TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await {
        Ok(listener) => Ok(listener),
        Err(_) => Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?),
    }
}

async fn lifetime(lifetime: Option<Duration>) {
    match lifetime {
        Some(lifetime) => tokio::time::sleep(lifetime).await,
        None => std::future::pending().await,
    }
}

fn hex_secret() -> String {
    hex::encode(random_bytes::<16>(&SystemEntropy))
}

fn refused(what: &str) -> CommandError {
    CommandError::Refused(format!("{what} of the demo cannot be made"))
}

async fn open_shop(
    context: &Context,
    name: &'static str,
    address: SocketAddr,
    secret: &WebhookSecret,
) -> Result<Shop, CommandError> {
    let merchant = merchants::create(&*context.store, &SystemClock, &SystemEntropy, name).await?;
    let merchant_id = merchant.merchant_id;
    let endpoint = Endpoint {
        url: format!("http://{address}/webhook"),
        secret: context.ring.seal(merchant_id, secret, &SystemEntropy),
    };
    let mut tx = context.store.begin().await?;
    let lock = tx.merchant_lock(&[merchant_id]).await?;
    tx.endpoint_put(&lock, merchant_id, &endpoint).await?;
    tx.commit().await?;
    Ok(Shop { name, merchant_id })
}

/// Completes settlements, one shop after the other.
async fn settle_for_ever(recorder: &Recorder, shops: &[Shop]) {
    let first = tokio::time::Instant::now() + SETTLEMENT_FIRST;
    let mut due = tokio::time::interval_at(first, SETTLEMENT_INTERVAL);
    for number in 0.. {
        due.tick().await;
        // The shop without an endpoint settles seldom: one dead delivery is enough to see.
        let shop = match number % 8 {
            0 | 2 | 3 | 5 | 6 => &shops[0],
            1 | 4 => &shops[1],
            _ => &shops[2],
        };
        let completed = match settlements::settlement(shop.merchant_id, number) {
            Ok(completed) => completed,
            Err(fault) => return tell(&fault.to_string()),
        };
        tell(&story::settled(shop.name, &completed.settlement));
        if let Err(fault) = recorder.record(vec![completed.into()]).await {
            tell(&format!("not recorded: {fault}"));
        }
    }
}

/// Makes the flaky shop's endpoint fail for a while, and recover.
async fn flap(moody: &watch::Sender<Behaviour>) {
    let mut due = tokio::time::interval(MOOD_INTERVAL);
    due.tick().await;
    loop {
        for status in [axum::http::StatusCode::INTERNAL_SERVER_ERROR, axum::http::StatusCode::OK] {
            due.tick().await;
            moody.send_replace(Behaviour { status, delay: Duration::ZERO });
            tell(&story::mood(status));
        }
    }
}

async fn summarize(store: &dyn settle_store::Store) {
    let mut due = tokio::time::interval(SUMMARY_INTERVAL);
    due.tick().await;
    loop {
        due.tick().await;
        if let Ok(depth) = store.queue_depth().await {
            tell(&story::summary(depth));
        }
    }
}

/// Prints one line. A reader that has closed the pipe does not want more, so errors are ignored.
fn tell(line: &str) {
    let _ = output::print_text(line);
}
