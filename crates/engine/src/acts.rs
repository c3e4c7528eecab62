//! What operators do with a payment: retry, refund, cancel, resolve, say that money came back.
//!
//! An act carries the version that its operator saw, and is done if nothing has changed since but how often
//! the engine has waited and looked: a payment under review is looked up without an end, and its operator
//! reads, asks the provider and finds a second person meanwhile.
//!
//! Whoever says that something was not done asks the provider first never to begin it: the provider's word,
//! not the operator's, then decides. If it says that what it did has come back, both say the same: the money
//! is not where it was sent. Whoever lets money go out again has the provider asked first about what it had
//! refused (`acts/doubts.rs`).

use std::sync::Arc;

use settle_domain::error_code::ErrorCode;
use settle_domain::ids::{MerchantId, OperationId, PaymentId};
use settle_domain::operation::{Answer, Memory, OperationKind, OperationStatus, Seen};
use settle_domain::payment::{Act, FieldFault, StateName, TransitionFault};
use settle_store::{StoreError, StoredCorridor};
use tokio::time::timeout;

use crate::advance::{Advance, Deed, Stuck, Told};
use crate::case::Case;
use crate::life::Means;
use crate::wake::EngineWake;
use crate::writer::Written;

mod doubts;
pub mod proposals;

use doubts::Doubt;

/// How often an act is decided anew because somebody else has changed the payment meanwhile.
const STALE_MAX: u32 = 8;

/// Why an act did nothing.
#[derive(Debug, thiserror::Error)]
pub enum ActError {
    /// There is no such payment.
    #[error("there is no such payment")]
    Unknown,
    /// The payment has changed since the operator saw it.
    #[error("the payment has changed since: it is {state} now, at version {version}")]
    Stale {
        /// Its state now.
        state: StateName,
        /// Its version now.
        version: u64,
    },
    /// The payment's state does not allow it.
    #[error(transparent)]
    Illegal(#[from] TransitionFault),
    /// The provider did not say that it will never begin the operation: one person's word is not enough.
    #[error("the provider does not confirm that nothing was done: two people must say so")]
    Unconfirmed,
    /// The provider says that what counts as not done was done: one person's word is not enough.
    #[error("the provider says that it was done: two people must say otherwise")]
    Contradicted,
    /// What was bought is too far from the quote, or the provider says otherwise, or more went out than was
    /// owed: one person's word is not enough.
    #[error(
        "more than 1 % off the quote, more than was owed, or not what the provider says: two must say so"
    )]
    OffQuote,
    /// What the operator says cannot be.
    #[error(transparent)]
    Given(FieldFault),
    /// The provider says that it has begun the operation and is still at it.
    #[error("the provider is still at it: its word comes")]
    StillProcessing,
    /// Whoever proposed it cannot approve it.
    #[error("it is your own proposal: somebody else must approve it")]
    OwnProposal,
    /// Somebody has approved the proposal, it is older than a day, or its proposer's token was revoked.
    #[error("the proposal was approved already, has expired, or its proposer is no operator any more")]
    Expired,
    /// Something is missing.
    #[error("{0}")]
    Lacking(&'static str),
    /// The store failed.
    #[error(transparent)]
    Store(Arc<StoreError>),
}

impl ActError {
    fn stale(case: &Case) -> ActError {
        ActError::Stale { state: case.payment.state.name(), version: case.payment.version }
    }

    /// The code of the contract that says why.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            ActError::Unknown => ErrorCode::NotFound,
            ActError::Stale { .. } | ActError::Expired => ErrorCode::Conflict,
            ActError::Illegal(fault) => fault.code,
            ActError::Unconfirmed | ActError::Contradicted | ActError::OffQuote | ActError::OwnProposal => {
                ErrorCode::Forbidden
            }
            ActError::StillProcessing => ErrorCode::ProviderStillProcessing,
            ActError::Given(_) | ActError::Lacking(_) => ErrorCode::AdminValidationFailed,
            ActError::Store(_) => ErrorCode::InternalError,
        }
    }
}

impl From<StoreError> for ActError {
    fn from(fault: StoreError) -> ActError {
        ActError::Store(Arc::new(fault))
    }
}

impl From<Stuck> for ActError {
    fn from(stuck: Stuck) -> ActError {
        match stuck {
            Stuck::Transition(fault) => ActError::Illegal(fault),
            Stuck::Lacking(what) => ActError::Lacking(what),
            Stuck::Given(fault) => ActError::Given(fault),
            fault @ (Stuck::Posting(_) | Stuck::Quoting(_)) => {
                ActError::from(StoreError::unexpected(fault.to_string()))
            }
        }
    }
}

