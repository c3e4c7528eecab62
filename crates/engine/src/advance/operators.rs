//! Advances by operators.

use settle_domain::actor::Actor;
use settle_domain::ledger::{Held, PostingFault, excess};
use settle_domain::money::Decimal;
use settle_domain::operation::{Memory, OperationKind, OperationRequest, OperationStatus, Report, Seen};
use settle_domain::payment::{
    Act, FieldFault, Mark, Outcome, PaymentEvent, PaymentState, Problem, Review, checked_amount,
};
use settle_domain::quoting::Split;
use settle_domain::time::Timestamp;

use super::{Advance, Follow, Stuck, Told};
use crate::case::{Case, Errand};

/// What an operator does.
#[derive(Debug, Clone)]
pub struct Deed {
    /// What.
    pub act: Act,
    /// Who.
    pub by: Actor,
    /// Why, and how the operator knows.
    pub evidence: String,
    /// Another destination of a retry.
    pub destination_reference: Option<String>,
    /// What moved, as the operator says: of a conversion what was bought.
    pub amount: Option<Decimal>,
    /// The provider's name for the operation, as the operator says.
    pub provider_reference: Option<String>,
}

impl Advance {
    /// An operator acts. `told` speaks of the provider of the operation that the payment waits for, or that
    /// moved without it, if there is one.
    pub fn acted(case: Case, deed: &Deed, told: Option<&Told<'_>>, now: Timestamp) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, deed.by, now);
        let mut note = deed.evidence.clone();
        let questioned = advance.case.questioned();
        if let (Act::Resolve(outcome), Some(place)) = (deed.act, questioned) {
            advance.bear_witness(place, outcome, deed, told)?;
        }
        if let (Act::Retry, Some(destination)) = (deed.act, &deed.destination_reference) {
            let order = &mut advance.case.payment.order;
            let old = std::mem::replace(&mut order.destination_reference, destination.clone());
            note = format!("{note} (to {destination} instead of {old})");
        }
        let operation = questioned.map(|place| advance.case.operations[place].operation.operation_id);
        let note = Some(note.as_str()).filter(|note| !note.is_empty());
        let mark = advance.step(PaymentEvent::Operator(deed.act), operation, note)?;
        if let (Some(mark), Some(place)) = (mark, questioned) {
            let tracked = &mut advance.case.operations[place];
            let (is_unsent, age) = (tracked.is_unsent(), tracked.age());
            tracked.operation.memory = mark.apply(tracked.operation.memory);
            tracked.errand = match mark {
                Mark::Succeeded | Mark::Adopted(_) => Errand::None,
                // Nobody has it: there is nothing to look up.
                Mark::GivenUp if is_unsent => {
                    tracked.operation.memory.status = OperationStatus::Refused;
                    Errand::None
                }
                Mark::GivenUp => {
                    tracked.given_up_after = Some(age);
                    Errand::LookUp
                }
            };
            advance.learnt.insert(place);
            let operation = &advance.case.operations[place].operation;
            let payment = &mut advance.case.payment;
            match (mark, &operation.request) {
                // What it bought lies there, whoever the payment was bound to meanwhile.
                (Mark::Adopted(_), OperationRequest::Conversion { .. }) => {
                    payment.provider = Some(operation.provider.clone());
                }
                // It was paid there, wherever a retry was to pay it meanwhile.
                (Mark::Adopted(_), OperationRequest::Payout { destination_reference, .. }) => {
                    payment.order.destination_reference.clone_from(destination_reference);
                }
                _ => {}
            }
        }
        let order = &advance.case.payment.order;
        let (is_bought, state) = (order.incoming != order.outgoing, advance.case.payment.state);
        if deed.act == Act::Retry
            && (state == PaymentState::Received || state == PaymentState::Converted && !is_bought)
        {
            // It begins anew, and nothing of it lies at a provider: what is asked next binds it to the
            // corridor's present one.
            advance.case.payment.provider = None;
        }
        match advance.case.payment.state {
            PaymentState::Refunding(_) => advance.pay_back()?,
            PaymentState::Received | PaymentState::Converted => advance.case.due_at = Some(now),
            PaymentState::Completed { is_returned: false } => {
                if let Some(id) = operation {
                    advance.complete(id)?;
                }
                advance.rest();
            }
            _ => advance.rest(),
        }
        Ok(advance)
    }

    /// An operator says that an operation was not done, and its provider's word decides.
    pub fn confirmed(
        case: Case,
        place: usize,
        (seen, report): (Seen, Option<&Report>),
        deed: &Deed,
        told: &Told<'_>,
        now: Timestamp,
    ) -> Result<Advance, Stuck> {
        let mut advance = Advance::of(case, deed.by, now);
        // The engine sends what follows: nobody here does.
        let told = Told { may_send: false, ..told.clone() };
        advance.learn(place, seen, report, &told, Some(&deed.evidence))?;
        if advance.follow != Follow::Wait {
            advance.follow = Follow::Wait;
            advance.case.due_at = Some(now);
        }
        Ok(advance)
    }

    /// The provider is about to be asked never to begin an operation.
    #[must_use]
    pub fn voids(case: Case, place: usize, now: Timestamp) -> Advance {
        let mut advance = Advance::of(case, Actor::Engine, now);
        advance.case.operations[place].operation.memory.was_voided = true;
        advance.learnt.insert(place);
        advance
    }

