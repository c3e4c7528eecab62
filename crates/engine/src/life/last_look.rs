//! A last look before something goes out, or again, in the place of what people gave up.
//!
//! Two people may give up an operation whose provider is silent, and let another go out in its place. The
//! engine sends that once the provider is back, and the provider can then tell what became of the first.

use std::time::Duration;

use settle_domain::ledger::Held;
use settle_domain::operation::{
    Answer, Judgement, Memory, Operation, OperationKind, OperationStatus, Seen as Verdict,
};
use settle_domain::payment::PaymentState;
use settle_domain::provider::ProviderName;
use settle_domain::reason::Blocked;
use settle_provider::seen::Seen;
use settle_provider::wire;
use settle_store::StoreResult;

use super::{Errands, LifeError, Means, errands};
use crate::advance::{Advance, Follow};
use crate::case::Case;
use crate::words;

/// How long silence holds back what another provider is to do, or what goes out in the place of something
/// that was given up long ago: people have decided, and no answer may ever come. So long, too, holds what one
/// memory of a provider hinted at, and another answers for.
const SILENCE_MAX: Duration = Duration::from_hours(1);

/// The operations that are asked about before something goes out in their place.
fn looks(case: &Case) -> Vec<usize> {
    let is_moot = |place: &usize| {
        let kind = case.operations[*place].operation.request.kind();
        is_bought(case.payment.state) && kind == OperationKind::Conversion
    };
    case.doubtful().into_iter().filter(|place| !is_moot(place)).collect()
}

/// Whether an operation that nobody has seen yet is about to go out.
fn begins(case: &Case) -> bool {
    match errands(case) {
        Errands::Quote | Errands::PayOut | Errands::Resend(_) => true,
        Errands::Lost(_) | Errands::LookUp(_) | Errands::Void(_) | Errands::CatchUp(_) | Errands::Nothing => {
            false
        }
    }
}

/// Whether something would be sent because a provider knew nothing before the database was away. It may know
/// now: whoever claims the payment next asks again.
pub(super) fn is_outdated(advance: &Advance) -> bool {
    let rests_on_absence = match &advance.evidence {
        Some((_, seen, _)) => *seen == Verdict::Absent,
        None => !looks(&advance.case).is_empty(),
    };
    matches!(advance.follow, Follow::Send(_)) && rests_on_absence
}

/// Whether nobody answered, or somebody in between.
const fn is_silence(seen: &Seen<wire::Operation>) -> bool {
    match seen {
        Seen::NotSent(_) | Seen::NoAnswer(_) | Seen::Blocked { .. } => true,
        Seen::Unusable { status, .. } => *status >= 500,
        _ => false,
    }
}

/// Once what was bought is held, another conversion changes nothing of what goes out.
const fn is_bought(state: PaymentState) -> bool {
    use PaymentState::{Converted, PayingOut, Refunding};
    matches!(state, Converted | PayingOut | Refunding(Held::Outgoing))
}

impl Means {
    /// The last look before an operation begins that nobody has seen yet.
    pub(super) async fn last_look(&self, case: &Case) -> Result<Option<Advance>, LifeError> {
        if begins(case) { self.look_before_send(case).await } else { Ok(None) }
    }

    /// What follows if something that was given up has moved after all, or if its provider does not answer
    /// yet. `None` if nothing stands in the way. An answer that says nothing does not: people have decided.
    pub(super) async fn look_before_send(&self, case: &Case) -> Result<Option<Advance>, LifeError> {
        let places = looks(case);
        if places.is_empty() {
            return Ok(None);
        }
        let next = self.next_provider(case).await?;
        for place in places {
            let tracked = &case.operations[place];
            let (operation, instance) = (&tracked.operation, tracked.instance.as_deref());
            let kind = operation.request.kind();
            let Some(station) = self.providers.find(&operation.provider) else { continue };
            let seen = station.look_up(operation.operation_id).await;
            if is_silence(&seen) {
                if self.waits_for(case, place, next.as_ref()) {
                    return Ok(Some(self.holds_back(case)));
                }
                continue;
            }
            let word = words::of_look_up(seen, &operation.request, case.promise_of(place).as_ref(), instance);
            let Memory { is_late, status, .. } = operation.memory;
            let is_known = is_late && status == OperationStatus::Unknown;
            match word.0 {
                // People know that it may still move: the payment would not stop for it again.
                Verdict::Found(Answer::Pending) if is_late => return Ok(Some(self.holds_back(case))),
                // They know that something else was done, and what.
                Verdict::Found(Answer::Succeeded(Judgement::Otherwise)) if is_known => {}
                Verdict::Found(Answer::Returned) if is_known && kind == OperationKind::Conversion => {}
                Verdict::Found(Answer::Pending | Answer::Succeeded(_) | Answer::Returned) => {
                    return self.judge(case.clone(), place, word).await.map(Some);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The operation that people gave up, or its provider hinted at, and whose provider must answer before
    /// the payment goes on, if it waits for one.
    pub(crate) async fn held_back_by<'a>(&self, case: &'a Case) -> StoreResult<Option<&'a Operation>> {
        if case.payment.blocked != Some(Blocked::ProviderUnavailable) {
            return Ok(None);
        }
        let next = self.next_provider(case).await?;
        let given_up = if begins(case) { looks(case) } else { Vec::new() };
        let given_up = given_up.into_iter().filter(|place| self.waits_for(case, *place, next.as_ref()));
        let awaited = case.hinted().into_iter().chain(given_up);
        let mut operations = awaited.map(|place| &case.operations[place].operation);
        Ok(operations.find(|operation| self.providers.find(&operation.provider).is_some()))
    }

    /// The provider that is asked next: after some retries that of the corridor's newest terms.
    async fn next_provider(&self, case: &Case) -> StoreResult<Option<ProviderName>> {
        match (&case.payment.provider, self.corridor(case).await?) {
            (Some(provider), _) => Ok(Some(provider.clone())),
            (None, Some(corridor)) => self.present_provider(case, &corridor).await.map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Whether silence about an operation holds back what goes out in its place: of another provider, or of
    /// what was given up long ago, not for long.
    fn waits_for(&self, case: &Case, place: usize, next: Option<&ProviderName>) -> bool {
        let is_next = next == Some(&case.operations[place].operation.provider);
        is_next && case.watched().contains(&place) || self.is_recent(case)
    }

    /// Whether silence about what a provider hinted at holds back what would go out meanwhile: of another
    /// provider not for long. A payment that is bound to nobody may be bound to this one next.
    pub(super) fn holds_back_for(&self, case: &Case, place: usize) -> bool {
        case.payment.provider.is_none() || case.is_own(place) || self.is_recent(case)
    }

    /// Whether an operation is of the provider that the payment is bound to, or will be.
    pub(super) async fn is_next(&self, case: &Case, place: usize) -> StoreResult<bool> {
        let next = self.next_provider(case).await?;
        Ok(next.as_ref() == Some(&case.operations[place].operation.provider))
    }

    pub(super) fn is_recent(&self, case: &Case) -> bool {
        self.clock.now() < case.changed_at.plus(SILENCE_MAX)
    }

    fn holds_back(&self, case: &Case) -> Advance {
        Advance::waits(case.clone(), Some(Blocked::ProviderUnavailable), self.waits, self.clock.now())
    }
}
