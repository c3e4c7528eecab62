//! Bounds what wrong credentials cost: each source may give a few, and then gets a 429.
//!
//! Sources are shared: many callers may come from one address. So a source that guesses wrong is not shut
//! out. A credential that was right a moment ago is looked up at once, wherever it comes from. The others
//! queue for a few look-ups at a time; a source that has used up its guesses may have one waiting, so that a
//! right credential still gets through and a flood of wrong ones takes one look-up after the other. What was
//! right before is only a matter of who waits: the database decides every time.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lru::LruCache;
use settle_domain::credential::CredentialHash;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::shares::{Share, Shares};
use super::source::Source;
use crate::error::{Quota, RateLimited};
use crate::limits::Guessing;

/// How many credentials that were right, and how many sources of wrong ones, the service remembers.
const REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// How many credentials that were not right before the service looks up at once.
const LOOKS_MAX: usize = 8;
/// How many of them may wait or be looked up at once: in all, of one source, of one that has no guess left.
/// After a start no credential is proven yet, and all callers of a source may come at once.
const WAITING_MAX: usize = 4_096;
const WAITING_PER_SOURCE_MAX: usize = 1_024;
const WAITING_WITHOUT_GUESSES_MAX: usize = 1;

/// The wrong credentials of each source, and the credentials that were right.
pub(super) struct Guesses {
    limits: Guessing,
    buckets: Mutex<LruCache<Source, Bucket>>,
    proven: Mutex<LruCache<CredentialHash, ()>>,
    waiting: Shares<Source>,
    looks: Semaphore,
}

/// How many guesses a source had left, and when.
#[derive(Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

/// Leave to look a credential up, while it is held.
pub(super) struct Leave<'a> {
    is_proven: bool,
    _held: Option<(Share<Source>, SemaphorePermit<'a>)>,
}

impl Guesses {
    pub(super) fn new(limits: Guessing) -> Guesses {
        Guesses {
            limits,
            buckets: Mutex::new(LruCache::new(REMEMBERED_MAX)),
            proven: Mutex::new(LruCache::new(REMEMBERED_MAX)),
            waiting: Shares::new(WAITING_MAX),
            looks: Semaphore::new(LOOKS_MAX),
        }
    }

