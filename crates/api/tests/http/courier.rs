//! A transport without a network: it keeps what is sent, and returns the outcome that a test sets.

use std::sync::{Mutex, MutexGuard, PoisonError};

use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, SendError, Transport};

/// Keeps every notification, and returns "delivered" unless a test sets another outcome.
#[derive(Default)]
pub struct Courier {
    taken: Mutex<Vec<(String, Notification)>>,
    outcome: Mutex<Option<Result<Attempt, SendError>>>,
}

impl Courier {
    /// Sets the outcome of every attempt from now on.
    pub fn answer(&self, outcome: Attempt) {
        *lock(&self.outcome) = Some(Ok(outcome));
    }

    /// From now on no attempt can be made.
    pub fn fail(&self, error: SendError) {
        *lock(&self.outcome) = Some(Err(error));
    }

    /// The notifications sent so far, and their URLs.
    pub fn taken(&self) -> Vec<(String, Notification)> {
        lock(&self.taken).clone()
    }
}

#[async_trait::async_trait]
impl Transport for Courier {
    async fn attempt(&self, url: &str, notification: Notification) -> Result<Attempt, SendError> {
        lock(&self.taken).push((url.to_owned(), notification));
        let delivered = Attempt { response_status: Some(204), fault: None };
        lock(&self.outcome).clone().unwrap_or(Ok(delivered))
    }
}

/// A test that panicked has failed already; its other threads may go on reading.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
