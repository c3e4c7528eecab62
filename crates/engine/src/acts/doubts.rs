//! Whether what counts as not done was done after all: asked before an operator lets money go out again.
//!
//! A provider may refuse an operation and execute it later, and a person may give up what was on its way. The
//! engine does not look such operations up for ever, so whoever sends another in their place asks about them
//! once more. What has moved, or may move, is evidence: it is recorded, and the act does nothing. No answer,
//! or the same one again, leaves the act allowed: the provider's refusal was its signed word.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use settle_domain::ledger::Held;
use settle_domain::operation::{Answer, Judgement, OperationKind, Report, Seen};
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
/// How long an answer is waited for: shorter than the operator waits for its own.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// What the provider says of an operation.
type Word = (Seen, Option<Report>);

/// What came of asking.
pub(super) enum Doubt {
    /// Nothing says that something was done.
    None,
    /// Something was done, or may be: the payment as it is now that this is recorded.
    Moved(Box<Case>),
    /// Somebody else has changed the payment meanwhile.
    Stale,
}

/// Asks about everything that would make what the act sends a second one, and records what is news.
pub(super) async fn settled(means: &Means, case: &Case, act: Act) -> Result<Doubt, ActError> {
    let places = doubts(case, act);
    let words = join_all(places.iter().map(|place| asked(means, case, *place))).await;
    let news: Vec<(usize, Word)> = places
        .into_iter()
        .zip(words)
        .filter(|(place, (seen, _))| is_news(&case.operations[*place], *seen))
        .collect();
    if news.is_empty() {
        return Ok(Doubt::None);
    }
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

/// The operations that count as not done, and that would be what the act sends once more.
fn doubts(case: &Case, act: Act) -> Vec<usize> {
    if !matches!(act, Act::Retry | Act::Refund) {
        return Vec::new();
    }
    let has_come_in = case.payment.state.parts().held == Some(Held::Incoming);
    let is_doubt = |tracked: &Tracked| {
        let memory = tracked.operation.memory;
        let is_over = memory.status.is_closed() || memory.is_late && memory.status.is_open();
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
    match timeout(ANSWER_WAIT, station.look_up(operation.operation_id)).await {
        Ok(seen) => words::of_look_up(seen, &operation.request, case.promise().as_ref(), instance),
        Err(_) => (Seen::LookupFailed, None),
    }
}

/// Whether it moved, or may, although it counts as not done. Of what is late already a person has decided:
/// only what the person cannot have known is news.
const fn is_news(tracked: &Tracked, seen: Seen) -> bool {
    let is_late = tracked.operation.memory.is_late;
    match seen {
        Seen::Found(Answer::Pending | Answer::Succeeded(Judgement::AsAsked)) => true,
        Seen::Found(Answer::Succeeded(Judgement::Otherwise) | Answer::Returned) => !is_late,
        _ => false,
    }
}
