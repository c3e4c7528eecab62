//! Secrets opened before: the dispatcher opens a merchant's once, not for every attempt, and forgets it a
//! minute later. So a look into the memory of the process finds the secrets of a minute, not those of all
//! merchants that were ever sent to.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use lru::LruCache;
use settle_domain::ids::MerchantId;
use settle_domain::vault::{KeyRing, OpenFault};
use settle_domain::webhook_secret::{SealedSecret, WebhookSecret};
use tokio::time::Instant;

/// Merchants whose opened secrets are kept.
const KEPT_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// How long an opened secret is kept, however often it is used.
const KEPT_FOR: Duration = Duration::from_mins(1);
/// How often old ones are looked for.
const FORGET_INTERVAL: Duration = Duration::from_secs(5);

/// Opened secrets. A secret that is forgotten is overwritten, as soon as no attempt signs with it.
pub(super) struct Secrets {
    opened: LruCache<MerchantId, Opened>,
    forget_at: Instant,
}

struct Opened {
    sealed: SealedSecret,
    secret: Arc<WebhookSecret>,
    at: Instant,
}

impl Secrets {
    pub(super) fn none() -> Secrets {
        Secrets { opened: LruCache::new(KEPT_MAX), forget_at: Instant::now() }
    }

    /// The opened secret. A sealed one that differs from the last is a new one.
    pub(super) fn open(
        &mut self,
        ring: &KeyRing,
        merchant: MerchantId,
        sealed: SealedSecret,
    ) -> Result<Arc<WebhookSecret>, OpenFault> {
        let now = Instant::now();
        let is_same = |opened: &&Opened| opened.sealed == sealed && !opened.is_old(now);
        if let Some(opened) = self.opened.get(&merchant).filter(is_same) {
            return Ok(opened.secret.clone());
        }
        let secret = Arc::new(ring.open(merchant, &sealed)?);
        self.opened.put(merchant, Opened { sealed, secret: secret.clone(), at: now });
        Ok(secret)
    }

    /// Forgets old ones, at most every [`FORGET_INTERVAL`]. The dispatcher's loop comes by every second.
    pub(super) fn forget_old(&mut self) {
        let now = Instant::now();
        if now < self.forget_at {
            return;
        }
        self.forget_at = now + FORGET_INTERVAL;
        let old = self.opened.iter().filter(|(_, opened)| opened.is_old(now)).map(|(merchant, _)| *merchant);
        for merchant in old.collect::<Vec<MerchantId>>() {
            self.opened.pop(&merchant);
        }
    }
}

impl Opened {
    fn is_old(&self, now: Instant) -> bool {
        now.duration_since(self.at) >= KEPT_FOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use settle_domain::seams::SeededEntropy;
    use uuid::Uuid;

    const MERCHANT: MerchantId = MerchantId(Uuid::from_u128(1));

    fn ring() -> KeyRing {
        KeyRing::parse(&"11".repeat(32)).unwrap()
    }

    fn sealed(text: &str) -> SealedSecret {
        let secret = WebhookSecret::parse(text.to_owned()).unwrap();
        ring().seal(MERCHANT, &secret, &SeededEntropy::new(1))
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_is_opened_once_a_minute() {
        let mut secrets = Secrets::none();
        let first = secrets.open(&ring(), MERCHANT, sealed("hush")).unwrap();
        tokio::time::advance(KEPT_FOR.saturating_sub(Duration::from_millis(1))).await;
        let again = secrets.open(&ring(), MERCHANT, sealed("hush")).unwrap();
        assert!(Arc::ptr_eq(&first, &again), "kept");
        tokio::time::advance(Duration::from_millis(1)).await;
        let anew = secrets.open(&ring(), MERCHANT, sealed("hush")).unwrap();
        assert!(!Arc::ptr_eq(&first, &anew), "its use does not prolong its minute");
        let other = secrets.open(&ring(), MERCHANT, sealed("other")).unwrap();
        assert_eq!(other.as_bytes(), b"other");
    }

    #[tokio::test(start_paused = true)]
    async fn an_old_secret_is_forgotten_without_a_use() {
        let mut secrets = Secrets::none();
        secrets.forget_old();
        let kept = Arc::downgrade(&secrets.open(&ring(), MERCHANT, sealed("hush")).unwrap());
        tokio::time::advance(KEPT_FOR.saturating_sub(Duration::from_millis(1))).await;
        secrets.forget_old();
        assert!(kept.upgrade().is_some(), "not yet");
        tokio::time::advance(FORGET_INTERVAL).await;
        secrets.forget_old();
        assert!(kept.upgrade().is_none());
    }
}
