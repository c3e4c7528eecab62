//! A transport without a network: it keeps what is sent, and returns the outcome that a test sets.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use settle_notify::notification::Notification;
use settle_notify::sender::{Attempt, SendError, Transport};
use settle_testing::secrecy::internal_names_in;
use tokio::sync::{Notify, Semaphore};

/// Keeps every notification, and returns "delivered" unless a test sets another outcome.
#[derive(Default)]
pub struct Courier {
    taken: Mutex<Vec<(String, Notification)>>,
    outcome: Mutex<Option<Result<Attempt, SendError>>>,
    held: Mutex<Option<Arc<Semaphore>>>,
    /// Told of each attempt that begins.
    pub begun: Notify,
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

    /// Holds every attempt from now on until a permit is added for it.
    pub fn hold(&self) -> Arc<Semaphore> {
        let held = Arc::new(Semaphore::new(0));
        *lock(&self.held) = Some(held.clone());
        held
    }

    /// The notifications sent so far, and their URLs. None names what operators earn.
    pub fn taken(&self) -> Vec<(String, Notification)> {
        let taken = lock(&self.taken).clone();
        for (_, notification) in &taken {
            let text = format!("{:?} {}", notification.headers, String::from_utf8_lossy(&notification.body));
            assert_eq!(internal_names_in(&text), [""; 0], "{text}");
        }
        taken
    }
}

#[async_trait::async_trait]
impl Transport for Courier {
    async fn attempt(&self, url: &str, notification: Notification) -> Result<Attempt, SendError> {
        lock(&self.taken).push((url.to_owned(), notification));
        self.begun.notify_one();
        let held = lock(&self.held).clone();
        if let Some(held) = held {
            held.acquire().await.expect("a test does not close it").forget();
        }
        let delivered = Attempt { response_status: Some(204), fault: None };
        lock(&self.outcome).clone().unwrap_or(Ok(delivered))
    }
}

/// A test that panicked has failed already; its other threads may go on reading.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
