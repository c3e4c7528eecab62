//! What the engine measures: payments by state, operations by kind and class, and how long providers take.

use std::sync::Arc;
use std::time::Duration;

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge};
use settle_domain::operation::{Class, OperationKind};
use settle_domain::payment::StateName;
use settle_domain::seams::Clock;
use settle_store::{CALL_TIMEOUT, Store, StoreResult, within};
use tokio::time::sleep;

/// How often payments are counted.
const COUNT_INTERVAL: Duration = Duration::from_secs(15);

/// Describes every metric, and starts those at zero that only count.
pub fn describe() {
    describe_gauge!(
        "settle_payments",
        "Payments that somebody may still have to look at, by state, in the whole database."
    );
    describe_gauge!(
        "settle_payments_oldest_seconds",
        Unit::Seconds,
        "How long the oldest of them has been in its state, in the whole database."
    );
    describe_counter!("settle_operations_total", "What providers were seen to do, by kind and class.");
    describe_histogram!(
        "settle_provider_call_duration_seconds",
        Unit::Seconds,
        "How long calls to providers take, by provider and call."
    );
    describe_gauge!(
        "settle_payments_unreadable",
        "Payments that this process cannot read, and leaves alone until somebody mends them."
    );
    show_unreadable(0);
    for kind in OperationKind::ALL {
        for class in Class::ALL {
            let labels = [("kind", kind.as_str()), ("class", class.as_str())];
            counter!("settle_operations_total", &labels).absolute(0);
        }
    }
    for state in StateName::ALL {
        gauge!("settle_payments", "state" => state.as_str()).set(0.0);
        gauge!("settle_payments_oldest_seconds", "state" => state.as_str()).set(0.0);
    }
}

/// Counts payments now and then, until told to stop.
pub async fn count(store: Arc<dyn Store>, clock: Arc<dyn Clock>, stop: impl Future<Output = ()> + Send) {
    let counting = async {
        loop {
            if let Err(error) = count_once(&*store, &*clock).await {
                tracing::warn!(%error, "payments cannot be counted");
            }
            sleep(COUNT_INTERVAL).await;
        }
    };
    tokio::select! {
        () = counting => {}
        () = stop => {}
    }
}

async fn count_once(store: &dyn Store, clock: &dyn Clock) -> StoreResult<()> {
    let counts = within(CALL_TIMEOUT, store.payment_counts()).await?;
    let now = clock.now();
    for state in StateName::ALL {
        let count = counts.iter().find(|count| count.state == *state);
        let number = count.map_or(0, |count| count.number);
        let oldest = count.and_then(|count| count.oldest_at).map_or(Duration::ZERO, |at| now.since(at));
        gauge!("settle_payments", "state" => state.as_str())
            .set(f64::from(u32::try_from(number).unwrap_or(u32::MAX)));
        gauge!("settle_payments_oldest_seconds", "state" => state.as_str()).set(oldest.as_secs_f64());
    }
    Ok(())
}

/// Shows how many payments cannot be read.
pub(crate) fn show_unreadable(number: u32) {
    gauge!("settle_payments_unreadable").set(f64::from(number));
}
