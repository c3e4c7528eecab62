//! What follows from what happened to a case: pure, without I/O. The result is everything that one
//! transaction writes, and what the engine does once it is committed.

use std::collections::BTreeSet;

use settle_domain::actor::Actor;
use settle_domain::ids::OperationId;
use settle_domain::ledger::Postings;
use settle_domain::operation::{
    Backoff, Class, Memory, Operation, OperationKind, OperationRequest, Report, Seen,
};
use settle_domain::payment::{PaymentEvent, PaymentState};
use settle_domain::provider::ProviderName;
use settle_domain::reason::Blocked;
use settle_domain::time::Timestamp;
use settle_store::{NewSettlement, StepRow};

use crate::case::{Case, Errand, Tracked};

mod arrivals;
mod learning;
mod notices;
mod operators;
mod quotes;
mod remarks;
mod steps;
mod stuck;
mod told;
mod waits;
mod written;

pub use notices::Notice;
pub use operators::Deed;
pub use stuck::Stuck;
pub use told::Told;

/// What the engine does when the advance is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follow {
    /// Send an operation; the commit has marked it as being sent.
    Send(usize),
    /// Ask the provider never to begin an operation.
    Void(usize),
    /// Look at the payment anew.
    Again,
    /// Nothing until it is due.
    Wait,
}

/// A case after something happened, and what is written of it.
#[derive(Debug, Clone)]
pub struct Advance {
    /// The case as it is when the advance is committed.
    pub case: Case,
    /// What the engine does then.
    pub follow: Follow,
    /// The class of what was seen of an operation, if something was.
    pub class: Option<(OperationKind, Class)>,
    /// What operators are told.
    pub alerts: Vec<Notice>,
    /// The provider that was asked for a payment which has none yet.
    asked: Option<ProviderName>,
    /// What was seen of which operation: it is applied again if somebody else has changed the payment
    /// meanwhile.
    pub evidence: Option<(usize, Seen, Option<Report>)>,
    seen: u64,
    by: Actor,
    now: Timestamp,
    steps: Vec<StepRow>,
    postings: Vec<Postings>,
    prepared: BTreeSet<usize>,
    learnt: BTreeSet<usize>,
    is_priced: bool,
    /// What a person says was moved beyond what was owed: the step posts it.
    beyond: Option<Postings>,
    is_beyond: bool,
    settlement: Option<NewSettlement>,
}

impl Advance {
    fn of(case: Case, by: Actor, now: Timestamp) -> Advance {
        Advance {
            seen: case.payment.version,
            case,
            follow: Follow::Wait,
            class: None,
            alerts: Vec::new(),
            asked: None,
            evidence: None,
            by,
            now,
            steps: Vec::new(),
            postings: Vec::new(),
            prepared: BTreeSet::new(),
            learnt: BTreeSet::new(),
            is_priced: false,
            beyond: None,
            is_beyond: false,
            settlement: None,
        }
    }

    /// The engine tells what it did: nothing changes but when it looks again.
    #[must_use]
    pub fn waits(case: Case, blocked: Option<Blocked>, waits: Backoff, now: Timestamp) -> Advance {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.case.payment.blocked = blocked;
        advance.wait_for_awaited(waits);
        advance
    }