    /// Whether one person's word of what moved is not enough.
    #[must_use]
    pub fn needs_two(&self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Converted => self.is_off_quote(),
            Outcome::Paid | Outcome::Refunded => self.is_beyond,
            Outcome::NotPaid | Outcome::NotConverted | Outcome::NotRefunded => false,
        }
    }

    /// Whether a person calls more than 1 % more or less bought than was quoted, or anything bought as quoted
    /// of which the provider says otherwise. Without a quote it does.
    #[must_use]
    fn is_off_quote(&self) -> bool {
        let bought = self.case.payment.split.map(|split| split.bought);
        let is_near =
            bought.zip(self.case.promise()).is_some_and(|(bought, promise)| promise.is_near(bought));
        let is_disputed =
            self.learnt.iter().any(|place| self.case.operations[*place].operation.deviation.is_some());
        !is_near || is_disputed
    }

    /// A person says that an operation was not done, and the provider that what it did has come back: the
    /// money is where it was before, and the operation moves no more.
    pub fn came_back(&mut self, place: usize, report: Option<&Report>) {
        let tracked = &mut self.case.operations[place];
        let operation = &mut tracked.operation;
        operation.memory = Memory { status: OperationStatus::Returned, is_late: true, ..operation.memory };
        if let Some(reference) = report.and_then(|report| report.provider_reference.clone()) {
            operation.provider_reference = Some(reference);
        }
        tracked.errand = Errand::None;
        self.learnt.insert(place);
        self.rest();
    }

    /// What a person says really moved.
    fn bear_witness(
        &mut self,
        place: usize,
        outcome: Outcome,
        deed: &Deed,
        told: Option<&Told<'_>>,
    ) -> Result<(), Stuck> {
        let operation = &mut self.case.operations[place].operation;
        let is_done = operation.memory.status == OperationStatus::Succeeded;
        // What its provider says of what it did stays, also in the books.
        if deed.provider_reference.is_some() && !(is_done && operation.provider_reference.is_some()) {
            operation.provider_reference.clone_from(&deed.provider_reference);
        }
        // If another conversion has served the payment, the late one stays the house's.
        let is_houses = self.case.payment.state == PaymentState::NeedsReview(Review::Halted(Held::Outgoing));
        if outcome == Outcome::Converted && !is_houses {
            let known = operation.bought_amount.filter(|_| is_done);
            let bought = deed.amount.or(operation.bought_amount);
            let bought = bought.ok_or(Stuck::Lacking("the amount that was bought"))?;
            let bought = checked_amount("amount", bought, self.case.payment.order.outgoing)?;
            if let Some(known) = known.filter(|known| *known != bought) {
                return Err(FieldFault { field: "amount", problem: Problem::OnRecord(known) }.into());
            }
            operation.bought_amount = Some(bought);
            let frozen = self.case.payment.quote.ok_or(Stuck::Lacking("its frozen amounts"))?;
            let corridor = told.and_then(|told| told.corridor).ok_or(Stuck::Lacking("its corridor"))?;
            self.case.payment.split = Some(Split::of(&frozen, &corridor.pricing, bought)?);
            if self.case.payment.completed(self.now, None).is_none() {
                // Its payout would go out, and could not be recorded.
                return Err(FieldFault { field: "amount", problem: Problem::TooLittle }.into());
            }
            self.is_priced = true;
            return Ok(());
        }
        let is_of_it = outcome.kind() == operation.request.kind();
        let Some(amount) = deed.amount.filter(|_| is_of_it) else { return Ok(()) };
        let known = operation.bought_amount.filter(|_| is_houses);
        match outcome {
            Outcome::Paid | Outcome::Refunded => self.moved(outcome.kind(), amount),
            Outcome::Converted if known == Some(amount) => Ok(()),
            Outcome::Converted | Outcome::NotPaid | Outcome::NotConverted | Outcome::NotRefunded => {
                Err(FieldFault { field: "amount", problem: Problem::Needless }.into())
            }
        }
    }

    /// A person says how much a payout or refund moved. Whoever should have it has the whole amount, or it is
    /// not done; what they have beyond it is the house's loss.
    fn moved(&mut self, kind: OperationKind, amount: Decimal) -> Result<(), Stuck> {
        let books = self.case.payment.books();
        let asset = if kind == OperationKind::Refund { books.incoming } else { books.outgoing };
        let amount = checked_amount("amount", amount, asset)?;
        let beyond = match excess(kind, amount, &books) {
            Err(PostingFault::TooLittle(owed)) => {
                return Err(FieldFault { field: "amount", problem: Problem::LessThanOwed(owed) }.into());
            }
            beyond => beyond?,
        };
        self.is_beyond = !beyond.lines().is_empty();
        self.beyond = Some(beyond);
        Ok(())
    }

    /// Prepares the refund. The engine sends it when it finds it due.
    fn pay_back(&mut self) -> Result<(), Stuck> {
        let order = &self.case.payment.order;
        let request = OperationRequest::Refund {
            asset: order.incoming,
            amount: order.incoming_amount,
            payin_reference: order.payin.reference().to_owned(),
        };
        let place = self.prepare(request, None)?;
        self.case.operations[place].errand = Errand::Send;
        self.case.due_at = Some(self.now);
        Ok(())
    }
}
