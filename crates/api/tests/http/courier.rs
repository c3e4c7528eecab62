//! A transport without a network: it takes what is sent, and answers what it is told to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, Transport};

/// Keeps every notification, and says that each was delivered unless told otherwise.
#[derive(Default)]
pub struct Courier {
    taken: Mutex<Vec<(String, Notification)>>,
    outcome: Mutex<Option<Attempt>>,
}

impl Courier {
    /// What comes of every attempt from now on.
    pub fn answer(&self, outcome: Attempt) {
        *lock(&self.outcome) = Some(outcome);
    }

    /// What was sent so far, and where to.
    pub fn taken(&self) -> Vec<(String, Notification)> {
        lock(&self.taken).clone()
    }
}

#[async_trait::async_trait]
impl Transport for Courier {
    async fn attempt(&self, url: &str, notification: Notification) -> Attempt {
        lock(&self.taken).push((url.to_owned(), notification));
        let delivered = Attempt { response_status: Some(204), fault: None };
        lock(&self.outcome).clone().unwrap_or(delivered)
    }
}

/// A test that panicked has failed already; its other threads may go on reading.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
