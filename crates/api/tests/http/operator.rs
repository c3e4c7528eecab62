//! The operator's listener: `/healthz`, `/readyz`, `/metrics`, and the operator API below.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use settle_api::OperatorParts;
use settle_shards::keeper::Standing;
use settle_store::Store;
use settle_store_postgres::testing::{scratch_url, store_at};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::contract::Contract;
use crate::merchant::Ask;
use crate::service::Setup;

mod authentication;
mod client;
mod keys;
mod ledger;
mod limits;
mod listener;
mod merchants;
mod metrics;
mod payments;
mod settlements;

pub use listener::{Listener, health, parts};

on_both_stores! {
    healthz_says_that_the_process_answers,
    readyz_says_that_the_service_can_work,
    readyz_is_a_503_while_migrations_are_pending,
    readyz_is_a_503_while_draining,
    readyz_is_a_503_when_the_database_is_away,
    readyz_says_where_the_dispatcher_stands,
    metrics_are_printed_for_prometheus,
    merchants_cannot_reach_it,
    its_docs_page_is_open_and_loads_nothing_from_elsewhere,
    what_it_does_not_know_is_refused_in_the_envelope,
}

async fn healthz_says_that_the_process_answers(setup: Setup) {
    let scratch = setup.into_scratch();
    let operator = Listener::start(parts(scratch.share())).await;
    assert_eq!(operator.get("/healthz").await.ok(), json!({ "status": "ok" }));
    scratch.close().await;
    operator.get("/healthz").await.ok();
}

async fn readyz_says_that_the_service_can_work(setup: Setup) {
    let scratch = setup.into_scratch().migrated().await;
    let operator = Listener::start(parts(scratch.share())).await;
    assert_eq!(operator.get("/readyz").await.ok(), json!({ "status": "ready" }));
}

async fn readyz_is_a_503_while_migrations_are_pending(setup: Setup) {
    let scratch = setup.into_scratch();
    let operator = Listener::start(parts(scratch.share())).await;
    let answer = operator.get("/readyz").await;
    let expected = json!({ "status": "not ready", "reason": "migrations are pending" });
    assert_eq!((answer.status, answer.json()), (503, expected));
    scratch.migrate().await.expect("an empty store can be migrated");
    operator.get("/readyz").await.ok();
}

async fn readyz_is_a_503_while_draining(setup: Setup) {
    let scratch = setup.into_scratch().migrated().await;
    let (health, draining) = health(scratch.share(), None);
    let operator = Listener::start(OperatorParts { health, ..parts(scratch.share()) }).await;
    draining.store(true, Ordering::Relaxed);
    let answer = operator.get("/readyz").await;
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (503, Some("draining")));
    operator.get("/healthz").await.ok();
}

async fn readyz_is_a_503_when_the_database_is_away(setup: Setup) {
    let scratch = setup.into_scratch().migrated().await;
    let operator = Listener::start(parts(scratch.share())).await;
    scratch.close().await;
    let answer = operator.get("/readyz").await;
    assert_eq!(answer.status, 503);
    assert_eq!(answer.json(), json!({ "status": "not ready", "reason": "the database does not answer" }));
}

async fn readyz_says_where_the_dispatcher_stands(setup: Setup) {
    let scratch = setup.into_scratch().migrated().await;
    let (stands, standing) = watch::channel(Standing::Present);
    let (health, _) = health(scratch.share(), Some(standing));
    let operator = Listener::start(OperatorParts { health, ..parts(scratch.share()) }).await;
    let ready = |dispatcher: &str| json!({ "status": "ready", "dispatcher": dispatcher });
    assert_eq!(operator.get("/readyz").await.ok(), ready("serving"));
    stands.send_replace(Standing::StandingBy);
    assert_eq!(operator.get("/readyz").await.ok(), ready("standing by"));
    stands.send_replace(Standing::Starting(Instant::now()));
    assert_eq!(operator.get("/readyz").await.ok(), ready("starting"));
    stands.send_replace(Standing::Absent(Instant::now()));
    assert_eq!(operator.get("/readyz").await.ok(), ready("absent"), "it may come back at once");
    stands.send_replace(Standing::Absent(Instant::now() - Duration::from_secs(16)));
    let answer = operator.get("/readyz").await;
    assert_eq!((answer.status, answer.json()["dispatcher"].as_str()), (503, Some("absent")));
    let reason = "the dispatcher is absent: it cannot show in the database that it lives";
    assert_eq!(answer.json()["reason"].as_str(), Some(reason));
    stands.send_replace(Standing::Failing(Instant::now()));
    assert_eq!(operator.get("/readyz").await.ok(), ready("failing"), "it may succeed at once");
    stands.send_replace(Standing::Failing(Instant::now() - Duration::from_secs(16)));
    let answer = operator.get("/readyz").await;
    assert_eq!((answer.status, answer.json()["dispatcher"].as_str()), (503, Some("failing")));
    let reason = "the dispatcher is failing: the database does not do what it asks";
    assert_eq!(answer.json()["reason"].as_str(), Some(reason));
}

