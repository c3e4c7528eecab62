//! The parts of the service that work without being asked: the dispatcher and the engine, each with the
//! keeper of its shards, and whoever works beside them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use settle_engine::life::Means;
use settle_engine::metrics::count;
use settle_engine::pauses;
use settle_engine::providers::Providers;
use settle_engine::reconcile::Reconciler;
use settle_engine::runner::Engine;
use settle_engine::wake::{EngineWake, pass_on as pass_on_payments};
use settle_engine::watch::Watch;
use settle_engine::writer::Writer;
use settle_notify::clearer::Clearer;
use settle_notify::sender::Transport;
use settle_outbox::imports::finisher::Finisher;
use settle_outbox::recorder::Recorder;
use settle_outbox::wake::{Wake, pass_on};
use settle_shards::keeper::Standing;
use settle_store::Duty;
use settle_wiring::system::{SystemClock, SystemEntropy};
use settle_wiring::{Context, DispatchParts};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::stopped;
use crate::commands::CommandError;

/// How long the parts beside a keeper wait for it. If the database does not answer the keeper, it may still
/// answer them.
const KEEPER_AWAITED: Duration = Duration::from_secs(1);

/// A worker with its keeper, and where the keeper stands.
pub(super) type Working = (JoinHandle<()>, watch::Receiver<Standing>);

/// Starts the dispatcher, its keeper, the alerter, the clearer and the finisher of imports. A process that
/// does not run it has a task that passes wake-ups on to the processes that do.
pub(super) fn dispatch(
    runs: bool,
    context: &Context,
    transport: Arc<dyn Transport>,
    wake: Wake,
    stop: watch::Receiver<bool>,
) -> Result<Option<Working>, CommandError> {
    let store = context.store.clone();
    if !runs {
        tokio::spawn(pass_on(wake, store));
        return Ok(None);
    }
    let alerter = settle_wiring::alerter(&context.config, store.clone(), Arc::new(SystemClock))?;
    let mut keeper = settle_wiring::keeper(&context.config, store.clone(), Duty::Dispatch);
    let clearer = Clearer::new(store.clone());
    let finisher = Finisher::new(context.service_outbox(wake.clone()));
    let tenancy = keeper.tenant();
    let parts = DispatchParts { store, transport, ring: context.ring.clone(), wake, alerter: alerter.wake() };
    let dispatcher = settle_wiring::dispatcher(&context.config, parts);
    let standing = keeper.standing();
    let alerter = beside(&standing, &stop, alerter.run(stopped(stop.clone())));
    let clearer = beside(&standing, &stop, clearer.run(stopped(stop.clone())));
    let finisher = beside(&standing, &stop, finisher.run(stopped(stop.clone())));
    let keeper = tokio::spawn(vital(keeper.run()));
    let running = tokio::spawn(async move {
        vital(dispatcher.run(tenancy, stopped(stop))).await;
        // The keeper gives its shards back when the dispatcher, its tenant, has gone.
        let _ = keeper.await;
        let _ = alerter.await;
        let _ = clearer.await;
        let _ = finisher.await;
    });
    Ok(Some((running, standing)))
}

/// Who records what operators tell of.
pub(super) fn recorder(context: &Context, wake: Wake) -> Recorder {
    let recorder = Recorder::start(context.service_outbox(wake));
    let watched = recorder.clone();
    tokio::spawn(async move {
        watched.ended().await;
        give_up();
    });
    recorder
}

/// What the engine works with, and whoever tells it of payments.
pub(super) fn means(context: &Context, wake: Wake, engine_wake: EngineWake) -> Result<Means, CommandError> {
    let providers = settle_wiring::providers(&context.config)?;
    let writer = Writer::start(context.service_outbox(wake), engine_wake, Arc::new(SystemClock));
    let watched = writer.clone();
    tokio::spawn(async move {
        watched.ended().await;
        give_up();
    });
    Ok(settle_wiring::means(&context.config, context.store.clone(), writer, providers))
}

/// Starts the engine and its keeper. A process that does not run it has a task that passes wake-ups on to the
/// processes that do.
pub(super) fn engine(
    runs: bool,
    context: &Context,
    means: Means,
    wake: EngineWake,
    stop: watch::Receiver<bool>,
) -> Option<Working> {
    let store = context.store.clone();
    if !runs {
        tokio::spawn(pass_on_payments(wake, store));
        return None;
    }
    let mut keeper = settle_wiring::keeper(&context.config, store.clone(), Duty::Engine);
    let (tenancy, standing) = (keeper.tenant(), keeper.standing());
    let providers = means.providers.clone();
    tokio::spawn(introduce(providers.clone()));
    let watch = Watch::new(store.clone(), providers.clone(), Arc::new(SystemClock), Arc::new(SystemEntropy));
    let reconciler = Reconciler::new(means.clone(), wake.clone(), Arc::new(SystemEntropy));
    let beside = [
        beside(&standing, &stop, reconciler.run(stopped(stop.clone()))),
        beside(&standing, &stop, watch.run(stopped(stop.clone()))),
        beside(&standing, &stop, count(store.clone(), Arc::new(SystemClock), stopped(stop.clone()))),
    ];
    let (known, are_known) = oneshot::channel();
    let tell = move || {
        // The engine may have been told to stop before it began.
        let _ = known.send(());
    };
    let pauses = tokio::spawn(vital(pauses::follow(providers, store, tell, stopped(stop.clone()))));
    let shutdown_timeout = context.config.shutdown.timeout;
    let running = tokio::spawn(async move {
        // Nothing is sent before it is known who is paused, and no shard is taken: its merchants would have
        // nobody. The sender is dropped if the service stops first.
        if are_known.await.is_ok() {
            let keeper = tokio::spawn(vital(keeper.run()));
            vital(Engine { means, wake, shutdown_timeout }.run(tenancy, stopped(stop))).await;
            let _ = keeper.await;
        }
        let _ = pauses.await;
        for worker in beside {
            let _ = worker.await;
        }
    });
    Some((running, standing))
}

