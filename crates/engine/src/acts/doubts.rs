//! Whether what counts as not done was done after all: asked before an operator lets money go out again, and
//! before one says that what moved without the payment did not.
//!
//! A provider may refuse an operation and execute it later, and a person may give up what was on its way. The
//! engine does not look such operations up for ever, so whoever sends another in their place asks about them
//! once more. What has moved, or may move, is evidence: it is recorded, and the act does nothing. No answer,
//! or the same one again, leaves the act allowed where the provider had refused: that was its signed word.
//! Where nothing but people said so, or the provider says the contrary, it takes two of them.

use std::sync::Arc;

use futures::future::join_all;
use settle_domain::ledger::Held;
use settle_domain::operation::{Answer, Judgement, Memory, OperationKind, OperationStatus, Report, Seen};
use settle_domain::payment::Act;
use tokio::time::timeout;

use super::ActError;
use crate::advance::{Advance, Told};
use crate::case::{Case, Tracked};
use crate::life::Means;
use crate::words;
use crate::writer::Written;

/// Operations that are asked about before one act, the newest of each kind. Only conversions whose quotes had
/// expired can be more.
const DOUBTS_MAX: usize = 32;

/// What the provider says of an operation.
type Word = (Seen, Option<Report>);

/// What came of asking.
pub(super) enum Doubt {
    /// Nothing says that something was done.
    None,
    /// Something was done, or may be: the payment as it is now that this is recorded.
    Moved(Box<Case>),
    /// The provider's last word is that it was done, and that is known already.
    Contradicted,
    /// People gave it up, and the provider gives no answer.
    Unconfirmed,
    /// Somebody else has changed the payment meanwhile.
    Stale,
}

/// Asks about everything that would make what the act sends a second one, and records what is news.
pub(super) async fn settled(means: &Means, case: &Case, act: Act) -> Result<Doubt, ActError> {
    let places = doubts(case, act);
    let words = join_all(places.iter().map(|place| asked(means, case, *place))).await;
    let weights: Vec<Weight> = places
        .iter()
        .zip(&words)
        .map(|(place, (seen, _))| weight(case.operations[*place].operation.memory, *seen, act))
        .collect();
    let heaviest = weights.iter().copied().max().unwrap_or(Weight::Nothing);
    match heaviest {
        Weight::Nothing => return Ok(Doubt::None),
        Weight::Unconfirmed => return Ok(Doubt::Unconfirmed),
        Weight::Contradicted => return Ok(Doubt::Contradicted),
        Weight::News => {}
    }
    let words = places.into_iter().zip(words).zip(weights);
    let news = words.filter(|(_, weight)| *weight == Weight::News).map(|(word, _)| word);
    let mut case = case.clone();
    for (place, (seen, report)) in news {
        let corridor = means.corridor(&case).await?;
        let told = Told { may_send: false, ..means.told(&case, place, corridor.as_deref()) };
        let advance = Advance::seen(case, place, seen, report.as_ref(), &told, means.clock.now())?;
        let advance = Arc::new(advance);
        match means.writer.write(Arc::clone(&advance), None).await.map_err(ActError::Store)? {
            Written::Done => advance.report(),
            Written::Stale | Written::Lost => return Ok(Doubt::Stale),
        }
        case = advance.committed().0;
    }
    Ok(Doubt::Moved(Box::new(case)))
}

/// The operations that count as not done, and that would be what the act sends once more; or the one that
/// moved, or may move, and of which an operator says that it did not.
fn doubts(case: &Case, act: Act) -> Vec<usize> {
    match act {
        Act::Retry | Act::Refund => {}
        Act::Resolve(outcome) if !outcome.is_done() && case.awaited().is_none() => {
            let came_back =
                |place: &usize| case.operations[*place].operation.memory.status == OperationStatus::Returned;
            return case.questioned().into_iter().filter(|place| !came_back(place)).collect();
        }
        Act::Resolve(_) | Act::Cancel | Act::Returned => return Vec::new(),
    }
    let has_come_in = case.payment.state.parts().held == Some(Held::Incoming);
    let is_doubt = |tracked: &Tracked| {
        let memory = tracked.operation.memory;
        let is_over =
            memory.status.is_closed() || memory.is_late && memory.status != OperationStatus::Returned;
        // Once what was bought is held, another conversion changes nothing of what goes out.
        is_over && (has_come_in || tracked.operation.request.kind() != OperationKind::Conversion)
    };
    (0..case.operations.len())
        .rev()
        .filter(|place| is_doubt(&case.operations[*place]))
        .take(DOUBTS_MAX)
        .collect()
}

async fn asked(means: &Means, case: &Case, place: usize) -> Word {
    let tracked = &case.operations[place];
    let (operation, instance) = (&tracked.operation, tracked.instance.as_deref());
    let Some(station) = means.providers.find(&operation.provider) else { return (Seen::LookupFailed, None) };
    match timeout(means.answer_wait, station.look_up(operation.operation_id)).await {
        Ok(seen) => words::of_look_up(seen, &operation.request, case.promise_of(place).as_ref(), instance),
        Err(_) => (Seen::LookupFailed, None),
    }
}

/// What a provider's word weighs against an act, the heaviest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Weight {
    /// Nothing.
    Nothing,
    /// Nothing but people's word is for the act.
    Unconfirmed,
    /// The provider's word is against it, and was known.
    Contradicted,
    /// The provider's word is against it, and nobody can have known.
    News,
}

const fn weight(memory: Memory, seen: Seen, act: Act) -> Weight {
    let is_known = memory.is_late && matches!(memory.status, OperationStatus::Succeeded);
    match seen {
        Seen::Found(Answer::Pending) => Weight::News,
        // What is late already a person has decided about, or is about to.
        Seen::Found(Answer::Returned) => {
            if !memory.is_late || matches!(act, Act::Resolve(_)) {
                Weight::News
            } else {
                Weight::Nothing
            }
        }
        _ if is_known => Weight::Contradicted,
        Seen::Found(Answer::Succeeded(Judgement::AsAsked)) => Weight::News,
        Seen::Found(Answer::Succeeded(Judgement::Otherwise)) => {
            if memory.is_late {
                Weight::Contradicted
            } else {
                Weight::News
            }
        }
        // The provider was at it after it had refused: that it no longer knows it is no proof.
        Seen::Absent if memory.is_late => Weight::Unconfirmed,
        // It may still move, or may have moved, and people alone say that it did not.
        Seen::LookupFailed if memory.is_late || matches!(memory.status, OperationStatus::GivenUp) => {
            Weight::Unconfirmed
        }
        _ => Weight::Nothing,
    }
}
