//! What the dispatcher does when the database gives rows that cannot be read.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in a test a panic is the message"
)]

mod queue;

use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use settle_testing::log::Log;
use settle_testing::virtual_time::pass;
use tracing::Level;

use queue::{Queue, delivery, merchant, start};

/// Every shard.
const ALL: std::ops::Range<i16> = 0..64;
/// A little longer than a delivery that cannot be read is left alone.
const RESTED: Duration = Duration::from_mins(11);

/// The value of a metric; 0 before it is counted.
fn measured(recorder: &PrometheusRecorder, name: &str) -> u64 {
    let text = recorder.handle().render();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// As many as one claim asks for: the next one must leave them out.
#[tokio::test(start_paused = true)]
async fn deliveries_that_cannot_be_read_hold_up_none_behind_them() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _measuring = metrics::set_default_local_recorder(&recorder);
    let queue = Arc::new(Queue::default());
    (1..=20).for_each(|number| queue.add(merchant(1), delivery(number)));
    queue.set_readable((1..=18).map(delivery), false);
    let log = Log::of(Level::ERROR, "");
    let _running = start(&queue, ALL);
    for number in [19, 20] {
        queue.until_recorded(delivery(number)).await;
    }
    assert_eq!(log.taken(), vec!["a delivery cannot be read: it rests"; 18]);
    assert_eq!(measured(&recorder, "settle_deliveries_unreadable"), 18);

    // Whoever comes later is not held up either, and nothing is said twice.
    queue.add(merchant(1), delivery(21));
    queue.until_recorded(delivery(21)).await;
    pass(RESTED).await;
    assert_eq!(log.taken(), Vec::<String>::new());

    // Somebody has mended them.
    queue.set_readable((1..=18).map(delivery), true);
    for number in 1..=18 {
        queue.until_recorded(delivery(number)).await;
    }
    assert_eq!(measured(&recorder, "settle_deliveries_unreadable"), 0);
}
