//! Why a case cannot go on by itself.

use settle_domain::ledger::PostingFault;
use settle_domain::payment::{FieldFault, TransitionFault};
use settle_domain::quoting::QuotingFault;

/// Why a case cannot go on by itself: a fault of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stuck {
    /// The machine does not allow the event.
    #[error(transparent)]
    Transition(#[from] TransitionFault),
    /// There are no postings for it.
    #[error(transparent)]
    Posting(#[from] PostingFault),
    /// What was bought cannot be divided.
    #[error(transparent)]
    Quoting(#[from] QuotingFault),
    /// What a person says cannot be.
    #[error(transparent)]
    Given(#[from] FieldFault),
    /// Something is missing that must be there by now.
    #[error("the payment lacks {0}")]
    Lacking(&'static str),
}
