//! `/metrics`: what the service finds out about itself when it is asked.

use std::sync::Arc;

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use settle_api::{Health, OperatorParts, Standings};
use settle_shards::keeper::Standing;
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{OperatorClient, completed, send};
use super::listener::{Listener, health, parts};
use crate::service::Setup;

on_both_stores! {
    the_state_that_readyz_shows_is_1_and_the_others_are_0,
}

/// Where a dispatcher may stand, as operators read it.
const STATES: [&str; 5] = ["starting", "serving", "standing by", "absent", "failing"];

async fn the_state_that_readyz_shows_is_1_and_the_others_are_0(setup: Setup) {
    let measured = PrometheusBuilder::new().build_recorder();
    let _measuring = metrics::set_default_local_recorder(&measured);
    let scratch = setup.into_scratch().migrated().await;
    let (stands, standing) = watch::channel(Standing::Present);
    let (health, _) = health(scratch.share(), Some(standing));
    let parts = OperatorParts { health, metrics: measured.handle(), ..parts(scratch.share()) };
    let operator = Listener::start(parts).await;
    let now = Instant::now();
    for (standing, word) in [
        (Standing::Starting(now), "starting"),
        (Standing::Present, "serving"),
        (Standing::StandingBy, "standing by"),
        (Standing::Absent(now), "absent"),
        (Standing::Failing(now), "failing"),
    ] {
        stands.send_replace(standing);
        assert_eq!(operator.get("/readyz").await.json()["dispatcher"], word);
        let printed = operator.get("/metrics").await.text;
        for state in STATES {
            let is_it = u8::from(state == word);
            let line = format!("settle_dispatcher_state{{state=\"{state}\"}} {is_it}");
            assert!(printed.lines().any(|printed| printed == line), "{line}: {printed}");
        }
    }
}

/// On SQLite whoever writes waits for a transaction that is in the way.
#[tokio::test]
async fn the_recorder_is_busy_for_as_long_as_its_transaction_takes() {
    let measured = PrometheusBuilder::new().build_recorder();
    let _measuring = metrics::set_default_local_recorder(&measured);
    let mut recorder = None;
    let client = OperatorClient::start_with(Setup::sqlite().await, |parts| {
        let (store, own) = (parts.store.clone(), parts.recorder.clone());
        parts.health = Health::new(store, Arc::default(), Standings::default(), Some(own.clone()));
        parts.metrics = measured.handle();
        recorder = Some(own);
    })
    .await;
    let recorder = recorder.expect("it is one of the parts");
    let merchant = client.service.merchant().await;
    let busy_seconds = async || {
        let printed = client.listener.get("/metrics").await.text;
        let seconds = printed.lines().find_map(|line| line.strip_prefix("settle_recorder_busy_seconds "));
        seconds.unwrap_or_else(|| panic!("{printed}")).to_owned()
    };
    assert_eq!(busy_seconds().await, "0", "it has nothing to record");

    let in_the_way = client.service.store.begin().await.expect("a transaction");
    let asked = tokio::spawn(send(client.authorized().json(&completed(&merchant, json!({})))));
    while recorder.busy_for().is_zero() {
        tokio::task::yield_now().await;
    }
    let seconds: f64 = busy_seconds().await.parse().expect("a number");
    assert!(seconds > 0.0, "{seconds}");

    drop(in_the_way);
    assert_eq!(asked.await.expect("an answer").ok()["recorded"], 1);
    assert_eq!(busy_seconds().await, "0", "it has recorded");
}
