//! A resolver without a network, for the tests of this and of other crates.
//!
//! It is behind the feature `testing`, because tests of other crates could not see it behind `cfg(test)`.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::{Resolve, ResolveFault};

/// The stub's answer for a name.
pub type StubAnswer = Result<Vec<IpAddr>, ResolveFault>;

/// Answers from a map, gives all names that are not in it the same answer, and remembers the questions.
#[derive(Debug)]
pub struct StubResolver {
    answers: Mutex<HashMap<String, StubAnswer>>,
    otherwise: StubAnswer,
    questions: Mutex<Vec<String>>,
}

impl StubResolver {
    /// A stub that answers [`ResolveFault::NoRecords`] for every name.
    #[must_use]
    pub fn new() -> Self {
        Self::answering(Err(ResolveFault::NoRecords))
    }

    /// A stub that gives this answer for every name.
    #[must_use]
    pub fn answering(otherwise: StubAnswer) -> Self {
        Self { answers: Mutex::default(), otherwise, questions: Mutex::default() }
    }

    /// Adds a name with its addresses.
    #[must_use]
    pub fn with(self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.set(name, Ok(addresses.into_iter().collect()));
        self
    }

    /// Changes the answer for a name from now on, as a rebinding name server does.
    pub fn set(&self, name: &str, answer: StubAnswer) {
        lock(&self.answers).insert(name.to_owned(), answer);
    }

    /// The names asked for so far, in order. An empty list proves that a verdict needed no DNS.
    #[must_use]
    pub fn questions(&self) -> Vec<String> {
        lock(&self.questions).clone()
    }
}

impl Default for StubResolver {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Resolve for StubResolver {
    async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolveFault> {
        lock(&self.questions).push(name.to_owned());
        lock(&self.answers).get(name).unwrap_or(&self.otherwise).clone()
    }
}

/// A test that panicked has failed already; its other threads may read on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
