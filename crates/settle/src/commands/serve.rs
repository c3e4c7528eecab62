//! `settle serve`: the service.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use settle_api::http::EnvelopeState;
use settle_api::server::{self, ServerLimits};
use settle_api::{ApiState, Limits, Messages, OperatorState, Parts, router};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::{CommandFault, Context};
use crate::config::Config;
use crate::system::{SystemClock, SystemEntropy};
use crate::wiring;

/// The upper ends of the latency histogram's buckets, in seconds.
const LATENCY_BUCKETS: [f64; 12] =
    [0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];

/// How often samples are sorted into the histograms.
const METRICS_UPKEEP: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Run only these parts [default: all of them]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "ROLE,…")]
    role: Vec<Role>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    /// The merchant API
    Api,
    /// The operator's listener
    Operator,
}

impl Serve {
    fn runs(&self, role: Role) -> bool {
        self.role.is_empty() || self.role.contains(&role)
    }

    pub(super) async fn run(self, config: Config) -> Result<(), CommandFault> {
        let draining = Arc::new(AtomicBool::new(false));
        let stop = stop_signal(draining.clone())?;
        let metrics = start_metrics()?;
        let context = Context::open(config).await?;
        let limits = server_limits(&context.config);
        let messages = Messages::load().map_err(|fault| CommandFault::Refused(fault.to_string()))?;
        let messages = Arc::new(messages);
        let mut listeners = tokio::task::JoinSet::new();
        if self.runs(Role::Api) {
            let state = api_state(&context, &messages)?;
            let listener = listen("api.listen", context.config.api.listen).await?;
            tracing::info!(address = %listener.local_addr()?, "the merchant API listens");
            listeners.spawn(server::serve(listener, router::merchant(&state), limits, stopped(stop.clone())));
        }
        if self.runs(Role::Operator) {
            let state = operator_state(&context, messages, metrics, draining);
            let listener = listen("operator.listen", context.config.operator.listen).await?;
            tracing::info!(address = %listener.local_addr()?, "the operator's listener listens");
            listeners.spawn(server::serve(listener, router::operator(state), limits, stopped(stop.clone())));
        }
        while let Some(ended) = listeners.join_next().await {
            ended.map_err(|fault| CommandFault::Refused(format!("a listener failed: {fault}")))?;
        }
        context.store.close().await;
        tracing::info!("stopped");
        Ok(())
    }
}

async fn listen(setting: &str, address: std::net::SocketAddr) -> Result<TcpListener, CommandFault> {
    let listener = TcpListener::bind(address).await;
    listener.map_err(|fault| CommandFault::Refused(format!("{setting}: cannot listen on {address}: {fault}")))
}

fn api_state(context: &Context, messages: &Arc<Messages>) -> Result<ApiState, CommandFault> {
    let config = &context.config;
    if config.webhook.allow_http || !config.webhook.allow_networks.is_empty() {
        tracing::warn!(
            allow_http = config.webhook.allow_http,
            allow_networks = ?config.webhook.allow_networks,
            "THE ADDRESS GUARD IS OPENED FOR DEVELOPMENT: webhooks may reach more than public https addresses"
        );
    }
    let limits = Limits {
        body_timeout: config.api.body_timeout,
        request_timeout: config.api.request_timeout,
        requests_per_second: NonZeroU32::new(config.api.requests_per_second),
        requests_burst: config.api.requests_burst,
        ..Limits::default()
    };
    let guard = wiring::guard(config)?;
    Ok(ApiState::new(Parts {
        store: context.store.clone(),
        ring: context.ring.clone(),
        transport: Arc::new(wiring::sender(config, guard.clone())?),
        guard,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        messages: messages.clone(),
        limits,
    }))
}

fn operator_state(
    context: &Context,
    messages: Arc<Messages>,
    metrics: PrometheusHandle,
    draining: Arc<AtomicBool>,
) -> OperatorState {
    let envelope = EnvelopeState {
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy),
        messages,
        request_timeout: context.config.api.request_timeout,
    };
    OperatorState { envelope, store: context.store.clone(), metrics, draining }
}

/// Starts counting: before anything listens, so that nothing goes uncounted.
fn start_metrics() -> Result<PrometheusHandle, CommandFault> {
    let durations = Matcher::Suffix("_seconds".to_owned());
    let recorder = PrometheusBuilder::new().set_buckets_for_metric(durations, &LATENCY_BUCKETS);
    let metrics = recorder.and_then(PrometheusBuilder::install_recorder);
    let metrics = metrics.map_err(|fault| CommandFault::Refused(format!("metrics: {fault}")))?;
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        // Samples are kept one by one until they are sorted into buckets; without this they would pile up
        // wherever nobody scrapes.
        let mut due = tokio::time::interval(METRICS_UPKEEP);
        loop {
            due.tick().await;
            upkeep.run_upkeep();
        }
    });
    Ok(metrics)
}

fn server_limits(config: &Config) -> ServerLimits {
    ServerLimits {
        connections_max: usize::try_from(config.api.connections_max.get()).unwrap_or(usize::MAX),
        header_timeout: config.api.header_timeout,
        write_timeout: config.api.write_timeout,
        shutdown_timeout: config.shutdown.timeout,
    }
}

/// Becomes true at the first SIGTERM or SIGINT.
fn stop_signal(draining: Arc<AtomicBool>) -> std::io::Result<watch::Receiver<bool>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping: requests under way are finished first");
        draining.store(true, Ordering::Relaxed);
        // Nobody listens any more when everything has stopped already.
        let _ = sender.send(true);
    });
    Ok(receiver)
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // The sender lives as long as the process waits for signals.
    let _ = stop.wait_for(|stop| *stop).await;
}
