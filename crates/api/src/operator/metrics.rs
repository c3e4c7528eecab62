//! `/metrics`: what the service measures, for Prometheus.

use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use settle_shards::keeper::Standing;
use tokio::time::Instant;

use super::OperatorState;
use crate::health::word;

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

/// Print the metrics
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "printMetrics",
    tag = "Health",
    security(()),
    responses((
        status = 200,
        description = "What the service measures, in Prometheus' text format.",
        body = String,
        content_type = "text/plain; version=0.0.4; charset=utf-8"
    ))
)]
pub(super) async fn print_metrics(State(state): State<OperatorState>) -> Response {
    metrics::gauge!("settle_recorder_busy_seconds").set(state.health.recording_for().as_secs_f64());
    if let Some(now) = state.health.dispatcher() {
        let at = Instant::now();
        for standing in [
            Standing::Starting(at),
            Standing::Present,
            Standing::StandingBy,
            Standing::Absent(at),
            Standing::Failing(at),
        ] {
            let is_it = f64::from(u8::from(word(standing) == word(now)));
            metrics::gauge!("settle_dispatcher_state", "state" => word(standing)).set(is_it);
        }
    }
    if let Some(connections) = state.store.connections() {
        for (name, number) in [("used", connections.used), ("idle", connections.idle)] {
            metrics::gauge!("settle_database_connections", "state" => name).set(count(number));
        }
        metrics::gauge!("settle_database_connections_max").set(count(connections.max));
    }
    if let Some(bytes) = state.store.journal_bytes() {
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
        metrics::gauge!("settle_database_journal_bytes").set(bytes as f64);
    }
    state.process.collect();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(header::CONTENT_TYPE, kind)], state.metrics.render()).into_response()
}
