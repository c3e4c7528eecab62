//! Connections kept for the next request: few of one host, few in all, none for long.
//!
//! The client libraries bound what is kept of one host, not what is kept in all, and keep a connection for as
//! long as it is used. Here the longest idle connection goes when there are too many: thousands of endpoints
//! must not use up the files that new connections need. And a connection ends when it is old: the guard
//! judges an address when a connection is opened, so this is how long a verdict can last.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Idle connections kept in all: attempts come in waves, and by default a wave has so many.
const IDLE_MAX: usize = 1_024;
/// The part of the files that the process may open which idle connections may take.
const FILES_SHARE: usize = 4;
/// Idle connections kept of one host, which may be the host of many merchants.
const IDLE_PER_HOST_MAX: usize = 128;
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
pub(super) struct Pool<Host, C> {
    idle: Arc<Mutex<Idle<Host, C>>>,
    idle_max: usize,
}

/// Every request takes a connection and puts one back: both cost the same however many are kept.
struct Idle<Host, C> {
    /// The connections of each host that has any; the longest idle comes first.
    hosts: HashMap<Host, VecDeque<Kept<C>>>,
    /// The host of each connection, by the connection's turn: the longest idle in all comes first.
    turns: BTreeMap<u64, Host>,
    next_turn: u64,
    /// Whether a task ends those that are idle for too long.
    is_swept: bool,
}

struct Kept<C> {
    connection: C,
    since: Instant,
    turn: u64,
}

impl<Host: Clone + Eq + Hash, C> Idle<Host, C> {
    fn put(&mut self, host: Host, connection: C) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, host.clone());
        self.hosts.entry(host).or_default().push_back(Kept { connection, since: Instant::now(), turn });
    }

    /// Removes the connection of this host that was used last.
    fn last_used(&mut self, host: &Host) -> Option<Kept<C>> {
        let kept = self.remove(host, VecDeque::pop_back)?;
        self.turns.remove(&kept.turn);
        Some(kept)
    }

    /// Removes the connection of all that has been idle for longest.
    fn longest_idle(&mut self) -> Option<Kept<C>> {
        let (_, host) = self.turns.pop_first()?;
        self.remove(&host, VecDeque::pop_front)
    }

    fn remove(
        &mut self,
        host: &Host,
        which: fn(&mut VecDeque<Kept<C>>) -> Option<Kept<C>>,
    ) -> Option<Kept<C>> {
        let of_host = self.hosts.get_mut(host)?;
        let kept = which(of_host);
        if of_host.is_empty() {
            self.hosts.remove(host);
        }
        kept
    }

    /// Since when the longest idle one has been idle.
    fn longest_since(&self) -> Option<Instant> {
        let (_, host) = self.turns.first_key_value()?;
        self.hosts.get(host)?.front().map(|kept| kept.since)
    }
}

impl<Host: Clone + Eq + Hash + Send + 'static, C: Reusable> Pool<Host, C> {
    /// A pool for a process that may have as many files open as it may now.
    pub(super) fn new() -> Pool<Host, C> {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        Pool::of(IDLE_MAX.min(files / FILES_SHARE))
    }

    fn of(idle_max: usize) -> Pool<Host, C> {
        let idle = Idle { hosts: HashMap::new(), turns: BTreeMap::new(), next_turn: 0, is_swept: false };
        Pool { idle: Arc::new(Mutex::new(idle)), idle_max }
    }

    /// The connection to this host that was used last, if there is one that is open and not too old.
    pub(super) fn take(&self, host: &Host) -> Option<C> {
        let mut idle = lock(&self.idle);
        while let Some(Kept { connection, since, .. }) = idle.last_used(host) {
            let is_fresh = since.elapsed() < IDLE_TIMEOUT && connection.opened().elapsed() < AGE_MAX;
            if is_fresh && connection.is_open() {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps a connection, unless enough are kept of its host.
    pub(super) fn put(&self, host: Host, connection: C) {
        let mut idle = lock(&self.idle);
        if idle.hosts.get(&host).is_some_and(|of_host| of_host.len() >= IDLE_PER_HOST_MAX) {
            return;
        }
        if idle.turns.len() >= self.idle_max {
            idle.longest_idle();
        }
        idle.put(host, connection);
        if !idle.is_swept {
            idle.is_swept = true;
            tokio::spawn(sweep(Arc::downgrade(&self.idle)));
        }
    }

    /// Ends every idle connection.
    pub(super) fn clear(&self) {
        let mut idle = lock(&self.idle);
        idle.turns.clear();
        idle.hosts.clear();
    }
}

/// Ends connections that have been idle for too long, until none is left.
async fn sweep<Host: Clone + Eq + Hash, C>(idle: Weak<Mutex<Idle<Host, C>>>) {
    while let Some(next) = idle.upgrade().and_then(|idle| swept(&mut lock(&idle))) {
        sleep_until(next).await;
    }
}

/// Gives the time at which the next one has been idle for too long; `None` when there is none.
fn swept<Host: Clone + Eq + Hash, C>(idle: &mut Idle<Host, C>) -> Option<Instant> {
    while idle.longest_since().is_some_and(|since| since.elapsed() >= IDLE_TIMEOUT) {
        idle.longest_idle();
    }
    let next = idle.longest_since().map(|since| since + IDLE_TIMEOUT);
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

    const KEPT_MAX: usize = 256;

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
        let (pool, mut lines) = (Pool::of(KEPT_MAX), Lines::default());
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
        let (pool, mut lines) = (Pool::of(KEPT_MAX), Lines::default());
        for _ in 0..=IDLE_PER_HOST_MAX {
            pool.put(0, lines.open());
        }
        assert_eq!(lines.living(), IDLE_PER_HOST_MAX);
        for host in 1..=2 * KEPT_MAX {
            pool.put(host, lines.open());
        }
        assert_eq!(lines.living(), KEPT_MAX);
        assert!(pool.take(&0).is_none(), "the longest idle went first");
        assert!(pool.take(&(2 * KEPT_MAX)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn an_idle_connection_ends_without_anybody_asking_for_it() {
        let (pool, mut lines) = (Pool::of(KEPT_MAX), Lines::default());
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
        let (pool, mut lines) = (Pool::of(KEPT_MAX), Lines::default());
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
        let (pool, mut lines) = (Pool::of(KEPT_MAX), Lines::default());
        pool.put("a", lines.open());
        pool.clear();
        assert_eq!(lines.living(), 0);
    }
}
