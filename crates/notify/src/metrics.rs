//! What the metrics of this crate mean, for those who read them, and their zeros: a counter that is not there
//! until its first event cannot be alerted on.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

use crate::sender::{AttemptFault, FAULT_CAUSES};

/// Describes every metric, and starts those at zero that only count.
pub fn describe() {
    describe_gauge!(
        "settle_deliveries_pending",
        "Deliveries that are pending, in the whole database; shown by one node, 0 on the others."
    );
    describe_gauge!(
        "settle_deliveries_dead",
        "Deliveries that are dead, in the whole database; shown by one node, 0 on the others."
    );
    describe_gauge!(
        "settle_deliveries_oldest_due_seconds",
        Unit::Seconds,
        "How long the oldest delivery that is due has waited, in the whole database; shown by one node."
    );
    describe_gauge!(
        "settle_deliveries_clearing",
        "Pending deliveries whose endpoint was cleared, in the whole database."
    );
    describe_gauge!("settle_deliveries_in_flight", "Attempts under way on this node.");
    describe_gauge!(
        "settle_deliveries_unreadable",
        "Deliveries that this process cannot read, and leaves alone until somebody mends them."
    );
    describe_counter!("settle_delivery_attempts_total", "Attempts that count, by outcome.");
    describe_counter!(
        "settle_delivery_faults_total",
        "Faults on our side, which spend no attempt, by cause."
    );
    describe_counter!(
        "settle_outcomes_refused_total",
        "How often the database refused to record the outcomes of a merchant."
    );
    describe_counter!("settle_deliveries_died_total", "Deliveries whose last attempt failed.");
    describe_counter!("settle_alerts_raised_total", "Alerts to operators.");
    describe_counter!("settle_alerts_send_failures_total", "How often an alert could not be posted.");
    describe_histogram!("settle_delivery_attempt_duration_seconds", Unit::Seconds, "How long attempts take.");
    describe_histogram!(
        "settle_delivery_delay_seconds",
        Unit::Seconds,
        "From the settlement to its delivery, where the first attempt succeeded."
    );
    for outcome in AttemptFault::CLASSES.into_iter().chain(["delivered"]) {
        counter!("settle_delivery_attempts_total", "outcome" => outcome).absolute(0);
    }
    for cause in FAULT_CAUSES {
        counter!("settle_delivery_faults_total", "cause" => cause).absolute(0);
    }
    for name in [
        "settle_outcomes_refused_total",
        "settle_deliveries_died_total",
        "settle_alerts_raised_total",
        "settle_alerts_send_failures_total",
    ] {
        counter!(name).absolute(0);
    }
    for name in ["settle_delivery_attempt_duration_seconds", "settle_delivery_delay_seconds"] {
        // It is shown, empty, as soon as it is known.
        let _ = histogram!(name);
    }
    for name in ["settle_deliveries_in_flight", "settle_deliveries_clearing"] {
        gauge!(name).set(0.0);
    }
    show_unreadable(0);
}

/// Shows how many deliveries cannot be read.
pub(crate) fn show_unreadable(number: u32) {
    gauge!("settle_deliveries_unreadable").set(f64::from(number));
}
