//! A limit on how long a caller waits for the database.

use std::future::Future;
use std::time::Duration;

use tokio::time::timeout;

use crate::{StoreError, StoreResult};

/// What a call gives, or the error that it gave nothing in time. The call is dropped then.
pub async fn within<T>(limit: Duration, call: impl Future<Output = StoreResult<T>> + Send) -> StoreResult<T> {
    let late = |_| Err(StoreError::Unavailable("the database did not answer in time".into()));
    timeout(limit, call).await.unwrap_or_else(late)
}
