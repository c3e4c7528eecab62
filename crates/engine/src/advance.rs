//! What follows from what happened to a case: pure, without I/O. The result is everything that one
//! transaction writes, and what the engine does once it is committed.

use std::collections::BTreeSet;

use settle_domain::actor::Actor;
use settle_domain::ids::OperationId;
use settle_domain::ledger::Postings;
use settle_domain::operation::{
    Alarm, Backoff, Class, Judgement, Memory, News, Next, Operation, OperationKind, OperationRequest,
    OperationStatus, Refusal, RefusalCode, Report, Ruling, Seen, Sends, classify,
};
use settle_domain::payment::{PaymentEvent, PaymentState};
use settle_domain::provider::ProviderName;
use settle_domain::quoting::Split;
use settle_domain::reason::Blocked;
use settle_domain::time::Timestamp;
use settle_store::{NewSettlement, StepRow};

use crate::case::{Case, Errand, Tracked};

mod arrivals;
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
        advance.wait(waits);
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
        advance.catch_up(place, told)?;
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
    /// was learnt of an operation is kept.
    pub fn failed(
        case: Case,
        learnt: Option<(usize, Seen, Option<&Report>, &Told<'_>)>,
        waits: Backoff,
        now: Timestamp,
    ) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, Actor::Engine, now);
        if let Some((place, seen, report, told)) = learnt {
            let is_awaited = advance.case.awaited() == Some(place);
            let tracked = &mut advance.case.operations[place];
            if is_awaited {
                advance.rule(place, seen, report, told);
            } else if tracked.can_be_hinted() {
                // Nobody would catch up on it: it stays as it was, and its provider is asked again.
                tracked.errand = Errand::LookUp;
                advance.learnt.insert(place);
            }
        }
        advance.step(PaymentEvent::StepFailed, None, None)?;
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

    /// `said` is what an operator says of the operation, whose provider was asked because of it.
    fn learn(
        &mut self,
        place: usize,
        seen: Seen,
        report: Option<&Report>,
        told: &Told<'_>,
        said: Option<&str>,
    ) -> Result<(), Stuck> {
        let before = self.case.operations[place].operation.memory;
        if self.case.awaited() == Some(place) && !before.status.is_open() {
            // What comes now comes after an outcome that the payment has not heard of yet.
            self.catch_up(place, told)?;
        }
        let is_reviewed = matches!(self.case.payment.state, PaymentState::NeedsReview(_));
        let known = self.case.operations[place].operation.deviation.clone();
        let (kind, id, ruling) = self.rule(place, seen, report, told);
        match ruling.news {
            Some(news) => {
                // Told when it stops the payment, and again only if the provider says something else.
                let deviation = self.case.operations[place].operation.deviation.clone();
                let is_told = seen.judgement() == Some(Judgement::Otherwise);
                let note = deviation.filter(|said| is_told && (!is_reviewed || known.as_ref() != Some(said)));
                // What is late stops the payment, and that is told. What stays unclear is looked up for ever.
                let is_outcome = matches!(news, News::Succeeded | News::Refused(_));
                let is_own = is_outcome && self.case.payment.late.is_none();
                let remark = remarks::of_outcome(before, seen, report).filter(|_| is_own);
                let note = note.or(remark);
                let note = said.map(|said| remarks::of_witness(said, seen, note.clone())).or(note);
                self.hear(kind, news, id, told, note.as_deref())?;
            }
            None if self.case.awaited() == Some(place) => {
                if !is_reviewed && self.case.payment.reason != ruling.reason {
                    self.case.payment.reason = ruling.reason;
                    self.mark_news();
                }
                self.case.payment.blocked = ruling.blocked;
                if let Some(remark) = remarks::of_doubt(before, ruling.memory, seen) {
                    self.remark(id, remark);
                }
            }
            None => {}
        }
        self.go_on(place, ruling.class, told)
    }

    /// Rules on what was seen of an operation: what is remembered of it, and what is to be done with it.
    fn rule(
        &mut self,
        place: usize,
        seen: Seen,
        report: Option<&Report>,
        told: &Told<'_>,
    ) -> (OperationKind, OperationId, Ruling) {
        let is_reviewed = matches!(self.case.payment.state, PaymentState::NeedsReview(_));
        let sends = if is_reviewed { Sends::Stopped } else { Sends::Allowed };
        let is_over = self.has_waited_for_hints();
        let is_awaited = self.case.awaited() == Some(place);
        let tracked = &mut self.case.operations[place];
        let before = tracked.operation.memory;
        // Its provider has news of it, and has not told them: it is asked again.
        let is_unheard = tracked.is_hinted() && !is_over && !tells_news(seen, told);
        let (kind, id) = (tracked.operation.request.kind(), tracked.operation.operation_id);
        let mut ruling = classify(kind, before, seen, told.window, sends);
        if is_awaited {
            // The payment has not gone on without it, and hears of its outcome when it catches up.
            ruling.memory.is_late = before.is_late;
        }
        let was_done = matches!(before.status, OperationStatus::Succeeded | OperationStatus::Returned);
        let is_news = before.status != ruling.memory.status;
        tracked.operation.memory = ruling.memory;
        if is_news {
            tracked.refusal = seen.refusal();
        }
        if let Some(report) = report {
            let operation = &mut tracked.operation;
            // What is done keeps its name: the merchant's record has it. Reconciliation finds another.
            if report.provider_reference.is_some() && !(was_done && operation.provider_reference.is_some()) {
                operation.provider_reference.clone_from(&report.provider_reference);
            }
            // It also keeps what it bought, which the books have: an older word may come after a newer one.
            if ruling.memory.status == OperationStatus::Succeeded {
                if !was_done {
                    operation.bought_amount = report.bought_amount;
                } else if report.bought_otherwise(&operation.request, operation.bought_amount) {
                    ruling.alarm = Some(Alarm::Contradiction);
                }
            }
            match seen.judgement() {
                Some(Judgement::Otherwise) => {
                    operation.deviation = Some(report.deviation(&operation.request));
                }
                Some(Judgement::AsAsked) => operation.deviation = None,
                None => {}
            }
        }
        // Whoever sends it now has its answer to come: a look-up meanwhile may be too early to find it.
        let is_under_way =
            tracked.errand == Errand::Sending && matches!(seen, Seen::Absent | Seen::LookupFailed);
        tracked.errand = match ruling.next {
            _ if is_under_way => Errand::Sending,
            _ if is_unheard => Errand::LookUp,
            Next::Send => Errand::Send,
            Next::LookUp => Errand::LookUp,
            Next::Void => Errand::Void,
            Next::Nothing => Errand::None,
        };
        self.class = Some((kind, ruling.class));
        self.learnt.insert(place);
        if is_news {
            self.mark_news();
        }
        if let Some(alarm) = ruling.alarm {
            self.notice(Notice::of_alarm(alarm));
        }
        (kind, id, ruling)
    }

    /// Whoever has seen the payment before does not know what it is now.
    const fn mark_news(&mut self) {
        self.case.news_version = self.seen + 1;
    }

    /// The payment hears what is recorded of the operation that it waits for.
    fn catch_up(&mut self, place: usize, told: &Told<'_>) -> Result<(), Stuck> {
        let tracked = &self.case.operations[place];
        let (kind, id) = (tracked.operation.request.kind(), tracked.operation.operation_id);
        let news = match tracked.operation.memory.status {
            OperationStatus::Succeeded => News::Succeeded,
            OperationStatus::Returned => News::Returned,
            OperationStatus::Refused | OperationStatus::GivenUp => {
                News::Refused(tracked.refusal.unwrap_or_else(|| {
                    Refusal::of(match kind {
                        OperationKind::Conversion => RefusalCode::ConversionRefused,
                        OperationKind::Payout | OperationKind::Refund => RefusalCode::PayoutRefused,
                    })
                }))
            }
            OperationStatus::Prepared | OperationStatus::Accepted | OperationStatus::Unknown => {
                return Err(Stuck::Lacking("an outcome"));
            }
        };
        self.hear(kind, news, id, told, None)
    }

    /// The payment hears of its operation.
    fn hear(
        &mut self,
        kind: OperationKind,
        news: News,
        id: OperationId,
        told: &Told<'_>,
        note: Option<&str>,
    ) -> Result<(), Stuck> {
        if (kind, news) == (OperationKind::Conversion, News::Succeeded) {
            let frozen = self.case.payment.quote.ok_or(Stuck::Lacking("its frozen amounts"))?;
            let place = self.case.position(id).ok_or(Stuck::Lacking("its conversion"))?;
            let bought = self.case.operations[place].operation.bought_amount;
            let bought = bought.ok_or(Stuck::Lacking("what was bought"))?;
            let corridor = told.corridor.ok_or(Stuck::Lacking("its corridor"))?;
            self.case.payment.split = Some(Split::of(&frozen, &corridor.pricing, bought)?);
            self.is_priced = true;
        }
        self.step(PaymentEvent::Operation(kind, news), Some(id), note)?;
        if news == News::LateReturned
            && let Some(late) = &mut self.case.payment.late
        {
            // One has come back; another that moved without the payment has not.
            late.moved |= self.case.operations.iter().any(|tracked| {
                let operation = &tracked.operation;
                let Memory { status, is_late, .. } = operation.memory;
                is_late && status == OperationStatus::Succeeded && operation.request.kind() == late.kind
            });
        }
        if matches!(self.case.payment.state, PaymentState::Completed { is_returned: false })
            && news == News::Succeeded
        {
            self.complete(id)?;
        }
        Ok(())
    }

    /// The settlement of a payment that is completed by this operation.
    fn complete(&mut self, payout: OperationId) -> Result<(), Stuck> {
        let place = self.case.position(payout).ok_or(Stuck::Lacking("its payout"))?;
        let reference = self.case.operations[place].operation.provider_reference.clone();
        let completed = self.case.payment.completed(self.now, reference);
        self.settlement = Some(completed.ok_or(Stuck::Lacking("its frozen amounts"))?.into());
        Ok(())
    }

    /// What the engine does next with the payment.
    fn go_on(&mut self, place: usize, class: Class, told: &Told<'_>) -> Result<(), Stuck> {
        if self.case.operations[place].is_hinted() {
            // Nothing goes out before its provider has told what it hinted at.
            if !self.is_at_rest() {
                self.case.payment.blocked = Some(Blocked::ProviderUnavailable);
            }
            self.wait(told.waits);
            return Ok(());
        }
        match self.case.payment.state {
            // What people gave up, or its provider hinted at, is looked up before anything is sent in its
            // place.
            PaymentState::Converted
                if told.may_send
                    && told.instance.is_some()
                    && self.case.is_own(place)
                    && self.case.doubtful().is_empty()
                    && self.case.hinted().is_none() =>
            {
                self.pay_out(told.instance.clone())
            }
            PaymentState::Received | PaymentState::Converted => {
                self.follow = Follow::Again;
                Ok(())
            }
            _ if self.case.awaited() == Some(place) => {
                match self.case.operations[place].errand {
                    // Something else may have moved: that is asked first, and this in turn.
                    Errand::Send if class == Class::Absent && self.case.hinted().is_some() => {
                        self.case.operations[place].errand = Errand::LookUp;
                        self.wait(told.waits);
                    }
                    Errand::Send if class == Class::Absent && told.may_send => {
                        self.case.operations[place].errand = Errand::Sending;
                        self.follow = Follow::Send(place);
                    }
                    Errand::Send if class == Class::Absent => {
                        self.case.payment.blocked = Some(Blocked::ProviderUnavailable);
                        self.wait(told.waits);
                    }
                    Errand::Void => {
                        self.remark(self.case.operations[place].operation.operation_id, remarks::VOIDS);
                        self.follow = Follow::Void(place);
                    }
                    Errand::Sending | Errand::LookUp if self.is_in_doubt(place) => {
                        self.wait_in_doubt(told.waits);
                    }
                    Errand::Sending | Errand::Send | Errand::LookUp | Errand::None => self.wait(told.waits),
                }
                Ok(())
            }
            // Another operation is in flight: this one changes nothing of when it is looked at.
            _ if self.case.awaited().is_some() => {
                self.follow = Follow::Wait;
                self.case.due_at.get_or_insert(self.now);
                Ok(())
            }
            _ => {
                self.rest();
                Ok(())
            }
        }
    }
}

/// Whether a provider has now told what it hinted at, or will not be waited for. An answer to a send is older
/// than the hint.
const fn tells_news(seen: Seen, told: &Told<'_>) -> bool {
    match seen {
        Seen::Found(_) | Seen::Absent | Seen::Voided(_) => true,
        Seen::LookupFailed => !told.awaits_hint,
        Seen::NotSent
        | Seen::TurnedAway(_)
        | Seen::Unauthorised { .. }
        | Seen::Conflict
        | Seen::Answered(_)
        | Seen::Unclear
        | Seen::VoidFailed => false,
    }
}
