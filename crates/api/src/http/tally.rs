//! Counts what strangers can cause as often as they like, and logs one line an interval instead of one each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::source::Source;

/// How long a tally counts before it logs its line.
const INTERVAL: Duration = Duration::from_secs(10);
/// How many sources a tally tells apart in one interval.
const SOURCES_MAX: usize = 1_024;

/// Counts one kind of event. Cheap to clone.
#[derive(Clone)]
pub struct Tally {
    what: &'static str,
    counted: Arc<Mutex<Counted>>,
}

/// The events since the last line.
#[derive(Default)]
struct Counted {
    all: u64,
    of_source: HashMap<Source, u64>,
}

impl Tally {
    /// Nothing is counted yet. The text says in the log what was.
    #[must_use]
    pub fn new(what: &'static str) -> Tally {
        Tally { what, counted: Arc::default() }
    }

    /// Counts one event. The first one since the last line makes the next line due.
    pub fn count(&self, source: Source) {
        let mut counted = self.lock();
        counted.all += 1;
        let is_known = counted.of_source.contains_key(&source);
        if is_known || counted.of_source.len() < SOURCES_MAX {
            *counted.of_source.entry(source).or_default() += 1;
        }
        if counted.all == 1 {
            let tally = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(INTERVAL).await;
                tally.log();
            });
        }
    }

    fn log(&self) {
        let Counted { all, of_source } = std::mem::take(&mut *self.lock());
        let sources = of_source.len();
        let Some((source, most)) = of_source.into_iter().max_by_key(|(_, number)| *number) else { return };
        let what = self.what;
        tracing::warn!(number = all, sources, busiest = %source, busiest_number = most, "{what}");
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use tracing_subscriber::fmt::MakeWriter;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Lines;

        fn make_writer(&self) -> Lines {
            self.clone()
        }
    }

    impl Lines {
        fn take(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock().unwrap());
            String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
        }
    }

    /// Lets the other tasks run, moves the clock, and lets them run again.
    async fn elapse(duration: Duration) {
        tokio::task::yield_now().await;
        tokio::time::advance(duration + Duration::from_millis(1)).await;
        tokio::task::yield_now().await;
    }

    #[tokio::test(start_paused = true)]
    async fn many_events_are_one_line_an_interval() {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let tally = Tally::new("doors were knocked on");
        let source = |last: u8| Source::of([192, 0, 2, last].into());
        for _ in 0..1_000 {
            tally.count(source(1));
        }
        tally.count(source(2));
        assert!(lines.take().is_empty(), "nothing is said before the interval is over");
        elapse(INTERVAL).await;
        let said = lines.take();
        let line = said.first().expect("a line");
        assert_eq!(said.len(), 1, "{said:?}");
        for part in ["doors were knocked on", "number=1001", "sources=2", "busiest=192.0.2.1"] {
            assert!(line.contains(part), "{line}");
        }
        elapse(3 * INTERVAL).await;
        assert!(lines.take().is_empty(), "nothing happened, nothing is said");
        tally.count(source(3));
        elapse(INTERVAL).await;
        assert!(lines.take().first().expect("a line").contains("number=1 "));
    }
}
