//! What the engine knows of a provider beside an answer.

use settle_domain::operation::{Backoff, Window};
use settle_store::StoredCorridor;

/// What the engine knows of the provider when something was seen.
#[derive(Debug, Clone)]
pub struct Told<'a> {
    /// Whether the provider still remembers the operation's key.
    pub window: Window,
    /// The corridor's version that the payment keeps.
    pub corridor: Option<&'a StoredCorridor>,
    /// The provider's memory that spoke.
    pub instance: Option<String>,
    /// Whether something may be sent to the provider now.
    pub may_send: bool,
    /// Whether silence about what the provider hinted at holds back what would go out meanwhile.
    pub awaits_hint: bool,
    /// How long to wait.
    pub waits: Backoff,
}
