//! Connections kept for the next request.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::connection::Connection;

/// Idle connections kept.
const IDLE_MAX: usize = 256;
/// How long an idle connection is kept. A request over one that the other side is just closing has an unknown
/// outcome and must be looked up, so this is shorter than what servers commonly allow: Node's five seconds
/// are the least.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// How old a connection may be when a request begins on it: names may lead elsewhere by then.
pub(super) const AGE_MAX: Duration = Duration::from_mins(5);
/// How long a connection may take after a response until it can be kept for the next request.
const READY_TIMEOUT: Duration = Duration::from_millis(100);

/// The idle connections. The one that was used last is used first, so that those that are too many grow old.
pub(super) struct Pool(Mutex<Vec<Idle>>);

struct Idle {
    connection: Connection,
    since: Instant,
}

impl Idle {
    fn is_fresh(&self) -> bool {
        self.since.elapsed() < IDLE_TIMEOUT
            && self.connection.opened().elapsed() < AGE_MAX
            && self.connection.is_open()
    }
}

impl Pool {
    pub(super) fn new() -> Pool {
        Pool(Mutex::new(Vec::new()))
    }

    /// A connection that is open and not too old.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut idle = self.lock();
        while let Some(last) = idle.pop() {
            if last.is_fresh() {
                return Some(last.connection);
            }
        }
        None
    }

    /// Keeps a connection whose response was read to its end, unless enough are kept.
    pub(super) async fn keep(&self, mut connection: Connection) {
        if !timeout(READY_TIMEOUT, connection.is_reusable()).await.unwrap_or(false) {
            return;
        }
        let mut idle = self.lock();
        // The longest idle comes first.
        let stale = idle.iter().take_while(|first| !first.is_fresh()).count();
        idle.drain(..stale);
        if idle.len() < IDLE_MAX {
            idle.push(Idle { connection, since: Instant::now() });
        }
    }

    /// Nothing panics while it is locked, so there is no half-changed list to fear.
    fn lock(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
