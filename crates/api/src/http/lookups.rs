//! Looking credentials up: concurrent requests with the same credential share one look into the database.
//!
//! Nothing is cached: every request is answered by a look that began after the request came. So a revoked
//! credential is refused from the commit of its revocation on.

use std::collections::HashMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use settle_domain::credential::CredentialHash;
use settle_store::{StoreResult, answered};
use tokio::sync::watch::{self, Receiver, Sender};

use super::guesses::Guesses;
use super::source::Source;
use crate::error::LookupError;
use crate::limits::Guessing;

/// How long a look may take. A connection to a database that is gone may never report it; without a limit
/// every later request would wait behind that look.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);

/// What a look found; `None` when it failed or took too long.
type Found<T> = Option<Option<T>>;
/// A look that many requests can wait for; `None` until it has ended.
type Look<T> = Receiver<Option<Found<T>>>;

/// The looks of one credential: one that has begun, and one that begins when the first has ended.
struct Looks<T> {
    begun: Option<Look<T>>,
    next: Option<Look<T>>,
}

/// The looks under way. Cheap to clone.
pub struct Lookups<T>(Arc<Inner<T>>);

struct Inner<T> {
    looks: Mutex<HashMap<CredentialHash, Looks<T>>>,
    guesses: Guesses,
}

impl<T> Clone for Lookups<T> {
    fn clone(&self) -> Lookups<T> {
        Lookups(self.0.clone())
    }
}

impl<T> Lookups<T> {
    /// No look is under way, and every source has all its guesses.
    #[must_use]
    pub fn new(limits: Guessing) -> Lookups<T> {
        Lookups(Arc::new(Inner { looks: Mutex::default(), guesses: Guesses::new(limits) }))
    }
}

impl<T: Clone + Send + Sync + 'static> Lookups<T> {
    /// Asks the database for the credential with this hash, which came from this source. Of the requests that
    /// wait together only one looks; if that look fails, each request looks for itself and gets the error of
    /// its own look.
    pub async fn authenticate<F>(
        &self,
        source: Source,
        hash: CredentialHash,
        look: impl Fn(CredentialHash) -> F,
    ) -> Result<Option<T>, LookupError>
    where
        F: Future<Output = StoreResult<Option<T>>> + Send + 'static,
    {
        let guesses = &self.0.guesses;
        let leave = guesses.leave(source, hash).await.map_err(LookupError::Guessed)?;
        let shared = look(hash);
        let found = match self.find(hash, async move { shared.await.ok() }).await {
            Some(found) => found,
            None => look(hash).await?,
        };
        guesses.judge(&leave, source, hash, found.is_some()).map_err(LookupError::Guessed)?;
        Ok(found)
    }

    /// Joins the next look, or starts it; gives `None` when the look failed.
    ///
    /// A look that need not wait, as most on SQLite, ends within the request, which is then answered in one
    /// go: without another task, without a timer. Any other goes on in a task of its own, because the request
    /// may be cut off, and others may wait for the look.
    async fn find<F>(&self, hash: CredentialHash, look: F) -> Found<T>
    where
        F: Future<Output = Option<Option<T>>> + Send + 'static,
    {
        let (next, turn) = {
            let mut all = self.0.looks.lock().unwrap_or_else(PoisonError::into_inner);
            let looks = all.entry(hash).or_insert(Looks { begun: None, next: None });
            if let Some(next) = &looks.next {
                (next.clone(), None)
            } else {
                let (tell, next) = watch::channel(None);
                looks.next = Some(next.clone());
                (next, Some(self.clone().take_turn(hash, looks.begun.clone(), look, tell)))
            }
        };
        if let Some(turn) = turn {
            let mut turn = Box::pin(turn);
            if let Some(found) = turn.as_mut().now_or_never() {
                return found;
            }
            tokio::spawn(turn);
        }
        ended(next).await
    }

    /// Looks when the look before has ended, tells those who wait, and leaves nothing behind.
    async fn take_turn<F>(
        self,
        hash: CredentialHash,
        before: Option<Look<T>>,
        look: F,
        tell: Sender<Option<Found<T>>>,
    ) -> Found<T>
    where
        F: Future<Output = Option<Option<T>>> + Send,
    {
        if let Some(before) = before {
            // Whatever it found.
            ended(before).await;
        }
        self.change(hash, |looks| looks.begun = looks.next.take());
        let look = answered(LOOK_TIMEOUT, AssertUnwindSafe(look).catch_unwind());
        let found = look.await.and_then(Result::ok).flatten();
        self.change(hash, |looks| looks.begun = None);
        tell.send_replace(Some(found.clone()));
        found
    }

    fn change(&self, hash: CredentialHash, change: impl FnOnce(&mut Looks<T>)) {
        let mut all = self.0.looks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(looks) = all.get_mut(&hash) {
            change(looks);
            if looks.begun.is_none() && looks.next.is_none() {
                all.remove(&hash);
            }
        }
    }
}