    /// What was bought waits for its payout: after a retry.
    pub fn payout(case: Case, instance: Option<String>, now: Timestamp) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.pay_out(instance)?;
        Ok(advance)
    }

    /// An operation that no provider has is sent, to this memory of its provider: for the first time, or
    /// again after it was turned away.
    #[must_use]
    pub fn send(case: Case, place: usize, instance: String, now: Timestamp) -> Advance {
        let mut advance = Advance::of(case, Actor::Engine, now);
        let tracked = &mut advance.case.operations[place];
        tracked.errand = Errand::Sending;
        tracked.instance = Some(instance);
        advance.learnt.insert(place);
        advance.follow = Follow::Send(place);
        advance
    }

    /// Something was seen of an operation.
    pub fn seen(
        case: Case,
        place: usize,
        seen: Seen,
        report: Option<&Report>,
        told: &Told<'_>,
        now: Timestamp,
    ) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.learn(place, seen, report, told, None)?;
        Ok(advance)
    }

    /// The shard has changed hands: nothing but what was learnt of the operation is kept, and the payment
    /// becomes due for whoever serves it now.
    #[must_use]
    pub fn evidence(
        case: Case,
        place: usize,
        seen: Seen,
        report: Option<&Report>,
        told: &Told<'_>,
        now: Timestamp,
    ) -> Advance {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.rule(place, seen, report, told);
        advance.case.due_at = Some(now);
        advance.evidence = Some((place, seen, report.cloned()));
        advance
    }

    /// What is known of an operation reaches its payment, which did not hear of it when it became known.
    pub fn caught_up(case: Case, place: usize, told: &Told<'_>, now: Timestamp) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.catch_up(place, told, None)?;
        advance.go_on(place, Class::NothingLearnt, told)?;
        Ok(advance)
    }

    /// Somebody hints that there is something to learn of an operation: the engine looks at once, also at
    /// what has ended, once.
    #[must_use]
    pub fn hinted(case: Case, place: usize, now: Timestamp) -> Advance {
        let mut advance = Advance::of(case, Actor::Engine, now);
        let tracked = &mut advance.case.operations[place];
        if tracked.can_be_hinted() {
            tracked.errand = Errand::LookUp;
            advance.learnt.insert(place);
        }
        if advance.is_at_rest() {
            advance.case.tries = 0;
        }
        advance.case.due_at = Some(now);
        advance
    }

    /// There is nothing to do.
    #[must_use]
    pub fn at_rest(case: Case, now: Timestamp) -> Advance {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.rest();
        advance
    }

    /// A step of the payment failed by our own fault, also when it was tried alone: a person must look. What
    /// was learnt of the operation that it waits for is kept; of another, its provider is asked again.
    pub fn failed(
        case: Case,
        learnt: Option<(usize, Seen, Option<&Report>, &Told<'_>)>,
        waits: Backoff,
        now: Timestamp,
    ) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        let mut is_awaited = true;
        if let Some((place, seen, report, told)) = learnt {
            is_awaited = advance.case.awaited() == Some(place);
            let tracked = &mut advance.case.operations[place];
            if is_awaited {
                advance.rule(place, seen, report, told);
            } else if tracked.can_be_hinted() {
                // Nobody would catch up on it.
                tracked.errand = Errand::LookUp;
                advance.learnt.insert(place);
            }
        }
        advance.step(PaymentEvent::StepFailed, None, None)?;
        if !matches!(advance.case.payment.state, PaymentState::NeedsReview(_)) {
            // It has ended, and stays as it is: nobody would look.
            advance.notice(Notice::NeedsReview);
        }
        if !is_awaited && advance.case.hinted().is_some() && advance.case.awaited().is_some() {
            // What the payment waits for has its turn now, and then both in turn.
            advance.case.payment.blocked = Some(Blocked::ProviderUnavailable);
        }
        advance.wait(waits);
        Ok(advance)
    }

    /// Prepares a payout, and sends it once that is committed.
    fn pay_out(&mut self, instance: Option<String>) -> Result<(), Stuck> {
        let payment = &self.case.payment;
        let amount = payment.quote.ok_or(Stuck::Lacking("its frozen amounts"))?.quote.outgoing_amount;
        let request = OperationRequest::Payout {
            asset: payment.order.outgoing,
            amount,
            destination_reference: payment.order.destination_reference.clone(),
        };
        let place = self.prepare(request, instance)?;
        let id = self.case.operations[place].operation.operation_id;
        self.step(PaymentEvent::PayoutPrepared, Some(id), None)?;
        self.follow = Follow::Send(place);
        Ok(())
    }

    fn prepare(&mut self, request: OperationRequest, instance: Option<String>) -> Result<usize, Stuck> {
        let payment = &self.case.payment;
        let attempt = self.case.next_attempt(request.kind());
        let operation = Operation {
            operation_id: OperationId::of(payment.payment_id, request.kind(), attempt),
            merchant_id: payment.order.merchant_id,
            payment_id: payment.payment_id,
            attempt,
            provider: payment.provider.clone().ok_or(Stuck::Lacking("its provider"))?,
            request,
            memory: Memory::NEW,
            provider_reference: None,
            bought_amount: None,
            deviation: None,
        };
        let is_conversion = operation.request.kind() == OperationKind::Conversion;
        let promise = self.case.promise().filter(|_| is_conversion);
        self.case.operations.push(Tracked::new(operation, instance, promise));
        let place = self.case.operations.len() - 1;
        self.prepared.insert(place);
        Ok(place)
    }
}
