//! A limit on how long a caller waits for the database.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use crate::{StoreError, StoreResult};

/// How long a background task waits for an answer of the database: longer than the database lets a statement
/// wait for a lock.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// The result of a call, or an error if it takes longer than the limit; the call is then dropped.
pub async fn within<T>(limit: Duration, call: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
    let late = |_| Err(StoreError::Unavailable("the database did not answer in time".into()));
    timeout(limit, call).await.unwrap_or_else(late)
}
