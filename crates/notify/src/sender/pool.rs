//! Connections kept for the next request: so many of one host, so many in all, none for long.
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
/// Idle connections may take one in so many of the files that the process may open.
const FILES_SHARE: usize = 16;
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

/// Every request takes a connection and puts one back: both cost hardly more when more are kept.
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
    fn none() -> Idle<Host, C> {
        Idle { hosts: HashMap::new(), turns: BTreeMap::new(), next_turn: 0, is_swept: false }
    }

    fn put(&mut self, host: Host, connection: C) {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, host.clone());
        self.hosts.entry(host).or_default().push_back(Kept { connection, since: Instant::now(), turn });
    }

    /// Removes the connection of this host that was used last.
    fn last_used(&mut self, host: &Host) -> Option<Kept<C>> {
        self.remove(host, VecDeque::pop_back)
    }

    /// Removes the connection of this host that has been idle for longest.
    fn longest_idle_of(&mut self, host: &Host) -> Option<Kept<C>> {
        self.remove(host, VecDeque::pop_front)
    }

    /// Removes the connection of all that has been idle for longest.
    fn longest_idle(&mut self) -> Option<Kept<C>> {
        let host = self.turns.first_key_value()?.1.clone();
        self.longest_idle_of(&host)
    }

    fn remove(
        &mut self,
        host: &Host,
        which: fn(&mut VecDeque<Kept<C>>) -> Option<Kept<C>>,
    ) -> Option<Kept<C>> {
        let of_host = self.hosts.get_mut(host)?;
        let kept = which(of_host)?;
        if of_host.is_empty() {
            self.hosts.remove(host);
        }
        self.turns.remove(&kept.turn);
        Some(kept)
    }

    /// Since when the longest idle one has been idle.
    fn longest_since(&self) -> Option<Instant> {
        let (_, host) = self.turns.first_key_value()?;
        self.hosts.get(host)?.front().map(|kept| kept.since)
    }
}

impl<Host: Clone + Eq + Hash + Send + 'static, C: Reusable> Pool<Host, C> {
    /// Reads the limit on open files: whoever raises it does so before.
    pub(super) fn new() -> Pool<Host, C> {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.and_then(|files| usize::try_from(files).ok()).unwrap_or(usize::MAX);
        Pool::of(IDLE_MAX.min(files / FILES_SHARE))
    }

    fn of(idle_max: usize) -> Pool<Host, C> {
        Pool { idle: Arc::new(Mutex::new(Idle::none())), idle_max }
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

    /// Keeps a connection. Another one goes when there are enough, of its host or in all.
    pub(super) fn put(&self, host: Host, connection: C) {
        let mut idle = lock(&self.idle);
        // The other side may have closed what has been idle for longest, but not what was just used.
        if idle.hosts.get(&host).is_some_and(|of_host| of_host.len() >= IDLE_PER_HOST_MAX) {
            idle.longest_idle_of(&host);
        } else if idle.turns.len() >= self.idle_max {
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
        while idle.longest_idle().is_some() {}
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
    async fn the_longest_idle_goes_for_another_of_its_host() {
        let (pool, mut lines) = (Pool::of(KEPT_MAX), Lines::default());
        for _ in 0..=IDLE_PER_HOST_MAX {
            pool.put("a", lines.open());
        }
        let taken: Vec<_> = std::iter::from_fn(|| number(pool.take(&"a"))).collect();
        assert_eq!(taken, (2..=IDLE_PER_HOST_MAX + 1).rev().collect::<Vec<_>>());
    }

    /// Puts, takes and removals in any order, beside a plain list in the order in which they became idle.
    fn agrees_with_a_list(steps: &[(u8, u8)]) {
        let (mut idle, mut list) = (Idle::none(), Vec::<(u8, usize)>::new());
        for (number, (step, host)) in steps.iter().enumerate() {
            let first = list.iter().position(|(of, _)| of == host);
            let (found, expected) = match step {
                0 => (idle.last_used(host), list.iter().rposition(|(of, _)| of == host)),
                1 => (idle.longest_idle_of(host), first),
                2 => (idle.longest_idle(), (!list.is_empty()).then_some(0)),
                _ => {
                    idle.put(*host, number);
                    list.push((*host, number));
                    continue;
                }
            };
            let expected = expected.map(|position| list.remove(position).1);
            assert_eq!(found.map(|kept| kept.connection), expected, "step {number}");
        }
        assert_eq!(
            idle.turns.values().copied().collect::<Vec<_>>(),
            list.iter().map(|(host, _)| *host).collect::<Vec<_>>()
        );
        assert!(
            idle.hosts.values().all(|of_host| !of_host.is_empty()),
            "a host without connections is forgotten"
        );
    }

    proptest::proptest! {
        #[test]
        fn connections_go_in_the_order_in_which_they_became_idle(
            steps in proptest::collection::vec((0_u8..6, 0_u8..3), 0..60),
        ) {
            agrees_with_a_list(&steps);
        }
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
