//! Connections kept for the next request: few of one host, few in all, none for long.
//!
//! The client libraries bound what is kept of one host, not what is kept in all, and keep a connection for as
//! long as it is used. Here the longest idle connection goes when there are too many: a thousand endpoints
//! must not use up the files that new connections need. And a connection ends when it is old: the guard
//! judges an address when a connection is opened, so this is how long a verdict can last.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Idle connections kept in all.
pub(super) const IDLE_MAX: usize = 256;
/// Idle connections kept of one host.
pub(super) const IDLE_PER_HOST_MAX: usize = 32;
/// How long an idle connection is kept.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// How old a connection may be when a request begins on it.
pub(super) const AGE_MAX: Duration = Duration::from_mins(5);

/// A connection that may serve another request.
pub(super) trait Reusable: Send + 'static {
    /// Whether the other side has not ended it.
    fn is_open(&self) -> bool;
    /// When it was opened.
    fn opened(&self) -> Instant;
}

/// The idle connections, by the host that they lead to.
pub(super) struct Pool<Host, C>(Arc<Mutex<Idle<Host, C>>>);

struct Idle<Host, C> {
    /// The longest idle comes first.
    kept: VecDeque<Kept<Host, C>>,
    /// Whether a task ends those that are idle for too long.
    is_swept: bool,
}

struct Kept<Host, C> {
    host: Host,
    connection: C,
    since: Instant,
}

impl<Host: Eq + Send + 'static, C: Reusable> Pool<Host, C> {
    pub(super) fn new() -> Pool<Host, C> {
        Pool(Arc::new(Mutex::new(Idle { kept: VecDeque::new(), is_swept: false })))
    }

    /// The connection to this host that was used last, if there is one that is open and not too old.
    pub(super) fn take(&self, host: &Host) -> Option<C> {
        let mut idle = lock(&self.0);
        while let Some(found) = idle.kept.iter().rposition(|kept| kept.host == *host) {
            let Kept { connection, since, .. } = idle.kept.remove(found)?;
            let is_fresh = since.elapsed() < IDLE_TIMEOUT && connection.opened().elapsed() < AGE_MAX;
            if is_fresh && connection.is_open() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, unless enough are kept of its host.
    pub(super) fn put(&self, host: Host, connection: C) {
        let mut idle = lock(&self.0);
        if idle.kept.len() >= IDLE_MAX {
            idle.kept.retain(|kept| kept.connection.is_open());
        }
        if idle.kept.iter().filter(|kept| kept.host == host).count() >= IDLE_PER_HOST_MAX {
            return;
        }
        if idle.kept.len() >= IDLE_MAX {
            idle.kept.pop_front();
        }
        idle.kept.push_back(Kept { host, connection, since: Instant::now() });
        if !idle.is_swept {
            idle.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
    }

    /// Ends every idle connection.
    pub(super) fn clear(&self) {
        lock(&self.0).kept.clear();
    }
}

/// Ends connections that have been idle for too long, until none is left.
async fn sweep<Host, C>(idle: Weak<Mutex<Idle<Host, C>>>) {
    while let Some(next) = idle.upgrade().and_then(|idle| swept(&mut lock(&idle))) {
        sleep_until(next).await;
    }
}

/// Gives the time at which the next one has been idle for too long; `None` when there is none.
fn swept<Host, C>(idle: &mut Idle<Host, C>) -> Option<Instant> {
    while idle.kept.front().is_some_and(|kept| kept.since.elapsed() >= IDLE_TIMEOUT) {
        idle.kept.pop_front();
    }
    let next = idle.kept.front().map(|kept| kept.since + IDLE_TIMEOUT);
    idle.is_swept = next.is_some();
    next
}

/// Nothing panics while it is locked, so there is no half-changed list to fear.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use settle_testing::virtual_time::pass;

    use super::*;

    /// A connection that counts itself while it lives.
    struct Line {
        number: usize,
        opened: Instant,
        is_open: Arc<AtomicBool>,
        living: Arc<AtomicUsize>,
    }

    impl Reusable for Line {
        fn is_open(&self) -> bool {
            self.is_open.load(Ordering::Relaxed)
        }

        fn opened(&self) -> Instant {
            self.opened
        }
    }

    impl Drop for Line {
        fn drop(&mut self) {
            self.living.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct Lines {
        living: Arc<AtomicUsize>,
        opened: usize,
    }

    impl Lines {
        fn open(&mut self) -> Line {
            self.living.fetch_add(1, Ordering::Relaxed);
            self.opened += 1;
            let is_open = Arc::new(AtomicBool::new(true));
            Line { number: self.opened, opened: Instant::now(), is_open, living: self.living.clone() }
        }

        fn living(&self) -> usize {
            self.living.load(Ordering::Relaxed)
        }
    }

    fn number(line: Option<Line>) -> Option<usize> {
        line.map(|line| line.number)
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_used_of_the_host_comes_first_and_a_closed_one_never() {
        let (pool, mut lines) = (Pool::new(), Lines::default());
        let ends = lines.open();
        let end = ends.is_open.clone();
        pool.put("a", lines.open());
        pool.put("a", ends);
        pool.put("b", lines.open());
        end.store(false, Ordering::Relaxed);
        assert_eq!(number(pool.take(&"a")), Some(2), "the first one was closed by the other side");
        assert_eq!((number(pool.take(&"a")), number(pool.take(&"b"))), (None, Some(3)));
        assert_eq!(lines.living(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_are_kept_of_one_host_or_in_all_than_the_limits() {
        let (pool, mut lines) = (Pool::new(), Lines::default());
        for _ in 0..=IDLE_PER_HOST_MAX {
            pool.put(0, lines.open());
        }
        assert_eq!(lines.living(), IDLE_PER_HOST_MAX);
        for host in 1..=2 * IDLE_MAX {
            pool.put(host, lines.open());
        }
        assert_eq!(lines.living(), IDLE_MAX);
        assert!(pool.take(&0).is_none(), "the longest idle went first");
        assert!(pool.take(&(2 * IDLE_MAX)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_without_anybody_asking_for_it() {
        let (pool, mut lines) = (Pool::new(), Lines::default());
        pool.put("a", lines.open());
        pass(IDLE_TIMEOUT / 2).await;
        pool.put("b", lines.open());
        pass(IDLE_TIMEOUT / 2).await;
        pass(Duration::from_millis(1)).await;
        assert_eq!(lines.living(), 1);
        pass(IDLE_TIMEOUT).await;
        assert_eq!(lines.living(), 0);
        // A later one is swept too.
        pool.put("c", lines.open());
        pass(2 * IDLE_TIMEOUT).await;
        assert_eq!(lines.living(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_in_steady_use_ends_when_it_is_old() {
        let (pool, mut lines) = (Pool::new(), Lines::default());
        pool.put("a", lines.open());
        let opened = Instant::now();
        while let Some(line) = pool.take(&"a") {
            pass(IDLE_TIMEOUT / 3).await;
            pool.put("a", line);
        }
        assert_eq!((opened.elapsed(), lines.living()), (AGE_MAX, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cleared_pool_has_ended_all() {
        let (pool, mut lines) = (Pool::new(), Lines::default());
        pool.put("a", lines.open());
        pool.clear();
        assert_eq!(lines.living(), 0);
    }
}
