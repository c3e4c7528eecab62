//! The parts that the benchmark runs in processes of their own, because the service runs so too: a page from
//! memory, and a sender without a store.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use clap::Subcommand;
use hyper::body::Bytes;
use settle_api::Messages;
use settle_api::http::{EnvelopeState, envelope, json};
use settle_api::server::{ServerLimits, serve};
use settle_domain::event::EventType;
use settle_domain::ids::{DeliveryId, MerchantId};
use settle_domain::seams::Clock;
use settle_domain::webhook_secret::WebhookSecret;
use settle_notify::notification::Notification;
use settle_notify::sender::Transport;
use settle_wiring::config;
use settle_wiring::system::{SystemClock, SystemEntropy};
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::load::completed;
use crate::print;
use crate::process::cpu_seconds;
use crate::scratch::Shop;

/// How long a page from memory may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// The settlement's number in the posted body.
const NUMBER_MARK: &str = "\"B0\"";

#[derive(Debug, Subcommand)]
pub(crate) enum Part {
    /// Answer every request for a page with the same bytes, until standard input ends
    #[command(hide = true)]
    Page {
        file: PathBuf,
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Post notifications that nobody has recorded or signed; print the processor seconds it took
    #[command(hide = true)]
    Post(BarePosts),
}

impl Part {
    pub(crate) async fn run(self) -> Result<(), BenchError> {
        match self {
            Part::Page { file, listen } => serve_page(&file, listen).await,
            Part::Post(posts) => posts.run().await,
        }
    }
}

/// Serves the page through the listener, the routing and the envelope of the merchant API, with no handler
/// behind.
async fn serve_page(file: &Path, listen: SocketAddr) -> Result<(), BenchError> {
    let page = Bytes::from(std::fs::read(file)?);
    let messages = Messages::built_in().map_err(|fault| BenchError::Failed(fault.to_string()))?;
    let (clock, entropy) = (Arc::new(SystemClock), Arc::new(SystemEntropy));
    let state = EnvelopeState::new(clock, entropy, messages, REQUEST_TIMEOUT);
    let answer = get(async move || json(page.clone()));
    let router = Router::new()
        .route("/v1/settlements", answer.clone())
        .route("/v1/webhook/deliveries", answer)
        .layer(from_fn_with_state(Arc::new(state), envelope));
    let listener = tokio::net::TcpListener::bind(listen).await?;
    serve(listener, router, ServerLimits::default(), input_ended()).await;
    Ok(())
}

/// Ends when the process that started this one is gone.
async fn input_ended() {
    let read = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    let _ = tokio::task::spawn_blocking(read).await;
}

/// The sender of the service on its own.
#[derive(Debug, clap::Args)]
pub(crate) struct BarePosts {
    /// Where to
    #[arg(long, value_delimiter = ',')]
    endpoints: Vec<SocketAddr>,
    /// How many merchants, each served by itself
    #[arg(long)]
    merchants: usize,
    /// Posts of a merchant under way at once
    #[arg(long)]
    window: usize,
    /// How many posts
    #[arg(long)]
    number: usize,
}

impl BarePosts {
    async fn run(self) -> Result<(), BenchError> {
        let environment = config::environment(std::env::vars_os())?;
        let config = config::load(None, &environment)?.config;
        let guard = settle_wiring::guard(&config)?;
        let sender: Arc<dyn Transport> = Arc::new(settle_wiring::sender(&config, guard)?);
        let template = Arc::new(Template::new()?);
        let next = Arc::new(AtomicUsize::new(0));
        let mut merchants = JoinSet::new();
        for position in 0..self.merchants {
            let url: Arc<str> =
                format!("http://{}/hook", self.endpoints[position % self.endpoints.len()]).into();
            let (sender, template, next) = (sender.clone(), template.clone(), next.clone());
            let (window, number) = (self.window, self.number);
            merchants.spawn(async move {
                let mut under_way = JoinSet::new();
                loop {
                    let own = next.fetch_add(1, Ordering::Relaxed);
                    if own >= number {
                        break;
                    }
                    while under_way.len() >= window {
                        let _ = under_way.join_next().await;
                    }
                    let (sender, template, url) = (sender.clone(), template.clone(), url.clone());
                    // One task for each attempt, as in the dispatcher.
                    under_way.spawn(async move { sender.attempt(&url, template.notification(own)).await });
                }
                while under_way.join_next().await.is_some() {}
            });
        }
        while merchants.join_next().await.is_some() {}
        Ok(print(&mut std::io::stdout().lock(), &cpu_seconds(std::process::id()).to_string())?)
    }
}

/// A notification of which only the number changes. Its headers come from one that was really signed.
struct Template {
    signed: Notification,
    before: String,
    after: String,
}

impl Template {
    fn new() -> Result<Template, BenchError> {
        let refused = || BenchError::Failed("no notification can be made".to_owned());
        let now = SystemClock.now();
        let shop = Shop { merchant_id: MerchantId::new(now, &SystemEntropy), api_key: String::new() };
        let event = EventType::SettlementCompleted;
        let body = completed(&shop, 0)?.settlement.record().notification(event);
        let body = String::from_utf8(body).map_err(|_| refused())?;
        let (before, after) = body.split_once(NUMBER_MARK).ok_or_else(refused)?;
        let secret = WebhookSecret::parse("benchmark".to_owned()).map_err(|_| refused())?;
        let delivery = DeliveryId::new(now, &SystemEntropy);
        let signed = Notification::sign(&secret, delivery, event, body.clone().into_bytes(), now);
        Ok(Template { signed, before: before.to_owned(), after: after.to_owned() })
    }

    fn notification(&self, number: usize) -> Notification {
        let body = format!("{}\"B{number}\"{}", self.before, self.after).into_bytes();
        Notification { headers: self.signed.headers.clone(), body }
    }
}
