//! The operator's listener under test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use settle_api::http::{EnvelopeState, Lookups};
use settle_api::server::{self, ServerLimits};
use settle_api::{Health, Limits, Messages, OperatorParts, OperatorState, Routes, Standings};
use settle_domain::operation::Backoff;
use settle_domain::seams::{ManualClock, SeededEntropy};
use settle_engine::life::{Corridors, Means};
use settle_engine::providers::Providers;
use settle_engine::wake::EngineWake;
use settle_engine::writer::Writer;
use settle_outbox::Outbox;
use settle_outbox::recorder::Recorder;
use settle_outbox::wake::Wake;
use settle_shards::keeper::Standing;
use settle_store::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::answer::Answer;
use crate::contract::Contract;
use crate::merchant::Ask;
use crate::service::{NOW, ring};

/// The parts of the listener, with the given store.
pub fn parts(store: Arc<dyn Store>) -> OperatorParts {
    let (health, _) = health(store.clone(), None);
    let limits = Limits::default();
    let envelope = EnvelopeState::new(
        Arc::new(ManualClock::at(NOW.parse().expect("a time"))),
        Arc::new(SeededEntropy::new(1)),
        Messages::built_in().expect("the languages are complete"),
        limits.request_timeout,
    );
    let engine_wake = EngineWake::default();
    OperatorParts {
        recorder: recorder(store.clone()),
        means: means(store.clone(), engine_wake.clone()),
        engine_wake,
        two_people: false,
        provider_secrets: Arc::default(),
        envelope,
        store,
        ring: ring(),
        operators: Lookups::new(limits.guessing),
        body_timeout: limits.body_timeout,
        metrics: PrometheusBuilder::new().build_recorder().handle(),
        process: metrics_process::Collector::default(),
        health,
    }
}

/// The health of a service with this store and dispatcher, and what says that it is stopping.
pub fn health(
    store: Arc<dyn Store>,
    dispatcher: Option<watch::Receiver<Standing>>,
) -> (Health, Arc<AtomicBool>) {
    let draining = Arc::new(AtomicBool::new(false));
    (Health::new(store, draining.clone(), Standings { dispatcher, engine: None }, None), draining)
}

/// What an engine without providers works with.
fn means(store: Arc<dyn Store>, wake: EngineWake) -> Means {
    let clock = Arc::new(ManualClock::at(NOW.parse().expect("a time")));
    let outbox =
        Outbox::of_service(store.clone(), Wake::default(), clock.clone(), Arc::new(SeededEntropy::new(3)));
    Means {
        store,
        writer: Writer::start(outbox, wake, clock.clone()),
        providers: Providers::default(),
        clock,
        waits: Backoff { first: Duration::from_secs(5), longest: Duration::from_mins(5) },
        corridors: Corridors::default(),
        answer_wait: Duration::from_secs(10),
    }
}

/// A recorder with the given store.
pub fn recorder(store: Arc<dyn Store>) -> Recorder {
    let clock = Arc::new(ManualClock::at(NOW.parse().expect("a time")));
    Recorder::start(Outbox::of_service(store, Wake::default(), clock, Arc::new(SeededEntropy::new(2))))
}

/// A running listener.
pub struct Listener {
    pub address: SocketAddr,
}

impl Listener {
    pub async fn start(parts: OperatorParts) -> Listener {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let router = Routes::make().operators(&OperatorState::new(parts));
        tokio::spawn(server::serve(listener, router, ServerLimits::default(), std::future::pending()));
        Listener { address }
    }

    pub async fn get(&self, path: &str) -> Answer {
        Ask::new(self.address, "GET", path).send_under(Contract::with_operators()).await
    }
}
