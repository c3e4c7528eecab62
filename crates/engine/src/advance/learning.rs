//! What is learnt of an operation, what its payment hears of it, and what the engine does next.

use settle_domain::ids::OperationId;
use settle_domain::operation::{
    Alarm, Class, Judgement, News, Next, OperationKind, OperationStatus, Refusal, RefusalCode, Report,
    Ruling, Seen, Sends, classify,
};
use settle_domain::payment::{PaymentEvent, PaymentState};
use settle_domain::quoting::Split;
use settle_domain::reason::Blocked;

use super::{Advance, Follow, Notice, Stuck, Told, remarks};
use crate::case::Errand;

impl Advance {
    /// `said` is what an operator says of the operation, whose provider was asked because of it.
    pub(super) fn learn(
        &mut self,
        place: usize,
        seen: Seen,
        report: Option<&Report>,
        told: &Told<'_>,
        said: Option<&str>,
    ) -> Result<(), Stuck> {
        let before = self.case.operations[place].operation.memory;
        let mut said = said;
        if self.case.awaited() == Some(place) && before.status.is_closed() {
            // What comes now comes after a refusal that the payment has not heard of yet.
            self.catch_up(place, told, said.take())?;
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
    pub(super) fn rule(
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

    /// The payment hears what is recorded of the operation that it waits for.
    pub(super) fn catch_up(
        &mut self,
        place: usize,
        told: &Told<'_>,
        said: Option<&str>,
    ) -> Result<(), Stuck> {
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
        self.hear(kind, news, id, told, said)
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
        if news == News::LateReturned && self.case.payment.late.is_some_and(|late| !late.moved) {
            self.case.payment.late = self.case.astray().or(self.case.payment.late);
        }
        if matches!(self.case.payment.state, PaymentState::Completed { is_returned: false })
            && news == News::Succeeded
        {
            self.complete(id)?;
        }
        Ok(())
    }

    /// The settlement of a payment that is completed by this operation.
    pub(super) fn complete(&mut self, payout: OperationId) -> Result<(), Stuck> {
        let place = self.case.position(payout).ok_or(Stuck::Lacking("its payout"))?;
        let reference = self.case.operations[place].operation.provider_reference.clone();
        let completed = self.case.payment.completed(self.now, reference);
        self.settlement = Some(completed.ok_or(Stuck::Lacking("its frozen amounts"))?.into());
        Ok(())
    }

    /// What the engine does next with the payment.
    pub(super) fn go_on(&mut self, place: usize, class: Class, told: &Told<'_>) -> Result<(), Stuck> {
        if self.case.operations[place].is_hinted() {
            // Nothing goes out before its provider has told what it hinted at.
            if !self.is_at_rest() {
                self.case.payment.blocked = Some(Blocked::ProviderUnavailable);
            }
            self.wait_for_awaited(told.waits);
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
                        self.wait_for_awaited(told.waits);
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
                    Errand::Sending | Errand::LookUp => self.wait_for_awaited(told.waits),
                    Errand::Send | Errand::None => self.wait(told.waits),
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
