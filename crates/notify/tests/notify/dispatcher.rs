//! What the dispatcher does when the database refuses one merchant's outcomes or gives rows that cannot be
//! read, and when we cannot send; and which dispatcher measures the queue.

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

use queue::{OutOfReach, Queue, delivery, merchant, start, start_with};

/// Every shard.
const ALL: std::ops::Range<i16> = 0..64;
/// Longer than the dispatcher waits between two tries at anything.
const LONG: Duration = Duration::from_mins(2);
/// A little longer than a delivery that cannot be read is left alone.
const RESTED: Duration = Duration::from_mins(11);
/// How often the dispatcher looks for who is due.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// The value of a metric; 0 before it is counted.
fn measured(recorder: &PrometheusRecorder, name: &str) -> u64 {
    let text = recorder.handle().render();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

/// The database refuses them for ever, not because it is away: nobody else's may wait for that.
#[tokio::test(start_paused = true)]
async fn outcomes_of_a_merchant_that_are_refused_hold_up_nobody_else() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _measuring = metrics::set_default_local_recorder(&recorder);
    let queue = Arc::new(Queue::default());
    queue.add(merchant(1), delivery(1));
    queue.add(merchant(2), delivery(2));
    queue.refuse(Some(merchant(1)));
    let log = Log::of(Level::WARN, "settle_notify");
    let _running = start(&queue, ALL);
    queue.until_recorded(delivery(2)).await;
    pass(LONG).await;
    assert!(!queue.is_recorded(delivery(1)));
    assert!(measured(&recorder, "settle_outcomes_refused_total") > 0);
    let said = log.taken();
    for line in [
        "outcomes cannot be recorded together: each merchant's are tried apart",
        "a merchant's outcomes cannot be recorded",
    ] {
        assert!(said.iter().any(|said| said == line), "{said:?}");
    }
    queue.add(merchant(2), delivery(3));
    queue.until_recorded(delivery(3)).await;
    // What was found out is not lost.
    queue.refuse(None);
    queue.until_recorded(delivery(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_holder_of_the_first_shard_alone_asks_how_full_the_queue_is() {
    let (first, other) = (Arc::new(Queue::default()), Arc::new(Queue::default()));
    let _running = (start(&first, 0..1), start(&other, 1..64));
    pass(LONG).await;
    assert!(first.depths() > 1, "now and then");
    assert_eq!(other.depths(), 0);
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

/// What we lack now, the next try lacks as well: each rest is twice as long as the last, and a look finds the
/// merchant after it.
#[tokio::test(start_paused = true)]
async fn a_fault_of_ours_rests_before_the_next_try_and_spends_no_attempt() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _measuring = metrics::set_default_local_recorder(&recorder);
    let (queue, endpoints) = (Arc::new(Queue::default()), Arc::new(OutOfReach::default()));
    queue.add_to_send(merchant(1), delivery(1));
    let _running = start_with(&queue, endpoints.clone(), ALL);
    pass(3 * LONG).await;
    let tries = endpoints.tries();
    let rests = [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs);
    assert!(tries.len() > rests.len(), "{tries:?}");
    for (two, rest) in tries.windows(2).zip(rests) {
        let rested = two[1] - two[0];
        let in_time = rest..=rest + 2 * LOOK_INTERVAL;
        assert!(in_time.contains(&rested), "{rested:?} instead of {rest:?}");
    }
    assert!(!queue.is_recorded(delivery(1)));
    let faults = measured(&recorder, "settle_delivery_faults_total{cause=\"network\"}");
    assert_eq!(faults, u64::try_from(tries.len()).unwrap());

    endpoints.mend();
    queue.until_recorded(delivery(1)).await;
    assert_eq!(queue.attempts(delivery(1)), 1, "the one that was made");
}
