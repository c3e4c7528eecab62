//! The threads that SQLite executes on.

use std::time::Duration;

use rusqlite::{Connection, Params};
use settle_store::StoreResult;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::time::Instant;

use crate::error::store_error;
use crate::query::Query;

/// Instructions of SQLite after which a patient statement yields the processor: about ten microseconds' work.
const OPS_A_YIELD: i32 = 100;
/// How long it goes on to yield. Where threads want the processor for longer than a request does, each yield
/// may cost some milliseconds, and whoever waits to write would pay for them.
const PATIENCE: Duration = Duration::from_millis(3);

/// Blocks this thread for work that takes a while; the runtime goes on with another thread.
pub(crate) fn aside<T>(work: impl FnOnce() -> T) -> T {
    if has_other_threads() { tokio::task::block_in_place(work) } else { work() }
}

/// Executes a statement that changes many rows aside, and yields the processor again and again meanwhile: a
/// thread that wakes up to answer a request would otherwise wait for some milliseconds, until the scheduler
/// takes the processor from this one.
pub(crate) fn change_patiently(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> StoreResult<usize> {
    let until = Instant::now() + PATIENCE;
    let yields = move || {
        if Instant::now() < until {
            std::thread::yield_now();
        }
        false
    };
    connection.progress_handler(OPS_A_YIELD, Some(yields)).map_err(store_error)?;
    let changed = aside(|| connection.change(sql, params)).map_err(store_error);
    connection.progress_handler(0, None::<fn() -> bool>).map_err(store_error)?;
    changed
}

/// A runtime of one thread, as in the simulation, has no other thread to go on with.
pub(crate) fn has_other_threads() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}