/// A provider hints that something has become of an operation: the payment is due at once, and the operation
/// is looked up, also if it had ended. Nothing of what the hint says is believed. Hints that come before the
/// look-up are one.
pub async fn hint(means: &Means, wake: &EngineWake, operation: OperationId) -> Result<(), ActError> {
    for _ in 0..=STALE_MAX {
        let now = means.clock.now();
        let Some(named) = means.store.operation_find(operation, now).await? else { return Ok(()) };
        let case = means.read(named.merchant_id, named.payment_id).await?.ok_or(ActError::Unknown)?;
        let Some(place) = case.position(operation) else { return Ok(()) };
        let is_marked = case.hinted() == Some(place) || !case.operations[place].can_be_hinted();
        let is_due = match case.due_at {
            Some(due_at) => due_at <= now,
            // At rest: what can have no news is not looked up.
            None => is_marked,
        };
        // Whoever changes the payment meanwhile may have looked at another of its operations.
        if is_marked && is_due || written(means, Advance::hinted(case, place, now)).await?.is_some() {
            wake.merchants([named.merchant_id]);
            return Ok(());
        }
    }
    Err(ActError::Store(Arc::new(StoreError::unexpected(
        "a hint was not kept: its payment changes all the time",
    ))))
}

/// How many people stand behind an act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum People {
    /// Whoever acts, alone.
    One,
    /// One proposed it, another approved it: their word counts where the provider gives none.
    Two,
}

/// Says whether an act is allowed on the version of a payment that its operator saw. Nothing is done.
pub async fn judged(
    means: &Means,
    payment: (MerchantId, PaymentId),
    version: u64,
    deed: &Deed,
) -> Result<(), ActError> {
    let (case, corridor) = read(means, payment, version, deed).await?;
    let told = case.questioned().map(|place| means.told(&case, place, corridor.as_deref()));
    Advance::acted(case.clone(), deed, told.as_ref(), means.clock.now())?;
    Ok(())
}

/// The payment, if it is as the operator saw it, with its corridor.
async fn read(
    means: &Means,
    (merchant, payment): (MerchantId, PaymentId),
    version: u64,
    deed: &Deed,
) -> Result<(Case, Option<Arc<StoredCorridor>>), ActError> {
    let mut case = means.read(merchant, payment).await?.ok_or(ActError::Unknown)?;
    if !case.is_as_seen(version) {
        return Err(ActError::stale(&case));
    }
    let corridor = means.corridor(&case).await?;
    if deed.act == Act::Refund
        && case.payment.provider.is_none()
        && let Some(kept) = &corridor
    {
        // It failed before its first quote: what came in goes back through the provider of its corridor.
        case.payment.provider = Some(means.present_provider(&case, kept).await?);
    }
    Ok((case, corridor))
}

/// Does what an operator wants with the version of a payment that it saw. Gives the payment as it is then.
pub async fn act(
    means: &Means,
    wake: &EngineWake,
    (merchant, payment): (MerchantId, PaymentId),
    version: u64,
    deed: &Deed,
    people: People,
) -> Result<Case, ActError> {
    for _ in 0..=STALE_MAX {
        let Some(advance) = decided(means, (merchant, payment), version, deed, people).await? else {
            continue;
        };
        // If somebody has changed it meanwhile, the next round sees whether that matters to the operator.
        if let Some(case) = written(means, advance).await? {
            wake.merchants([merchant]);
            return Ok(case);
        }
    }
    let case = means.read(merchant, payment).await?.ok_or(ActError::Unknown)?;
    Err(ActError::stale(&case))
}

/// Writes an advance, whoever holds the shard. Gives the payment as it is then, or `None` if somebody has
/// changed it meanwhile.
async fn written(means: &Means, advance: Advance) -> Result<Option<Case>, ActError> {
    let advance = Arc::new(advance);
    match means.writer.write(Arc::clone(&advance), None).await.map_err(ActError::Store)? {
        Written::Done => Ok(Some(advance.committed().0)),
        Written::Stale | Written::Lost => Ok(None),
    }
}