/// Waits for the end of a look; gives `None` when it failed.
async fn ended<T: Clone>(mut look: Look<T>) -> Found<T> {
    let ended = look.wait_for(Option::is_some).await.ok()?;
    ended.clone().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Semaphore;
    use tokio::time::timeout;

    /// A database that counts the looks and answers one for every permit.
    struct Database {
        looks: AtomicUsize,
        answers: Semaphore,
    }

    #[tokio::test]
    async fn who_asks_during_a_look_shares_the_next_one() {
        let database = Arc::new(Database { looks: AtomicUsize::new(0), answers: Semaphore::new(0) });
        let lookups = Lookups::new(Guessing::default());
        let ask = || {
            let (lookups, database) = (lookups.clone(), database.clone());
            let look = async move {
                let number = database.looks.fetch_add(1, Ordering::SeqCst) + 1;
                database.answers.acquire().await.unwrap().forget();
                Some(Some(number))
            };
            tokio::spawn(async move { lookups.find(CredentialHash([1; 32]), look).await })
        };
        let first = ask();
        while database.looks.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        let (second, third) = (ask(), ask());
        tokio::task::yield_now().await;
        database.answers.add_permits(1);
        assert_eq!(first.await.unwrap(), Some(Some(1)));
        database.answers.add_permits(1);
        assert_eq!(second.await.unwrap(), Some(Some(2)), "not answered by a look that began before it asked");
        assert_eq!(third.await.unwrap(), Some(Some(2)), "shared");
        assert_eq!(database.looks.load(Ordering::SeqCst), 2);
        assert!(lookups.0.looks.lock().unwrap().is_empty(), "nothing is kept");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_never_ends_holds_up_nobody_for_ever() {
        let lookups: Lookups<usize> = Lookups::new(Guessing::default());
        let stuck = tokio::spawn({
            let lookups = lookups.clone();
            async move { lookups.find(CredentialHash([1; 32]), std::future::pending()).await }
        });
        tokio::task::yield_now().await;
        let next = lookups.find(CredentialHash([1; 32]), async { Some(Some(2)) }).await;
        assert_eq!((stuck.await.unwrap(), next), (None, Some(Some(2))));
        assert!(lookups.0.looks.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_look_that_need_not_wait_ends_within_the_request() {
        let lookups = Lookups::new(Guessing::default());
        let found = lookups.find(CredentialHash([1; 32]), async { Some(Some(1)) }).now_or_never();
        assert_eq!(found, Some(Some(Some(1))));
        assert!(lookups.0.looks.lock().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_look_goes_on_when_the_request_that_began_it_is_cut_off() {
        let (answers, ended) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let lookups = Lookups::new(Guessing::default());
        // A look gives the number of looks that have ended before it.
        let ask = || {
            let (answers, ended) = (answers.clone(), ended.clone());
            let look = async move {
                answers.acquire().await.unwrap().forget();
                Some(Some(ended.fetch_add(1, Ordering::SeqCst)))
            };
            lookups.find(CredentialHash([1; 32]), look)
        };
        assert_eq!(ask().now_or_never(), None);
        // The second is cut off before its look begins, and the third has joined it.
        let mut second = Box::pin(ask());
        assert_eq!(second.as_mut().now_or_never(), None);
        let mut third = Box::pin(ask());
        assert_eq!(third.as_mut().now_or_never(), None);
        drop(second);
        answers.add_permits(2);
        assert_eq!(third.await, Some(Some(1)), "after the first look, and instead of a third one");
        assert_eq!((ended.load(Ordering::SeqCst), answers.available_permits()), (2, 0));
        assert!(lookups.0.looks.lock().unwrap().is_empty());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nobody_is_answered_by_a_look_that_began_before_it_asked_and_nobody_is_forgotten() {
        let (lookups, now) = (Lookups::new(Guessing::default()), Arc::new(AtomicUsize::new(0)));
        let ask = |number: usize| {
            let (lookups, now) = (lookups.clone(), now.clone());
            async move {
                let asked = now.fetch_add(1, Ordering::SeqCst);
                let look = async move {
                    let began = now.load(Ordering::SeqCst);
                    // Some looks end at once, some wait.
                    for _ in 0..number % 3 {
                        tokio::task::yield_now().await;
                    }
                    Some(Some(began))
                };
                let find = lookups.find(CredentialHash([1; 32]), look);
                if number.is_multiple_of(5) {
                    // It is cut off, unless it is answered at once.
                    return find.now_or_never().is_none_or(|found| found.flatten().unwrap() > asked);
                }
                find.await.flatten().unwrap() > asked
            }
        };
        for round in 0..200 {
            let asked: Vec<_> = (0..32).map(|number| tokio::spawn(ask(round + number))).collect();
            for answered in asked {
                let answered = timeout(LOOK_TIMEOUT, answered).await.expect("nobody waits for ever");
                assert!(answered.unwrap(), "it began after the request came");
            }
        }
        // The looks of those that were cut off go on, and the last one answers this.
        assert!(ask(1).await);
        while !lookups.0.looks.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_look_that_fails_leaves_nothing_behind() {
        let lookups: Lookups<usize> = Lookups::new(Guessing::default());
        assert_eq!(lookups.find(CredentialHash([1; 32]), async { panic!("broken") }).await, None);
        assert_eq!(lookups.find(CredentialHash([1; 32]), async { None }).await, None);
        assert_eq!(lookups.find(CredentialHash([1; 32]), async { Some(None) }).await, Some(None));
        assert!(lookups.0.looks.lock().unwrap().is_empty());
    }
}
