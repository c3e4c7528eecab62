//! What the metrics of this crate mean, for those who read them.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Describes every metric.
pub fn describe() {
    describe_counter!("settle_http_requests_total", "Requests, by method, route and status.");
    describe_histogram!(
        "settle_http_request_duration_seconds",
        Unit::Seconds,
        "How long requests take, by method, route and status."
    );
    describe_gauge!(
        "settle_recorder_busy_seconds",
        Unit::Seconds,
        "How long the transaction has taken that records settlements at the moment; 0 between two."
    );
    describe_gauge!(
        "settle_dispatcher_state",
        "1 for where the dispatcher of this node stands, 0 for the others."
    );
    describe_gauge!("settle_database_connections", "Connections to the database, by state.");
    describe_gauge!("settle_database_connections_max", "Connections to the database, at most.");
    describe_gauge!(
        "settle_database_journal_bytes",
        Unit::Bytes,
        "How long the journal of the database is; the service writes it back when it is long."
    );
}
