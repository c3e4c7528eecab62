//! `settle serve`: the service.
//!
//! **A stop.** At the first SIGTERM or SIGINT the merchant API accepts no more connections and finishes the
//! requests under way; dispatcher and engine finish and record what they have in flight, and their keepers
//! give their shards back. The operator's listener stops last: until then `/readyz` says "draining". A second
//! signal ends the process at once.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use figment::Figment;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use rustix::process::{Resource, Rlimit};
use settle_api::http::{EnvelopeState, Lookups, Proxies};
use settle_api::server::{self, ServerLimits};
use settle_api::{
    ApiState, Guessing, Health, Limits, Messages, OperatorParts, OperatorState, Parts, Routes, Standings,
};
use settle_engine::life::Means;
use settle_engine::wake::EngineWake;
use settle_notify::guard::Guard;
use settle_notify::sender::Transport;
use settle_outbox::recorder::Recorder;
use settle_outbox::wake::Wake;
use settle_wiring::config::Config;
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, User, WiringError};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, spawn_blocking};

use super::CommandError;

pub(super) mod dev;
mod workers;

use dev::Development;

/// The upper ends of the latency histogram's buckets, in seconds.
const LATENCY_BUCKETS: [f64; 12] =
    [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// Open files that the merchants' connections leave free: for the database, name servers, deliveries and
/// operators.
const FILES_RESERVED: usize = 256;
/// Connections that operators may have open at once, in all and from one address. Half of them stay free for
/// those who ask whether the service is well.
const OPERATOR_CONNECTIONS_MAX: usize = 128;
const OPERATOR_CONNECTIONS_PER_SOURCE: usize = 64;
/// Connections that the kernel keeps for the service until it takes them: who comes together with a crowd
/// should not have to come again. The kernel may allow less.
const BACKLOG: u32 = 4_096;
/// How often the metrics recorder sorts samples into the histograms.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

#[derive(Debug, Default, Args)]
pub(super) struct Serve {
    /// Run only these parts [default: all of them]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLE,…")]
    role: Vec<Role>,
    /// Serve although rows need a master key that is not in the ring: what they hold does not work
    #[arg(long)]
    without_lost_keys: bool,
    /// Serve a test suite or your own machine: a temporary data folder, webhooks to this machine, and a
    /// merchant, a key and an operator's token as one JSON line on standard output
    ///
    /// The line has `api_url`, `operator_url`, `merchant_id`, `api_key` and `operator_token`, and comes when
    /// both listeners answer. Settings count as ever; a data folder that is set is used and kept, and a port
    /// that is not set may be another one if it is taken. What looks like a real installation is refused.
    #[arg(long, conflicts_with_all = ["role", "without_lost_keys"])]
    dev: bool,
    /// Listeners that are bound already.
    #[arg(skip)]
    bound: Bound,
    /// Told when both listeners answer.
    #[arg(skip)]
    ready: Option<oneshot::Sender<()>>,
}

/// Listeners to serve on. The settings say where to bind those that are missing.
#[derive(Debug, Default)]
pub(super) struct Bound {
    pub(super) api: Option<TcpListener>,
    pub(super) operator: Option<TcpListener>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// The merchant API
    Api,
    /// The operator's listener
    Operator,
    /// The dispatcher, which sends notifications
    Dispatch,
    /// The engine, which settles payments
    Engine,
}

impl Serve {
    /// All parts, on the given listeners. Tells `ready` when both answer.
    pub(super) fn on(bound: Bound, ready: oneshot::Sender<()>) -> Serve {
        Serve { bound, ready: Some(ready), ..Serve::default() }
    }

    fn runs(&self, role: Role) -> bool {
        self.role.is_empty() || self.role.contains(&role)
    }

    pub(super) async fn run(mut self, mut config: Config, sources: &Figment) -> Result<(), CommandError> {
        let mut development = None;
        if self.dev {
            let (prepared, bound) = Development::prepare(&mut config, sources).await?;
            (development, self.bound) = (Some(prepared), bound);
        }
        let draining = Arc::new(AtomicBool::new(false));
        let stop = stop_signal(draining.clone(), config.shutdown.delay)?;
        let opened = async { tokio::try_join!(biased; Prepared::make(), self.open(config)) };
        let (prepared, context) = tokio::select! {
            opened = opened => opened?,
            () = stopped(stop.clone()) => return Ok(()),
        };
        let access = match &development {
            Some(development) => Some(development.open(&context).await?),
            None => None,
        };
        let (is_ready, ready) = oneshot::channel();
        self.ready = Some(is_ready);
        let served = self.serve(context, prepared, Wake::default(), stop, draining);
        tokio::try_join!(served, dev::announce(access, ready)).map(drop)
    }

    /// Opens the store, and refuses a ring that lacks a key which rows need.
    async fn open(&self, config: Config) -> Result<Context, CommandError> {
        let context = Context::open(config, User::Service).await?;
        match settle_wiring::check_master_keys(&*context.store, &context.ring).await {
            Err(fault @ WiringError::MasterKeyNeeded { .. }) if self.without_lost_keys => {
                tracing::warn!(%fault, "serving without what needs a lost master key");
            }
            checked => checked?,
        }
        Ok(context)
    }

    /// Runs the service until `stop` is true. Code of this process that enqueues deliveries uses `wake` to
    /// wake the dispatcher.
    pub(super) async fn serve(
        mut self,
        context: Context,
        prepared: Prepared,
        wake: Wake,
        stop: watch::Receiver<bool>,
        draining: Arc<AtomicBool>,
    ) -> Result<(), CommandError> {
        let limits = server_limits(&context.config);
        let messages = Messages::built_in().map_err(|fault| CommandError::Refused(fault.to_string()))?;
        let guard = settle_wiring::guard(&context.config)?;
        let transport: Arc<dyn Transport> = Arc::new(settle_wiring::sender(&context.config, guard.clone())?);
        let (sends, settles) = (self.runs(Role::Dispatch), self.runs(Role::Engine));
        let engine_wake = EngineWake::default();
        // Before anybody is let in: it refuses settings that cannot be used.
        let means = workers::means(&context, wake.clone(), engine_wake.clone())?;
        let listener = if self.runs(Role::Api) {
            let listener = listen(self.bound.api.take(), "api.listen", context.config.api.listen)?;
            tracing::info!(address = %listener.local_addr()?, "the merchant API listens");
            Some(listener)
        } else {
            None
        };
        let dispatching = workers::dispatch(sends, &context, transport.clone(), wake.clone(), stop.clone())?;
        let (dispatcher, dispatching) = dispatching.unzip();
        let settling = workers::engine(settles, &context, means.clone(), engine_wake.clone(), stop.clone());
        let (engine, settling) = settling.unzip();
        let recorder = self.runs(Role::Operator).then(|| workers::recorder(&context, wake.clone()));
        let standings = Standings { dispatcher: dispatching, engine: settling };
        let health = Health::new(context.store.clone(), draining, standings, recorder.clone());
        let merchants = listener.map(|listener| {
            let state = api_state(&context, messages, guard, transport, wake);
            let router = prepared.routes.merchants(&state, health.clone());
            tokio::spawn(server::serve(listener, router, limits.clone(), stopped(stop.clone())))
        });
        let drained = drained(stop, merchants, dispatcher, engine);
        if let Some(recorder) = recorder {
            let engine = (means, engine_wake);
            let state = operator_state(&context, messages, recorder, engine, prepared.metrics, health)?;
            let (bound, address) = (self.bound.operator.take(), context.config.operator.listen);
            let listener = listen(bound, "operator.listen", address)?;
            tracing::info!(address = %listener.local_addr()?, "the operator's listener listens");
            if let Some(ready) = self.ready.take() {
                // Nobody may want to know.
                let _ = ready.send(());
            }
            let limits = ServerLimits {
                connections_max: OPERATOR_CONNECTIONS_MAX,
                connections_per_source: OPERATOR_CONNECTIONS_PER_SOURCE,
                ..limits
            };
            let router = prepared.routes.operators(&state);
            server::serve(listener, router, limits, drained).await;
        } else {
            drained.await;
        }
        context.store.close().await;
        tracing::info!("stopped");
        Ok(())
    }
}

/// Ends when the merchants' requests are finished, and engine and dispatcher have recorded what was in
/// flight. The operator's listener stays up until then.
async fn drained(
    stop: watch::Receiver<bool>,
    merchants: Option<JoinHandle<()>>,
    dispatcher: Option<JoinHandle<()>>,
    engine: Option<JoinHandle<()>>,
) {
    stopped(stop).await;
    // The engine before the dispatcher: what it completes is notified by whoever is there.
    for (part, task) in
        [("the merchant API", merchants), ("the engine", engine), ("the dispatcher", dispatcher)]
    {
        if let Some(task) = task
            && let Err(fault) = task.await
        {
            tracing::error!(%fault, "{part} ended early");
        }
    }
}

fn listen(
    bound: Option<TcpListener>,
    setting: &str,
    address: SocketAddr,
) -> Result<TcpListener, CommandError> {
    if let Some(listener) = bound {
        return Ok(listener);
    }
    let listening = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listening().map_err(|fault: io::Error| {
        CommandError::Refused(format!("{setting}: {}", deaf(setting, address, &fault)))
    })
}

/// Why nobody can listen on an address, and what an operator does about it.
pub(super) fn deaf(setting: &str, address: SocketAddr, fault: &io::Error) -> String {
    let remedy = match fault.kind() {
        io::ErrorKind::AddrInUse => format!("end what uses it, or set {setting}"),
        io::ErrorKind::AddrNotAvailable => {
            format!("this machine does not have that address: set {setting} to one that it has")
        }
        io::ErrorKind::PermissionDenied => {
            format!("ports below 1024 need a right of their own: set {setting} to a higher one")
        }
        _ => format!("set {setting}"),
    };
    format!("cannot listen on {address}: {fault}: {remedy}")
}

fn api_state(
    context: &Context,
    messages: &'static Messages,
    guard: Guard,
    transport: Arc<dyn Transport>,
    wake: Wake,
) -> ApiState {
    let config = &context.config;
    if config.webhook.is_opened() {
        tracing::warn!(
            allow_http = config.webhook.allow_http,
            allow_unresolved = config.webhook.allow_unresolved,
            allow_networks = ?config.webhook.allow_networks,
            "THE ADDRESS GUARD IS OPENED FOR DEVELOPMENT: webhooks may reach more than public https addresses"
        );
    }
    let limits = Limits {
        body_timeout: config.api.body_timeout,
        request_timeout: config.api.request_timeout,
        requests_per_second: NonZeroU32::new(config.api.requests_per_second),
        requests_burst: config.api.requests_burst,
        guessing: guessing(config),
        ..Limits::default()
    };
    ApiState::new(Parts {
        store: context.store.clone(),
        ring: context.ring.clone(),
        transport,
        guard,
        outbox: context.service_outbox(wake),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        messages,
        limits,
    })
}

fn operator_state(
    context: &Context,
    messages: &'static Messages,
    recorder: Recorder,
    (means, engine_wake): (Means, EngineWake),
    metrics: PrometheusHandle,
    health: Health,
) -> Result<OperatorState, CommandError> {
    let timeout = context.config.api.request_timeout;
    let envelope = EnvelopeState::new(Arc::new(SystemClock), Arc::new(SystemEntropy), messages, timeout);
    let store = context.store.clone();
    let (ring, body_timeout) = (context.ring.clone(), context.config.api.body_timeout);
    let operators = Lookups::new(guessing(&context.config));
    let process = metrics_process::Collector::default();
    Ok(OperatorState::new(OperatorParts {
        envelope,
        store,
        ring,
        operators,
        recorder,
        means,
        two_people: context.config.engine.two_people,
        provider_secrets: Arc::new(settle_wiring::provider_secrets(&context.config)?),
        engine_wake,
        body_timeout,
        metrics,
        process,
        health,
    }))
}

/// How many wrong credentials a source may give on a listener.
fn guessing(config: &Config) -> Guessing {
    let per_second = NonZeroU32::new(config.api.wrong_credentials_per_second);
    Guessing { per_second, burst: config.api.wrong_credentials_burst }
}

/// What a service needs besides its store.
pub(super) struct Prepared {
    metrics: PrometheusHandle,
    routes: Routes,
}

impl Prepared {
    pub(super) async fn make() -> Result<Prepared, CommandError> {
        // The metrics come before anything else runs: their clock spins until it has compared the processor's
        // counter with the system's time, alone for some milliseconds, beside others for up to 200.
        let metrics = start_metrics()?;
        // The store opens meanwhile, which takes about as long.
        let routes = spawn_blocking(Routes::make).await;
        let routes =
            routes.map_err(|fault| CommandError::Refused(format!("the service cannot start: {fault}")))?;
        Ok(Prepared { metrics, routes })
    }
}

/// Starts the metrics, before anything listens, so that every request is counted.
fn start_metrics() -> Result<PrometheusHandle, CommandError> {
    let durations = Matcher::Suffix("_seconds".to_owned());
    let recorder = PrometheusBuilder::new().set_buckets_for_metric(durations, &LATENCY_BUCKETS);
    let metrics = recorder.and_then(PrometheusBuilder::install_recorder);
    let metrics = metrics.map_err(|fault| CommandError::Refused(format!("metrics: {fault}")))?;
    metrics_process::Collector::default().describe();
    settle_notify::metrics::describe();
    settle_api::metrics::describe();
    settle_engine::metrics::describe();
    metrics::describe_gauge!("settle_build_info", "1; the labels say which build this is.");
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("SETTLE_COMMIT"));
    metrics::gauge!("settle_build_info", "version" => version, "commit" => commit).set(1.0);
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        // The metrics recorder keeps every sample until it is sorted into a bucket. Without this task samples
        // would pile up where nobody scrapes.
        let mut due = tokio::time::interval(METRICS_UPKEEP);
        loop {
            due.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(metrics)
}

fn server_limits(config: &Config) -> ServerLimits {
    let wanted = usize::try_from(config.api.connections_max.get()).unwrap_or(usize::MAX);
    let connections_max = wanted.min(open_files_max().saturating_sub(FILES_RESERVED).max(1));
    if connections_max < wanted {
        tracing::warn!(
            wanted,
            connections_max,
            "api.connections_max is more than the open-files limit allows"
        );
    }
    ServerLimits {
        connections_max,
        connections_per_source: usize::try_from(config.api.connections_per_source.get())
            .unwrap_or(usize::MAX),
        proxies: Proxies::new(&config.api.trusted_proxies),
        header_timeout: config.api.header_timeout,
        write_timeout: config.api.write_timeout,
        shutdown_timeout: config.shutdown.timeout,
    }
}

/// Raises the limit on open files and sockets as far as the system allows, and returns it.
fn open_files_max() -> usize {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let current = if rustix::process::setrlimit(Resource::Nofile, raised).is_ok() {
        limit.maximum
    } else {
        limit.current
    };
    current.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX)
}

/// Becomes true at the first SIGTERM or SIGINT, after a delay in which `/readyz` says "draining" and
/// everything is served: a load balancer needs a moment to notice. The second signal ends the process at
/// once.
pub(super) fn stop_signal(draining: Arc<AtomicBool>, delay: Duration) -> io::Result<watch::Receiver<bool>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        for signals in 1.. {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if signals > 1 {
                exit_at_once();
            }
            draining.store(true, Ordering::Relaxed);
            tracing::info!("stopping: requests under way are finished first; a second signal ends at once");
            let sender = sender.clone();
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                // If everything has stopped already, nobody receives this.
                let _ = sender.send(true);
            });
        }
    });
    Ok(receiver)
}

#[expect(clippy::disallowed_methods, reason = "who asks twice does not want to wait for what is under way")]
fn exit_at_once() {
    const INTERRUPTED: i32 = 130;
    std::process::exit(INTERRUPTED);
}

pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    // The sender lives as long as the process waits for signals, so this cannot fail.
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests;