/// What follows from an operator's act and, where it says that something was not done, from the provider's
/// word. `None` if somebody has changed the payment meanwhile.
async fn decided(
    means: &Means,
    payment: (MerchantId, PaymentId),
    version: u64,
    deed: &Deed,
    people: People,
) -> Result<Option<Advance>, ActError> {
    let (case, corridor) = read(means, payment, version, deed).await?;
    let told = case.questioned().map(|place| means.told(&case, place, corridor.as_deref()));
    let now = means.clock.now();
    // Judged before the provider is asked: an act that is not allowed has no effect anywhere.
    let advance = Advance::acted(case.clone(), deed, told.as_ref(), now)?;
    match doubts::settled(means, &case, deed.act).await? {
        Doubt::Stale => return Ok(None),
        Doubt::Contradicted if people == People::One => return Err(ActError::Contradicted),
        Doubt::Unconfirmed if people == People::One => return Err(ActError::Unconfirmed),
        Doubt::None | Doubt::Contradicted | Doubt::Unconfirmed => {}
        Doubt::Moved(moved) if matches!(deed.act, Act::Resolve(_)) => {
            let is_over = moved.questioned().is_some_and(|place| {
                let status = moved.operations[place].operation.memory.status;
                !status.is_open()
            });
            return Err(if is_over { ActError::stale(&moved) } else { ActError::StillProcessing });
        }
        Doubt::Moved(moved) => {
            // Where the payment is now says why. If nothing else does, the provider is at it.
            Advance::acted(*moved, deed, told.as_ref(), now)?;
            return Err(ActError::StillProcessing);
        }
    }
    if let Act::Resolve(outcome) = deed.act
        && people == People::One
        && advance.needs_two(outcome)
    {
        return Err(ActError::OffQuote);
    }
    if let (Act::Resolve(outcome), Some(place), Some(told)) = (deed.act, case.awaited(), &told)
        && !outcome.is_done()
        && case.operations[place].operation.memory.status != OperationStatus::Returned
        && !case.operations[place].is_unsent()
    {
        return refuted(means, case, (place, told), advance, deed, people).await;
    }
    Ok(Some(advance))
}

/// What follows when an operator says that an operation was not done, and its provider is asked never to
/// begin it: the act's own advance, or what the provider says.
async fn refuted(
    means: &Means,
    mut case: Case,
    (place, told): (usize, &Told<'_>),
    mut acted: Advance,
    deed: &Deed,
    people: People,
) -> Result<Option<Advance>, ActError> {
    let memory = case.operations[place].operation.memory;
    let is_conversion = case.operations[place].operation.request.kind() == OperationKind::Conversion;
    if memory.was_accepted && !memory.was_voided {
        // Known before the provider hears of it: what it says from then on may be our own doing.
        let now = means.clock.now();
        let Some(marked) = written(means, Advance::voids(case, place, now)).await? else {
            return Ok(None);
        };
        case = marked;
        acted = Advance::acted(case.clone(), deed, Some(told), now)?;
    }
    // A provider that hangs gives no word either: the operator hears of that, and a second person can speak.
    let voided = timeout(means.answer_wait, means.voided(&case, place)).await;
    let (verdict, report) = voided.unwrap_or((Seen::VoidFailed, None));
    match (verdict, people) {
        (Seen::Voided(Answer::Pending), _) => {
            // That it has it is kept, whatever it forgets later.
            let found = Seen::Found(Answer::Pending);
            let told = Told { may_send: false, ..told.clone() };
            let has_it = Advance::seen(case, place, found, report.as_ref(), &told, means.clock.now())?;
            let kept = written(means, has_it).await?;
            kept.map_or(Ok(None), |_| Err(ActError::StillProcessing))
        }
        (Seen::Voided(Answer::Returned), _) if !is_conversion => {
            acted.came_back(place, report.as_ref());
            Ok(Some(acted))
        }
        (verdict, People::One) if proves_nothing(verdict, memory) => Err(ActError::Unconfirmed),
        (verdict, People::Two) if proves_nothing(verdict, memory) => Ok(Some(acted)),
        _ => {
            let word = (verdict, report.as_ref());
            let confirmed = Advance::confirmed(case, place, word, deed, told, means.clock.now())?;
            Ok(Some(confirmed))
        }
    }
}

/// Whether what came of a void leaves open what became of the operation: then people must say it.
const fn proves_nothing(verdict: Seen, memory: Memory) -> bool {
    match verdict {
        // A conversion that is called returned is nothing that we understand.
        Seen::VoidFailed | Seen::Voided(Answer::Returned) => true,
        // What the provider once had and now calls not begun, it has forgotten, or refuses by our own void.
        Seen::Voided(Answer::Refused(_)) => memory.was_accepted,
        _ => false,
    }
}