/// Says which providers there are, and loudly which of them move no real money.
async fn introduce(providers: Providers) {
    for station in providers.all() {
        let provider = station.name();
        match station.capabilities().await {
            Some(known) if known.sandbox => tracing::warn!(
                %provider,
                "THE PROVIDER IS A SANDBOX: what it pays out is not real money"
            ),
            Some(known) => tracing::info!(%provider, instance = known.instance, "the provider answers"),
            // It has said so itself.
            None if station.turns_away().is_some() => {}
            None => {
                tracing::warn!(%provider, "the provider gives no answer that we can use: its payments wait");
            }
        }
    }
}

/// Starts a part that works beside a keeper's tenant, when the keeper knows where it stands. At a start what
/// merchants wait for comes first: were all to ask the database at once, each would make a connection of its
/// own, and the first answers would come last.
fn beside(
    standing: &watch::Receiver<Standing>,
    stop: &watch::Receiver<bool>,
    part: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let (mut standing, stop) = (standing.clone(), stop.clone());
    tokio::spawn(async move {
        let known = standing.wait_for(|standing| !matches!(standing, Standing::Starting(_)));
        tokio::select! {
            biased;
            () = stopped(stop) => return,
            _ = tokio::time::timeout(KEEPER_AWAITED, known) => {}
        }
        vital(part).await;
    })
}

/// Runs a part without which the service would only seem alive. If it panics, the process ends, so that its
/// supervisor starts it again.
async fn vital(part: impl Future<Output = ()> + Send) {
    if AssertUnwindSafe(part).catch_unwind().await.is_err() {
        give_up();
    }
}

#[expect(clippy::disallowed_methods, reason = "there is nobody left to return to")]
fn give_up() {
    tracing::error!("a part of the service panicked: the process ends");
    std::process::exit(1);
}

#[cfg(test)]
mod tests {
    use settle_store::conformance::ScratchStore;
    use settle_testing::virtual_time::pass;
    use settle_wiring::config;
    use tempfile::TempDir;
    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::time::Instant;

    use super::*;

    fn context(store: &ScratchStore, folder: &TempDir) -> Context {
        let environment = vec![("SETTLE_DATA_DIR".to_owned(), folder.path().display().to_string())];
        let config = config::load(None, &environment).unwrap().config;
        let ring = settle_wiring::key_ring(&config, &SystemEntropy).unwrap();
        Context { config, store: store.share(), ring }
    }

    /// Otherwise it would hold merchants whom nobody serves, and say that it serves them.
    #[tokio::test(start_paused = true)]
    async fn an_engine_that_does_not_know_the_pauses_takes_no_shards_until_it_does() {
        let store = settle_store_sqlite::testing::scratch().await.migrated().await;
        let folder = tempfile::tempdir().unwrap();
        let context = context(&store, &folder);
        store.execute("ALTER TABLE provider_pauses RENAME TO elsewhere").await;
        let (stop, stopping) = watch::channel(false);
        let wake = EngineWake::default();
        let means = means(&context, Wake::default(), wake.clone()).unwrap();
        let (running, mut standing) = engine(true, &context, means, wake, stopping).unwrap();
        pass(Duration::from_mins(1)).await;
        assert!(matches!(*standing.borrow(), Standing::Starting(_)), "{standing:?}");

        store.execute("ALTER TABLE elsewhere RENAME TO provider_pauses").await;
        standing.wait_for(|standing| *standing == Standing::Present).await.unwrap();
        stop.send(true).unwrap();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_works_beside_begins_when_the_keeper_stands_or_gets_no_answer() {
        let starting = || watch::channel(Standing::Starting(Instant::now()));
        let (_running, going_on) = watch::channel(false);
        let begun = |standing: &watch::Receiver<Standing>, stop: &watch::Receiver<bool>| {
            let (begun, has_begun) = oneshot::channel();
            drop(beside(standing, stop, async { begun.send(()).unwrap() }));
            has_begun
        };
        let (keeper, standing) = starting();
        let mut told = begun(&standing, &going_on);
        pass(KEEPER_AWAITED / 2).await;
        assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
        keeper.send(Standing::Absent(Instant::now())).unwrap();
        pass(Duration::from_millis(1)).await;
        assert_eq!(told.try_recv(), Ok(()));

        let (_silent, standing) = starting();
        let mut untold = begun(&standing, &going_on);
        pass(KEEPER_AWAITED / 2).await;
        assert_eq!(untold.try_recv(), Err(TryRecvError::Empty));
        pass(KEEPER_AWAITED).await;
        assert_eq!(untold.try_recv(), Ok(()));

        let (stop, stopping) = watch::channel(false);
        let mut stopped = begun(&standing, &stopping);
        stop.send(true).unwrap();
        pass(2 * KEEPER_AWAITED).await;
        assert_eq!(stopped.try_recv(), Err(TryRecvError::Closed));
    }
}