/// A full disk is not to be had in a test; a session that may only read refuses writes as well.
#[tokio::test]
async fn readyz_is_a_503_when_nothing_can_be_written() {
    let url = scratch_url().await;
    let store = |url: &str| Arc::new(store_at(url, 2));
    store(&url).migrate().await.expect("an empty store can be migrated");
    let refuses = store(&format!("{url}&options[default_transaction_read_only]=on"));
    let answer = Listener::start(parts(refuses)).await.get("/readyz").await;
    let expected = json!({ "status": "not ready", "reason": "the database accepts no writes" });
    assert_eq!((answer.status, answer.json()), (503, expected));
    Listener::start(parts(store(&url))).await.get("/readyz").await.ok();
}

/// Whoever runs the service reads which right is missing, and anybody else only that one is.
#[tokio::test]
async fn readyz_is_a_503_while_the_role_lacks_a_right() {
    let setup = Setup::postgres_of_role().await;
    let merchant = setup.merchant().await;
    let (service, store) = (&merchant.service, merchant.service.store.clone());
    Listener::start(parts(store.clone())).await.get("/readyz").await.ok();
    service.execute("REVOKE INSERT ON operations FROM CURRENT_USER").await;
    let answer = Listener::start(parts(store.clone())).await.get("/readyz").await;
    let words = "database_grant_missing: the database role lacks rights that the service needs";
    let expected = json!({ "status": "not ready", "reason": format!("{words}: INSERT operations") });
    assert_eq!((answer.status, answer.json()), (503, expected));
    // It may be why a dispatcher fails.
    let (_stands, standing) = watch::channel(Standing::Failing(Instant::now() - Duration::from_secs(16)));
    let (health, _) = health(store.clone(), Some(standing));
    let failing = Listener::start(OperatorParts { health, ..parts(store.clone()) }).await;
    let answer = failing.get("/readyz").await;
    assert_eq!(answer.json()["reason"], format!("{words}: INSERT operations"));
    let answer = service.ask("GET", "/readyz").send_under(Contract::with_operators()).await;
    assert_eq!((answer.status, answer.json()), (503, json!({ "status": "not ready", "reason": words })));

    service.execute("REVOKE SELECT ON _sqlx_migrations, settlements FROM CURRENT_USER").await;
    let answer = Listener::start(parts(store.clone())).await.get("/readyz").await;
    let which = "SELECT _sqlx_migrations, INSERT operations, SELECT settlements";
    assert_eq!(answer.json()["reason"], format!("{words}: {which}"));
    merchant.get("/v1/settlements").await.refused(500, "internal_error");

    service.execute("GRANT ALL ON _sqlx_migrations, operations, settlements TO CURRENT_USER").await;
    Listener::start(parts(store)).await.get("/readyz").await.ok();
}

async fn metrics_are_printed_for_prometheus(setup: Setup) {
    let scratch = setup.into_scratch();
    let answer = Listener::start(parts(scratch.share())).await.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let kind = answer.header("content-type").unwrap();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
}

async fn merchants_cannot_reach_it(setup: Setup) {
    let merchant = setup.merchant().await;
    // Whoever probes the merchant API asks the API itself.
    assert_eq!(merchant.service.ask("GET", "/healthz").send().await.ok(), json!({ "status": "ok" }));
    assert_eq!(merchant.service.ask("GET", "/readyz").send().await.ok(), json!({ "status": "ready" }));
    for path in ["/metrics", "/operator/v1/settlements", "/operator/v1/merchants"] {
        merchant.get(path).await.refused(404, "not_found");
    }
}

/// Whoever reaches the listener can read how it is used, without a token.
async fn its_docs_page_is_open_and_loads_nothing_from_elsewhere(setup: Setup) {
    let operator = Listener::start(parts(setup.into_scratch().share())).await;
    for (path, kind) in [
        ("/docs", "text/html; charset=utf-8"),
        ("/docs/style.css", "text/css; charset=utf-8"),
        ("/docs/settling.svg", "image/svg+xml"),
    ] {
        let answer = operator.get(path).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(kind)), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; "), "{policy}");
        assert!(!policy.contains("http"), "{policy}");
    }
    let home = operator.get("/").await;
    assert_eq!((home.status, home.header("location")), (307, Some("/docs")));
}

/// HTTP, every surface: unknown routes and wrong methods.
async fn what_it_does_not_know_is_refused_in_the_envelope(setup: Setup) {
    let operator = Listener::start(parts(setup.into_scratch().share())).await;
    operator.get("/nothing").await.refused(404, "not_found");
    let wrong_method = Ask::new(operator.address, "DELETE", "/healthz");
    let wrong_method = wrong_method.send_under(Contract::with_operators()).await;
    wrong_method.refused(405, "not_found");
}