    /// Waits until a credential may be looked up.
    pub(super) async fn leave(
        &self,
        source: Source,
        credential: CredentialHash,
    ) -> Result<Leave<'_>, RateLimited> {
        if lock(&self.proven).get(&credential).is_some() {
            return Ok(Leave { is_proven: true, _held: None });
        }
        let has_guesses = self.left(&mut lock(&self.buckets), source) >= 1.0;
        let most = if has_guesses { WAITING_PER_SOURCE_MAX } else { WAITING_WITHOUT_GUESSES_MAX };
        let share = self.waiting.take(source, 1, most).ok_or_else(|| self.refusal())?;
        // Nobody closes the semaphore.
        let permit = self.looks.acquire().await.map_err(|_| self.refusal())?;
        Ok(Leave { is_proven: false, _held: Some((share, permit)) })
    }

    /// Notes whether the credential was right. A wrong one costs its source a guess; when there is none left,
    /// the answer is this error.
    pub(super) fn judge(
        &self,
        leave: &Leave<'_>,
        source: Source,
        credential: CredentialHash,
        is_right: bool,
    ) -> Result<(), RateLimited> {
        match (is_right, leave.is_proven) {
            (true, true) => return Ok(()),
            (true, false) => {
                lock(&self.proven).put(credential, ());
                return Ok(());
            }
            (false, true) => {
                lock(&self.proven).pop(&credential);
            }
            (false, false) => {}
        }
        if self.limits.per_second.is_none() {
            return Ok(());
        }
        let mut buckets = lock(&self.buckets);
        let left = self.left(&mut buckets, source) - 1.0;
        if left < 0.0 {
            return Err(self.refusal());
        }
        buckets.put(source, Bucket { left, at: Instant::now() });
        Ok(())
    }

    /// How many guesses a source has now.
    fn left(&self, buckets: &mut LruCache<Source, Bucket>, source: Source) -> f64 {
        let burst = f64::from(self.limits.burst.get());
        let Some(per_second) = self.limits.per_second else { return burst };
        let Some(bucket) = buckets.get(&source) else { return burst };
        let gained = bucket.at.elapsed().as_secs_f64() * f64::from(per_second.get());
        (bucket.left + gained).min(burst)
    }

    fn refusal(&self) -> RateLimited {
        let (rate, burst) = (self.limits.per_second.map_or(1, NonZeroU32::get), self.limits.burst.get());
        RateLimited {
            name: "wrong-credentials",
            retry_after: Duration::from_secs(1),
            quota: Quota::Requests { number: burst, window_seconds: burst.div_ceil(rate) },
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    const RIGHT: CredentialHash = CredentialHash([1; 32]);
    const WRONG: CredentialHash = CredentialHash([2; 32]);

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    fn guesses(burst: u32) -> Guesses {
        let burst = NonZeroU32::new(burst).unwrap();
        Guesses::new(Guessing { per_second: NonZeroU32::new(1), burst })
    }

    async fn guess(guesses: &Guesses, source: Source, credential: CredentialHash) -> bool {
        let leave = guesses.leave(source, credential).await.expect("leave to look");
        guesses.judge(&leave, source, credential, credential == RIGHT).is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_has_a_few_guesses_and_gains_new_ones_with_time() {
        let guesses = guesses(2);
        for expected in [true, true, false, false] {
            assert_eq!(guess(&guesses, source(1), WRONG).await, expected);
        }
        assert!(guess(&guesses, source(2), WRONG).await, "another source has its own");
        tokio::time::advance(Duration::from_secs(1)).await;
        for expected in [true, false] {
            assert_eq!(guess(&guesses, source(1), WRONG).await, expected);
        }
        tokio::time::advance(Duration::from_mins(1)).await;
        for expected in [true, true, false] {
            assert_eq!(guess(&guesses, source(1), WRONG).await, expected, "no more than the burst");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_gains_guesses_at_the_rate_of_the_limit() {
        let limits = Guessing { per_second: NonZeroU32::new(4), burst: NonZeroU32::new(4).unwrap() };
        let guesses = Guesses::new(limits);
        while guess(&guesses, source(1), WRONG).await {}
        tokio::time::advance(Duration::from_millis(500)).await;
        for expected in [true, true, false] {
            assert_eq!(guess(&guesses, source(1), WRONG).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_right_credential_gets_through_a_source_without_guesses() {
        let guesses = guesses(1);
        while guess(&guesses, source(1), WRONG).await {}
        assert!(guess(&guesses, source(1), RIGHT).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_without_guesses_has_one_look_at_a_time_and_proven_credentials_as_many_as_they_like() {
        let guesses = guesses(1);
        assert!(guess(&guesses, source(1), RIGHT).await);
        while guess(&guesses, source(1), WRONG).await {}
        let looking = guesses.leave(source(1), WRONG).await.unwrap();
        assert!(guesses.leave(source(1), CredentialHash([3; 32])).await.is_err());
        let _proven = [(); 100].map(|()| guesses.leave(source(1), RIGHT).now_or_never().unwrap().unwrap());
        assert!(guesses.leave(source(2), WRONG).await.is_ok(), "another source is not held up");
        drop(looking);
        assert!(guesses.leave(source(1), WRONG).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn few_are_looked_up_at_once_whatever_their_sources() {
        let guesses = guesses(1_000);
        let mut held = Vec::new();
        for last in 0..LOOKS_MAX {
            held.push(guesses.leave(source(u8::try_from(last).unwrap()), WRONG).await.unwrap());
        }
        assert!(guesses.leave(source(100), WRONG).now_or_never().is_none(), "it waits");
        held.pop();
        assert!(guesses.leave(source(100), WRONG).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_credential_that_is_no_longer_right_is_a_guess_again() {
        let guesses = guesses(1);
        assert!(guess(&guesses, source(1), RIGHT).await);
        let leave = guesses.leave(source(1), RIGHT).await.unwrap();
        assert!(leave.is_proven && guesses.judge(&leave, source(1), RIGHT, false).is_ok());
        assert!(!guesses.leave(source(1), RIGHT).await.unwrap().is_proven);
    }
}
